package child

import "syscall"

// attributes returns the process attributes of a command. They start the command in a new process group, which can
// be killed as a whole. The kernel kills the command when the thread that started it ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
