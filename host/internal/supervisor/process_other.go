//go:build !linux

package supervisor

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// isStopped reports whether a signal stopped a process. It is unknown here.
func isStopped(int) bool { return false }

func forkFromSafeThread(start func() error) error { return start() }
