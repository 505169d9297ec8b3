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

// Grace is the time that a command has for cleaning up before it is killed.
const Grace = 200 * time.Millisecond

// lookTime is the interval at which the dump pipe is read while a command runs. Regular reading is necessary because
// a shell's dump can be larger than the pipe.
const lookTime = 50 * time.Millisecond

// settleTime is roughly the time that processes have for ending after the shell, before they count as left running.
const settleTime = 64 * time.Millisecond

// maxDump limits how much of a shell's dump is read.
const maxDump = 2 << 20

// Command is a command to run.
type Command struct {
	Seed
	Text string
	// Stdin is the text of the standard input. A nil Stdin means no input.
	Stdin *string
	// KeepStdin keeps the standard input open. The caller can then call [Process.Write].
	KeepStdin      bool
	Stdout, Stderr io.Writer
	// RestOut and RestErr receive the output that remaining processes write after the end of the shell.
	RestOut, RestErr io.Writer

	kind session.Kind
}

// Ending is the reason why a shell ended.
type Ending int

// The possible reasons why a shell ended.
const (
	Exited Ending = iota
	TimedOut
	Canceled
)

// Outcome describes how a command ended.
type Outcome struct {
	Ending Ending
	// Exit is the shell's exit status. It is 128 + N if signal N ended the shell.
	Exit int
	// Signal is the name of the signal that ended the shell. It is also set if the exit status shows that a signal
	// ended the command. Otherwise it is empty.
	Signal   string
	Duration time.Duration
	// Snapshot is the state of the shell at its end. If StateErr is not nil, Snapshot contains at most the working
	// directory.
	Snapshot *session.Snapshot
	// StateErr is the error of [session.Parse]. It is nil if the snapshot is complete.
	StateErr error
	// Kept means that the command changed nothing in the session's state except the last status. In this case
	// Snapshot and StateErr are nil.
	Kept bool
	// Fresh means that the state could not be restored. The command then ran in a new session.
	Fresh bool
	// Background contains the ids of processes that the command left running.
	Background []int
}

// Process is a running command. Its methods are safe for concurrent use.
type Process struct {
	runner *Runner
	c      Command
	began  time.Time
	stop   chan Ending
	done   chan struct{}

	// writing serializes writes to standard input.
	writing chan struct{}
	// attached is closed when the command has been passed to a shell.
	attached   chan struct{}
	attachOnce sync.Once

	mu    sync.Mutex
	shell *instance // the shell that runs the command, or that ran it last
	stdin *os.File  // nil if standard input is closed
	inode uint64    // inode number of the pipe of standard input

	// The following fields are set before the channel "done" is closed.
	out *Outcome
	err error
}

// Done returns a channel that is closed when the command has ended and all its output is written.
func (p *Process) Done() <-chan struct{} { return p.done }

// Outcome waits for the end of the command. An error means that the command did not run.
func (p *Process) Outcome() (*Outcome, error) {
	<-p.done
	return p.out, p.err
}

// KeepsDirectory reports whether the command certainly leaves the directory of the shell unchanged.
func (p *Process) KeepsDirectory() bool { return p.c.kind != session.Ordinary }

// Began returns the time at which the command was started.
func (p *Process) Began() time.Time { return p.began }

// Stop kills the command and its processes. The first call of Stop sets the reason in the outcome.
func (p *Process) Stop(why Ending) {
	select {
	case p.stop <- why:
	default:
	}
}

// tree returns the process tree of the shell that runs the command. It returns nil if the command has no shell yet.
func (p *Process) tree() *process.Tree {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shell == nil {
		return nil
	}
	return p.shell.tree
}

// Alive returns the ids of the command's running processes.
func (p *Process) Alive() []int {
	if t := p.tree(); t != nil {
		return t.Alive()
	}
	return nil
}

// Kill kills all processes of the command, even after the command has ended. It waits until no such process exists.
func (p *Process) Kill() {
	p.Stop(Canceled)
	<-p.done
	if t := p.tree(); t != nil {
		t.Kill(Grace)
	}
}

// run runs the command in a shell. A shell that fails to restore the state, or is killed while it waits, has not begun
// the command. In this case, run tries another shell. The command therefore cannot run twice.
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
	go in.leave(told) // the result does not depend on leave, so do not wait for it
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
		out.Background = remaining(in.tree.Alive)
	}
	return out, nil
}

// remaining returns the processes that still run after a short wait. The wait lets processes end that are about to: the
// process of the substitution <(command) has often closed its output, but not yet ended, when the shell ends.
func remaining(alive func() []int) []int {
	pids := alive()
	for wait := time.Millisecond; len(pids) > 0 && wait < settleTime; wait *= 2 {
		time.Sleep(wait)
		pids = alive()
	}
	return pids
}

// untilEnd waits for the end of the shell, or kills the shell. If the shell reports the exit status and the command
// left no process, untilEnd returns early, and the result "told" is true. In this case it does not wait for the shell's
// exit, during which the kernel mainly frees memory.
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
	default: // the process was killed but is still blocked in a system call
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

// signalOf returns the name of the signal that an exit status encodes.
func signalOf(exit int) string {
	if exit <= 128 {
		return ""
	}
	return unix.SignalName(syscall.Signal(exit - 128))
}
