package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/bash/process"
	"toolhost.dev/plugins/bash/session"
)

// Grace is how long a command that must end has to clean up.
const Grace = 200 * time.Millisecond

// lookTime is how often it is looked at whether a shell waits because it tells more of its
// state than its pipe holds.
const lookTime = 50 * time.Millisecond

// maxDump bounds what is read of a shell's state.
const maxDump = 2 << 20

// Command is what a shell is to run.
type Command struct {
	Seed
	Text string
	// Stdin is the standard input; nil if there is none.
	Stdin *string
	// KeepStdin keeps the standard input open, for [Process.Write].
	KeepStdin      bool
	Stdout, Stderr io.Writer
	// RestOut and RestErr take what comes after the shell's end, of what it left running.
	RestOut, RestErr io.Writer

	kind session.Kind
}

// Ending is why a shell ended.
type Ending int

// The endings.
const (
	Exited Ending = iota
	TimedOut
	Canceled
)

// Outcome is how a command ended.
type Outcome struct {
	Ending Ending
	// Exit is the shell's exit status, 128 + N when signal N ended it.
	Exit int
	// Signal is the name of the signal that ended the shell, or the command as its
	// exit status tells; empty if there is none.
	Signal   string
	Duration time.Duration
	// Snapshot is the state the shell was in at its end. It may be there with an
	// error: then it has the working directory only.
	Snapshot *session.Snapshot
	// StateErr says why there is no whole snapshot, as [session.Parse] does.
	StateErr error
	// Kept: the command is one that leaves the state as it is, but for the last status. Then
	// there is neither a snapshot nor an error.
	Kept bool
	// Fresh: the state could not be restored, and the command ran in a new session.
	Fresh bool
	// Background are the processes that the command left running.
	Background []int
}

// Process is a command that runs. Its methods are safe for concurrent use.
type Process struct {
	runner *Runner
	c      Command
	began  time.Time
	stop   chan Ending
	done   chan struct{}

	// writing is taken by who writes to the standard input.
	writing chan struct{}
	// attached is closed when there is a shell that runs the command.
	attached   chan struct{}
	attachOnce sync.Once

	mu    sync.Mutex
	shell *instance // the one that runs it, or ran it last
	stdin *os.File  // nil: closed
	inode uint64    // of the pipe that stdin is of

	// Set before done is closed.
	out *Outcome
	err error
}

// Done is closed when the command has ended, and all that it printed was written.
func (p *Process) Done() <-chan struct{} { return p.done }

// Outcome waits for the end. An error means that the command did not run at all.
func (p *Process) Outcome() (*Outcome, error) {
	<-p.done
	return p.out, p.err
}

// Began is when the command was given.
func (p *Process) Began() time.Time { return p.began }

// Stop kills all of the command. The first call tells the ending.
func (p *Process) Stop(why Ending) {
	select {
	case p.stop <- why:
	default:
	}
}

// tree is of the shell that runs the command; nil if there is none yet.
func (p *Process) tree() *process.Tree {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shell == nil {
		return nil
	}
	return p.shell.tree
}

// Alive returns the processes of the command that run.
func (p *Process) Alive() []int {
	if t := p.tree(); t != nil {
		return t.Alive()
	}
	return nil
}

// Kill kills what runs of a command, after its end too, and returns when it is gone.
func (p *Process) Kill() {
	p.Stop(Canceled)
	<-p.done
	if t := p.tree(); t != nil {
		t.Kill(Grace)
	}
}

// run carries the command out. A shell that could not restore the state, or was killed while
// it waited, ends before it gets to the command, so the next one does not run it a second time.
func (p *Process) run(warm *instance) {
	defer close(p.done)
	fresh := false
	for {
		in := warm
		if in == nil {
			if in, p.err = newInstance(p.runner.keeper, &p.c.Seed, &p.c); p.err != nil {
				return
			}
		}
		p.out, p.err = p.attempt(in)
		ended := p.err == nil && p.out.Ending == Exited
		notRestored := ended && errors.Is(p.out.StateErr, session.ErrNotRestored)
		switch {
		case warm != nil && ended && (notRestored || in.asleep):
			warm = nil
		case notRestored && p.c.State.Snapshot != nil:
			fresh = true
			p.c.State = session.State{}
		default:
			if p.out != nil {
				p.out.Fresh = fresh
			}
			return
		}
	}
}

// attempt runs the command in a shell that waits for it.
func (p *Process) attempt(in *instance) (*Outcome, error) {
	if err := in.wake(&p.c); err != nil {
		in.discard()
		return nil, err
	}
	p.attach(in)
	stdout := startPump(in.stdout, p.c.Stdout, p.c.RestOut, quietTime)
	stderr := startPump(in.stderr, p.c.Stderr, p.c.RestErr, quietTime)

	out := &Outcome{}
	var told bool
	out.Ending, out.Exit, told = p.untilEnd(in)
	p.closeStdin()
	for _, p := range []*pump{stdout, stderr} {
		p.shellEnded(told)
	}
	if !told {
		in.dump.read()
		in.slept()
	}
	go in.leave(told) // the result need not wait for that
	for _, p := range []*pump{stdout, stderr} {
		<-p.done
	}
	out.Duration = time.Since(p.began)
	if told {
		out.Kept, out.Signal = true, signalOf(out.Exit)
		return out, nil
	}
	if err := out.setStatus(in.tree); err != nil {
		return nil, err
	}
	var err error
	if out.Snapshot, err = session.Parse(in.dump.kept); err != nil {
		out.StateErr = err
	}
	if p.c.kind != session.Ordinary && errors.Is(err, session.ErrNoDump) {
		out.Kept, out.StateErr = true, nil
	}
	if out.Ending == Exited {
		out.Background = in.tree.Alive()
	}
	return out, nil
}

// untilEnd waits for the shell's end, or brings it about. When the shell has told that the
// command is over, and it has left nothing, it is not waited for what is left to the shell: to
// end, of which the kernel takes the longest part, giving back its memory. Then told is true.
func (p *Process) untilEnd(in *instance) (why Ending, exit int, told bool) {
	var tells <-chan int
	var looks <-chan time.Time
	if p.c.kind >= session.NoBackground {
		tells = in.listen()
	}
	if p.c.kind == session.Ordinary {
		ticker := time.NewTicker(lookTime)
		defer ticker.Stop()
		looks = ticker.C
	}
	for {
		select {
		case <-in.tree.Done():
			return Exited, 0, false
		case exit := <-tells:
			if in.tree.Over(p.c.kind != session.BuiltinOnly) {
				return Exited, exit, true
			}
		case <-looks:
			in.dump.read()
		case why := <-p.stop:
			select {
			case <-in.tree.Done():
				return Exited, 0, false
			default:
				in.tree.Kill(Grace)
				return why, 0, false
			}
		}
	}
}

func (o *Outcome) setStatus(tree *process.Tree) error {
	select {
	case <-tree.Done():
	default: // killed, but in a system call that does not return
		o.Exit, o.Signal = 128+int(unix.SIGKILL), unix.SignalName(unix.SIGKILL)
		return nil
	}
	if tree.State() == nil {
		return fmt.Errorf("the shell was lost: %w", tree.Err())
	}
	status, ok := tree.State().Sys().(syscall.WaitStatus)
	if !ok {
		return errors.New("the shell's exit status is not known")
	}
	o.Exit = status.ExitStatus()
	if status.Signaled() {
		o.Exit = 128 + int(status.Signal())
	}
	o.Signal = signalOf(o.Exit)
	return nil
}

// signalOf returns the name of the signal that an exit status tells of.
func signalOf(exit int) string {
	if exit <= 128 {
		return ""
	}
	return unix.SignalName(syscall.Signal(exit - 128))
}
