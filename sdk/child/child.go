// Package child implements child processes that end together with everything they start, and with
// the plugin. [Start] starts one.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a started program. Its methods are safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // set before exited is closed
}

// Start starts a command in its own process group. It replaces the command's SysProcAttr. When the
// program ends, Start kills what the program has started in its group; set cmd.WaitDelay if that
// may keep the output open. On Linux the kernel kills the program when this process ends.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// The kernel sends the signal of the parent's death when this thread ends, so the thread
		// must not end before.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		p.Kill()
		close(p.exited)
	}()
	return p, <-started
}

// Exited returns a channel that is closed when the program has ended and its output was read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns how the program ended, as [exec.Cmd.Wait] does. Call it after Exited is closed.
func (p *Process) Err() error { return p.err }

// Kill kills the program and everything that it has started in its group.
func (p *Process) Kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
