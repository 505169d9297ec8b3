//go:build !linux

package supervisor

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func forkFromSafeThread(start func() error) error { return start() }
