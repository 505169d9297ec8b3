package supervisor

import (
	"runtime"
	"sync"
	"syscall"
)

// attributes puts the process in its own group, so that it can be ended with all it
// started and does not hear the terminal's Ctrl-C, and has the kernel end it when the
// thread that started it does. It gets no session of its own: the kernel schedules
// sessions as rivals, which nearly doubles the time of a round trip on a busy machine.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

var (
	forkOnce sync.Once
	forks    chan func()
)

// forkFromSafeThread runs start on a thread that lives as long as the host: the
// parent-death signal comes when the forking *thread* ends, and Go ends idle threads.
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
