package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
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

// The type "group" is a process group that ends when the host ends. Its leader is a shell that waits on a pipe. Only the
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

// The method "end" kills all processes of the group. The caller must call it once.
func (g *group) end() {
	killGroup(g.id())
	_ = g.leader.Wait()
}
