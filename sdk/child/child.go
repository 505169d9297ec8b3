// Package child starts child processes with [Start]. When a child process ends, all processes that it has started
// are killed. A child process is also killed when the plugin ends.
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
	err    error // set before the channel "exited" is closed
}

// Start starts a command in a new process group. It replaces the command's SysProcAttr. When the command ends, all
// other processes in its group are killed. Set cmd.WaitDelay if these processes can keep the output open. On Linux,
// the kernel kills the command when this process ends.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// The kernel sends the parent-death signal when this thread ends. Therefore the thread must not end before
		// the process.
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

// Exited returns a channel that is closed after the command has ended and its output was read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns the error of [exec.Cmd.Wait]. Call Err only after Exited is closed.
func (p *Process) Err() error { return p.err }

// Kill kills the command and all processes in its group.
func (p *Process) Kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
