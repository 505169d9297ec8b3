//go:build !linux

package supervisor

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// isStopped always returns false, because this system offers no check for stopped processes.
func isStopped(int) bool { return false }

func forkFromSafeThread(start func() error) error { return start() }
