package cgroup

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start configures a command to start in the group.
func (g *Group) Start(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.Dir.Fd())
}

func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }
