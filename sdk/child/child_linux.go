package child

import "syscall"

// attributes returns attributes that start the command in a new process group, so that the whole group can be killed.
// The kernel kills the command when the thread that started it ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
