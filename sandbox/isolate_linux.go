package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/confine"
)

// isolate makes the command start in new namespaces if the policy requires it. User ids are the same inside and outside
// of the namespaces. Therefore root keeps its access to other users' files, and no other user becomes root.
func isolate(cmd *exec.Cmd, p *confine.Policy) {
	if !p.Namespaces {
		return
	}
	attr := cmd.SysProcAttr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		cmd.SysProcAttr = attr
	}
	ownUsers(attr)
	attr.Cloneflags |= unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if p.OwnNetwork() {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if p.PrivateProcesses {
		attr.Cloneflags |= unix.CLONE_NEWPID
	}
	if os.Getuid() == 0 {
		attr.GidMappings = withoutLast(attr.GidMappings) // the last group owns the mask objects, see maskObject
	}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
}

// Holder makes the command start in a new user namespace and a new mount namespace, in which it can mount the overlay
// of a branch. The command gets the capabilities that the overlay needs to copy files to its upper layer. Its program
// is the launcher, or one that calls [Init].
func Holder(cmd *exec.Cmd) {
	cmd.Args[0] = launcherName
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	ownUsers(cmd.SysProcAttr)
	cmd.SysProcAttr.AmbientCaps = []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_FSETID,
	}
}

// ownUsers requests a new user namespace and a new mount namespace.
func ownUsers(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS
	attr.UidMappings = mappings("/proc/self/uid_map", os.Getuid())
	attr.GidMappings = mappings("/proc/self/gid_map", os.Getgid())
}

// mappings returns mappings that map each id to itself. For root, they contain all ids of the current user namespace,
// because root can work on files of other users. For other users, they contain only the user's own id.
func mappings(own string, id int) []syscall.SysProcIDMap {
	if os.Getuid() == 0 {
		if all := readMappings(own); len(all) > 0 {
			return all
		}
	}
	return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
}

func readMappings(path string) []syscall.SysProcIDMap {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var all []syscall.SysProcIDMap
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, size int
		if n, _ := fmt.Sscan(lines.Text(), &inside, &outside, &size); n != 3 {
			return nil
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return all
}

// foreignGroup returns a group that no sandbox of root contains. If only one group exists, it returns this group. In
// that case, root in a sandbox sees an empty file instead of an error.
func foreignGroup() (int, error) {
	all := readMappings("/proc/self/gid_map")
	if len(all) == 0 {
		return 0, errors.New("the groups of this user namespace cannot be read")
	}
	last := all[len(all)-1]
	return last.ContainerID + last.Size - 1, nil
}

// withoutLast returns mappings without their last id. It keeps the id if it is the only one.
func withoutLast(all []syscall.SysProcIDMap) []syscall.SysProcIDMap {
	n := len(all)
	switch {
	case n > 0 && all[n-1].Size > 1:
		all[n-1].Size--
	case n > 1:
		all = all[:n-1]
	}
	return all
}
