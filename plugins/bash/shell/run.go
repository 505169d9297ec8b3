package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/bash/process"
	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/sdk/tool"
)

// Grace is how long a command that must end has to clean up.
const Grace = 200 * time.Millisecond

// maxDump bounds what is read of a shell's state.
const maxDump = 2 << 20

// Command is what a shell is to run.
type Command struct {
	Bash string // path
	Text string
	// Stdin is the standard input; nil: /dev/null.
	Stdin *string
	Dir   string
	// Env is the environment of a new session; see [Environment].
	Env   []string
	State session.State
	// Tools, when not nil, is how the command reaches the host's tools.
	Tools *tool.Commands
	// Timeout, when not 0, is how long the command may take.
	Timeout        time.Duration
	Stdout, Stderr io.Writer
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
	// exit status tells; empty: none.
	Signal   string
	Duration time.Duration
	// Snapshot is the state the shell was in at its end. It may be there with an
	// error: then it has the working directory only.
	Snapshot *session.Snapshot
	// StateErr says why there is no whole snapshot, as [session.Parse] does.
	StateErr error
	// Background are the processes that the command left running.
	Background []int
}

// Run runs a command to its end. When its time is over or ctx ends, all of it is
// killed. An error means that it did not run at all.
func Run(ctx context.Context, keeper *process.Keeper, c Command) (*Outcome, error) {
	began := time.Now()
	cmd := exec.Command(c.Bash, "--norc", "--noprofile", "-c", boot, "bash") //nolint:gosec // running commands is what this is for
	cmd.Dir = c.Dir
	cmd.Env = append(slices.Clone(c.Env), "PWD="+c.Dir)
	p, err := connect(cmd, &c)
	if err != nil {
		return nil, err
	}
	tree, err := keeper.Start(cmd)
	p.closeTheirs()
	if err != nil {
		p.closeOurs()
		return nil, fmt.Errorf("cannot start %s: %w", c.Bash, err)
	}
	dump := &limited{limit: maxDump}
	stdout, stderr := startPump(p.stdout, c.Stdout, quietTime), startPump(p.stderr, c.Stderr, quietTime)
	state := startPump(p.dump, dump, 0)

	out := &Outcome{Ending: await(ctx, tree, c.Timeout)}
	for _, p := range []*pump{stdout, stderr, state} {
		p.shellEnded()
	}
	for _, p := range []*pump{stdout, stderr, state} {
		<-p.done
	}
	out.Duration = time.Since(began)
	if err := out.setStatus(tree); err != nil {
		return nil, err
	}
	if out.Snapshot, out.StateErr = session.Parse(dump.kept); dump.over {
		out.StateErr = session.ErrDump
	}
	if out.Ending == Exited {
		out.Background = tree.Alive()
	}
	return out, nil
}

// await waits for the command to end, and ends it when it must.
func await(ctx context.Context, tree *process.Tree, timeout time.Duration) Ending {
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	var ending Ending
	select {
	case <-tree.Done():
		return Exited
	case <-over:
		ending = TimedOut
	case <-ctx.Done():
		ending = Canceled
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			ending = TimedOut
		}
	}
	tree.Kill(Grace)
	return ending
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
	if o.Exit > 128 {
		o.Signal = unix.SignalName(syscall.Signal(o.Exit - 128))
	}
	return nil
}

// pipes are the ends of a shell's connections.
type pipes struct {
	stdout, stderr, dump *os.File // ours
	theirs               []*os.File
}

func (p *pipes) closeTheirs() { closeAll(p.theirs) }
func (p *pipes) closeOurs()   { closeAll([]*os.File{p.stdout, p.stderr, p.dump}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// connect gives cmd its standard streams and private descriptors.
func connect(cmd *exec.Cmd, c *Command) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			err = fmt.Errorf("cannot prepare the shell's files: %w", err)
		}
	}()
	if c.Stdin != nil {
		stdin, err := nameless(*c.Stdin)
		if err != nil {
			return p, err
		}
		p.theirs = append(p.theirs, stdin)
		cmd.Stdin = stdin // else /dev/null
	}
	private := make([]*os.File, session.DumpFD-2)
	tools, script := lend(c.Tools)
	private[commandsFD-3] = tools
	for fd, text := range map[int]string{commandFD: c.Text, scriptFD: c.State.Script(c.Env, exitTrap, script), dumpFD: session.Dump} {
		f, err := nameless(text)
		if err != nil {
			return p, err
		}
		p.theirs = append(p.theirs, f)
		private[fd-3] = f
	}
	var stdout, stderr *os.File
	for _, pipe := range []struct{ ours, theirs **os.File }{{&p.stdout, &stdout}, {&p.stderr, &stderr}, {&p.dump, &private[session.DumpFD-3]}} {
		if *pipe.ours, *pipe.theirs, err = os.Pipe(); err != nil {
			return p, err
		}
		p.theirs = append(p.theirs, *pipe.theirs)
	}
	widen(p.stdout)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = stdout, stderr, private
	return p, nil
}
