package child

import "syscall"

// attributes puts the program in its own process group, so that it can be killed with all it started. The kernel kills
// the program when the thread that started it ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
