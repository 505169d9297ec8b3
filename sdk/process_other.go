//go:build !linux

package sdk

import "syscall"

// hardenProcess prevents commands started by a tool from inheriting the plugin's file descriptors.
func hardenProcess() {
	for fd := 3; fd < 16; fd++ {
		syscall.CloseOnExec(fd)
	}
}
