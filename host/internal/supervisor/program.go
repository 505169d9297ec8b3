package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// outputWait is the time for which the host waits for a program's output after the program ends. Other processes can
// keep the output open.
const outputWait = 500 * time.Millisecond

// Run runs a program of the operator, but not a plugin. It kills the program's process group when the program, ctx or
// the host ends.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	g, err := newGroup()
	if err != nil {
		return err
	}
	defer g.end()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.id()}
	cmd.WaitDelay = outputWait
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		select {
		case <-ctx.Done():
			killGroup(g.id())
		case <-ended:
		}
	})
	err = cmd.Wait()
	close(ended)
	killer.Wait()
	if errors.Is(err, exec.ErrWaitDelay) { // the program succeeded and its output is complete
		return nil
	}
	return err
}

// group is a process group that ends when the host ends. Its leader is a shell that waits on a pipe. Only the
// host keeps the pipe open. The kernel's parent-death signal is not sufficient, because it does not end the program's
// child processes. No other process group can get the same number before the host reaps the leader.
type group struct{ leader *exec.Cmd }

func newGroup() (*group, error) {
	leader := exec.Command("/bin/sh", "-c", "read -r line; kill -KILL 0")
	leader.Dir, leader.Env, leader.SysProcAttr = "/", []string{}, &syscall.SysProcAttr{Setpgid: true}
	_, err := leader.StdinPipe() // Wait closes the pipe
	if err == nil {
		err = leader.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("the processes of the plugin cannot be supervised: %w", err)
	}
	return &group{leader}, nil
}

func (g *group) id() int { return g.leader.Process.Pid }

// end kills all processes of the group. The caller must call it once.
func (g *group) end() {
	killGroup(g.id())
	_ = g.leader.Wait()
}

// Programs starts the programs of plugins without the operating system. Such a program has no environment, and no
// sandbox confines it. Programs must be safe for concurrent use.
type Programs interface {
	// Start starts the program in the file at a path, for a plugin. It returns without waiting until the program serves
	// the plugin.
	Start(path string, spec *Spec) (Program, error)
}

// Program is a running program of a plugin. It must be safe for concurrent use.
type Program interface {
	// PID returns the number of the program, which is greater than 0.
	PID() int
	// Connect waits until the program serves the plugin, and connects to it.
	Connect(ctx context.Context) (tool.Plugin, error)
	// Wait returns when the program has ended. The error is nil if the program succeeded.
	Wait() error
	// Stop asks the program to end. Kill ends the program.
	Stop()
	Kill()
}

// startIn starts the process as one of programs and connects to it.
func (p *process) startIn(ctx context.Context, programs Programs, spec *Spec) (tool.Plugin, error) {
	program, err := programs.Start(p.cmd.Path, spec)
	if err != nil {
		return nil, startError(p.path, err)
	}
	p.program = program
	p.version.Store(toolrpc.ProtocolVersion)
	p.closeStarted()
	go func() {
		p.exitErr = program.Wait()
		close(p.exited)
	}()
	if p.guard != nil {
		if err := p.guard(program.PID()); err != nil {
			p.refused.Store(&err)
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Kill(ctx) })
	defer stop()
	rpc, err := program.Connect(ctx)
	p.shaken.Store(err == nil)
	return rpc, err
}

// release notifies the process that the host no longer needs it.
func (p *process) release() {
	if p.program != nil {
		p.program.Stop()
		return
	}
	_ = p.lifeline.Close()
}
