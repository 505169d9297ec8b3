package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/confine"
)

// isolate makes the command start in new namespaces if the policy requires it. User ids are the same inside and outside
// of the namespaces. Therefore root keeps its access to other users' files, and no other user becomes root. The caller
// must call [mapPlugin] after the start.
func isolate(cmd *exec.Cmd, p *confine.Policy) {
	if !p.Namespaces {
		return
	}
	attr := cmd.SysProcAttr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		cmd.SysProcAttr = attr
	}
	attr.Cloneflags |= ownUsers | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if p.OwnNetwork() {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if p.PrivateProcesses {
		attr.Cloneflags |= unix.CLONE_NEWPID
	}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	if os.Getuid() == 0 {
		attr.AmbientCaps = append(attr.AmbientCaps, confine.Kept...)
	}
	p.Unmapped = true
}

// StartHolder starts the launcher as the holder of an overlay, in a new user namespace and a new mount namespace. The
// launcher gets the capabilities that the overlay needs to copy files to its upper layer. The argument "socket" is the
// other end of the socket in the description. The process has the environment and the descriptors of cmd. The caller
// must wait for it.
func StartHolder(cmd *exec.Cmd, h confine.Hold, socket io.Writer) error {
	h.Unmapped = true
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	cmd.Args = []string{launcherName, confine.HoldArg, string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Cloneflags: ownUsers}
	cmd.SysProcAttr.AmbientCaps = []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_FSETID,
	}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, unix.CAP_SETFCAP)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := mapIDs(cmd.Process.Pid, mappings("/proc/self/gid_map", os.Getgid()), socket); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // only to release the process
		return err
	}
	return nil
}

// ownUsers requests a new user namespace and a new mount namespace. The new process shares the memory of this process
// until it executes its program. Without a user namespace, os/exec requests the same by default. A copy of the memory
// would take longer, and this process would then have to copy each page that it writes. This process cannot map the ids
// while the memory is shared, so [mapIDs] maps them when the program runs.
const ownUsers = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_VM | unix.CLONE_VFORK

// mapPlugin maps the ids of a plugin's launcher. For root, the namespace has all groups but the last one. That group
// owns the mask objects (see maskObject).
func mapPlugin(pid int, socket io.Writer) error {
	groups := mappings("/proc/self/gid_map", os.Getgid())
	if os.Getuid() == 0 {
		groups = withoutLast(groups)
	}
	return mapIDs(pid, groups, socket)
}

// mapIDs maps the user ids and the given groups in the user namespace of a launcher. Then it writes [confine.Mapped] to
// the socket of the launcher, which waits for this byte.
func mapIDs(pid int, groups []syscall.SysProcIDMap, socket io.Writer) error {
	process := filepath.Join("/proc", strconv.Itoa(pid))
	for _, f := range []struct{ name, content string }{
		{"uid_map", idLines(mappings("/proc/self/uid_map", os.Getuid()))},
		{"setgroups", "deny"}, // the kernel requires this of users other than root
		{"gid_map", idLines(groups)},
	} {
		if err := os.WriteFile(filepath.Join(process, f.name), []byte(f.content), 0); err != nil {
			return fmt.Errorf("the ids of its user namespace cannot be mapped: %w", err)
		}
	}
	_, err := socket.Write([]byte{confine.Mapped})
	return err
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

// idLines returns mappings in the form of /proc/PID/uid_map.
func idLines(all []syscall.SysProcIDMap) string {
	var out strings.Builder
	for _, m := range all {
		fmt.Fprintln(&out, m.ContainerID, m.HostID, m.Size)
	}
	return out.String()
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
