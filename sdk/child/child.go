// Package child runs programs for a plugin, each with all that it starts: they end
// together, and with the plugin.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a program that was started. Its methods are safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // set before exited is closed
}

// Start starts a command in a process group of its own, and on Linux so that the kernel ends
// it when this process ends. The command's SysProcAttr is replaced. What the
// program has started in its group is killed when it ends; set cmd.WaitDelay where that may keep its
// output open.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// The signal of the parent's death comes when this thread ends, so it must not before.
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

// Exited is closed when the program has ended and its output was read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err is how the program ended, as of [exec.Cmd.Wait]. Call it after Exited is closed.
func (p *Process) Err() error { return p.err }

// Kill kills the program and what it has started in its group.
func (p *Process) Kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
