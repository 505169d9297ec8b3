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

// outputWait limits how long other processes can keep a program's output open after the program has ended.
const outputWait = 500 * time.Millisecond

// Run runs a program of the operator that is not a plugin. It kills the program's process group when the program has
// ended, when ctx ends, or when the host ends.
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
	if errors.Is(err, exec.ErrWaitDelay) { // the program has succeeded and its output is complete
		return nil
	}
	return err
}

// group is a process group that always ends with the host. Its leader is a shell that waits on a pipe which only the
// host holds open. The kernel's parent-death signal would end only the program, and not the program's child processes.
// The group's number stays reserved until the leader is reaped.
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

// end kills the remaining processes of the group. It must be called once.
func (g *group) end() {
	killGroup(g.id())
	_ = g.leader.Wait()
}
