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

// outputWait is how long what a program has started may keep its output open after its end.
const outputWait = 500 * time.Millisecond

// Run runs a program of the operator's that is no plugin: in a process group, which is killed
// with what the program started in it when that has ended, when ctx ends, or when the host does.
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
	if errors.Is(err, exec.ErrWaitDelay) { // the program itself has ended well, and said what it had to
		return nil
	}
	return err
}

// group is a process group that ends with the host, however that ends. Its leader is a shell that
// waits for a pipe to close that only the host holds open: the kernel's signal of a parent's
// death would come to the program alone, and not to what it started. Until the leader is
// reaped the number of the group is no other's.
type group struct{ leader *exec.Cmd }

func newGroup() (*group, error) {
	leader := exec.Command("/bin/sh", "-c", "read -r line; kill -KILL 0")
	leader.Dir, leader.Env, leader.SysProcAttr = "/", []string{}, &syscall.SysProcAttr{Setpgid: true}
	_, err := leader.StdinPipe() // which is closed when it was waited for
	if err == nil {
		err = leader.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("the processes of the plugin cannot be supervised: %w", err)
	}
	return &group{leader}, nil
}

func (g *group) id() int { return g.leader.Process.Pid }

// end kills what is left of the group. It is called once.
func (g *group) end() {
	killGroup(g.id())
	_ = g.leader.Wait()
}
