package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/sandbox/confine"
)

// Inside gives access to the root file system and the masks of a running plugin with the backend ns.
type Inside struct {
	root    int // the plugin's root, with its mounts
	process *os.File
}

// Enter returns the inside of a running plugin. The plugin must be a child of this process that was not waited for.
func Enter(pid int) (*Inside, error) {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the root of the plugin cannot be opened: %w", err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the process of the plugin cannot be opened: %w", err), unix.Close(root))
	}
	return &Inside{root, os.NewFile(uintptr(fd), "plugin")}, nil
}

// Close releases the descriptors.
func (in *Inside) Close() error { return errors.Join(unix.Close(in.root), in.process.Close()) }

// Object identifies a file or directory.
type Object struct {
	DevMajor, DevMinor uint32
	Inode              uint64
}

// Stat returns the object at an absolute path as the plugin sees it, and whether it is a mount. It follows no link at the
// end of the path. A missing path is [fs.ErrNotExist].
func (in *Inside) Stat(path string) (o Object, mounted bool, err error) {
	var st unix.Statx_t
	if err := unix.Statx(in.root, strings.TrimPrefix(path, "/"), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st); err != nil {
		return o, false, err
	}
	return Object{st.Dev_major, st.Dev_minor, st.Ino}, st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// ObjectAt returns the object at a path outside of sandboxes.
func ObjectAt(path string) (Object, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &st)
	return Object{st.Dev_major, st.Dev_minor, st.Ino}, err
}

// Mask mounts masks in the sandbox of the plugin, with a warden. Tools cannot see the warden, which ends before Mask
// returns. The error is [ErrEnded] if the plugin has ended.
func (in *Inside) Mask(launcher, dir string, masks []confine.Mask) error {
	request, err := json.Marshal(confine.WardenRequest{MaskDir: dir, Masks: masks})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), launchTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, launcher)
	cmd.Args, cmd.Env, cmd.Dir = []string{confine.WardenName}, []string{}, "/"
	cmd.Stdin, cmd.ExtraFiles = bytes.NewReader(request), []*os.File{in.process}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	var reply confine.WardenReply
	if err == nil {
		err = json.Unmarshal(out, &reply)
	}
	if err == nil && reply.Problem != "" {
		err = errors.New(reply.Problem)
	}
	if err != nil && unix.PidfdSendSignal(int(in.process.Fd()), 0, nil, 0) != nil {
		return ErrEnded
	}
	return err
}

// foreignGroup returns a group that no sandbox of root contains. If there is only one group, it returns that, and root
// sees an empty file in place of an error.
func foreignGroup() (int, error) {
	all := readMappings("/proc/self/gid_map")
	if len(all) == 0 {
		return 0, errors.New("the groups of this user namespace cannot be read")
	}
	last := all[len(all)-1]
	return last.ContainerID + last.Size - 1, nil
}

// withoutLast returns mappings without their last id, unless it is the only one.
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
