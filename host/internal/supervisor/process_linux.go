package supervisor

import (
	"runtime"
	"sync"
	"syscall"
)

// attributes puts the process in its own session and has the kernel end it when
// the thread that started it does.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
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
