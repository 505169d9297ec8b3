package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// attributes returns the attributes of a new process. The process gets a separate process group, so that
// the host can kill all its child processes. The terminal's Ctrl-C does not reach this group. The kernel ends the
// process when the host's thread that started it ends. The process stays in the host's session, because a separate
// session would nearly double the round-trip time on a busy machine.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// isStopped reports whether a signal such as SIGSTOP stopped a process.
func isStopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" ")) // skip the name in parentheses, because it can contain any character
	return ok && bytes.HasPrefix(rest, []byte("T "))
}

var (
	forkOnce sync.Once
	forks    chan func()
)

// forkFromSafeThread calls start on a thread that exists as long as the host. Go ends idle threads, and the kernel
// sends the parent-death signal when the thread that forked a process ends.
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
