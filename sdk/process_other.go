//go:build !linux

package sdk

import "syscall"

// hardenProcess prevents that commands started by a tool inherit the plugin's file descriptors.
func hardenProcess() {
	for fd := 3; fd < 16; fd++ {
		syscall.CloseOnExec(fd)
	}
}
