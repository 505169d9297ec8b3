//go:build !linux

package sdk

import "syscall"

// hardenProcess keeps the commands a tool starts from inheriting what the plugin has
// inherited.
func hardenProcess() {
	for fd := 3; fd < 16; fd++ {
		syscall.CloseOnExec(fd)
	}
}
