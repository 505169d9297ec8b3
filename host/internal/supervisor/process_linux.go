package supervisor

import (
	"runtime"
	"sync"
	"syscall"
)

// attributes starts the process in its own process group, so that the host can kill all its child processes and the
// terminal's Ctrl-C does not reach it. The kernel ends the process when the host's thread that started it ends. The
// process gets no separate session, because the kernel then schedules it against the host, which nearly doubles the
// round-trip time on a busy machine.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

var (
	forkOnce sync.Once
	forks    chan func()
)

// forkFromSafeThread runs start on a thread that lives as long as the host. The kernel sends the parent-death signal
// when the forking thread ends, and Go ends idle threads.
func forkFromSafeThread(start func() error) error {
	forkOnce.Do(func() {
		forks = make(chan func())
		go func() {
			runtime.LockOSThread()
			for f := range forks {
				f()
			}
		}()
	})
	done := make(chan error, 1)
	forks <- func() { done <- start() }
	return <-done
}
