package child

import "syscall"

// attributes puts the program in its own group, to be ended with all it started, and has the
// kernel end it when the thread that started it ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
