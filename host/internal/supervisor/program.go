package supervisor

import (
	"context"
	"os/exec"
)

// Run runs a program of the operator's that is no plugin: in a process group of its own, which
// is killed with all that the program started when that has ended, when ctx ends, or when
// the host does.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	cmd.SysProcAttr = attributes()
	killWithHost(cmd.SysProcAttr)
	cmd.WaitDelay = stopTimeout // for what it started that holds its output open
	if err := forkFromSafeThread(cmd.Start); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	stop := context.AfterFunc(ctx, func() { killGroup(pid) })
	err := cmd.Wait()
	if stop() {
		killGroup(pid)
	}
	return err
}
