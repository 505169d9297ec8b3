// Package warden checks and adds the masks of running plugins. Most callers want [Enter] and [Inside.Mask].
package warden

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/confine"
)

// timeout bounds the work of a warden, which takes a few milliseconds.
const timeout = 10 * time.Second

// ErrEnded means that a plugin has ended.
var ErrEnded = errors.New("the plugin has ended")

// Inside is the root file system of a running plugin under the backend "ns", including its masks.
type Inside struct {
	root    int // descriptor of the plugin's root directory, with its mounts
	process *os.File
}

// Enter opens the root file system of a running plugin. The plugin must be a child of this process that was not reaped.
// If the plugin has ended, the error is [ErrEnded].
func Enter(pid int) (*Inside, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("the process of the plugin cannot be opened: %w", err)
	}
	in := &Inside{root: -1, process: os.NewFile(uintptr(fd), "plugin")}
	if in.root, err = unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC,
		0); err == nil {
		return in, nil
	}
	if in.ended() {
		return nil, errors.Join(ErrEnded, in.process.Close())
	}
	return nil, errors.Join(fmt.Errorf("the root of the plugin cannot be opened: %w", err), in.process.Close())
}

// Close releases the descriptors.
func (in *Inside) Close() error { return errors.Join(unix.Close(in.root), in.process.Close()) }

// Object identifies a file or directory.
type Object struct {
	DevMajor, DevMinor uint32
	Inode              uint64
}

// Stat returns the object at an absolute path as the plugin sees it. The result "mounted" reports whether the object is
// a mount. Stat follows no link at the end of the path. For a missing path, the error is [fs.ErrNotExist].
func (in *Inside) Stat(path string) (o Object, mounted bool, err error) {
	var st unix.Statx_t
	if err := unix.Statx(in.root, strings.TrimPrefix(path, "/"),
		unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st); err != nil {
		// A directory in the path was replaced. In a branch that changed a directory, its new name is stale.
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE) {
			err = fs.ErrNotExist
		}
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

// Mask mounts masks in the sandbox of the plugin. It starts a warden for this purpose. Tools cannot see the warden, and
// the warden exits before Mask returns. If the plugin has ended, the error is [ErrEnded].
func (in *Inside) Mask(launcher, dir string, masks []confine.Mask) error {
	request, err := json.Marshal(confine.WardenRequest{MaskDir: dir, Masks: masks})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
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
	if err != nil && in.ended() {
		return ErrEnded
	}
	return err
}

// exitTime is the maximum time that a process needs to end after it has lost its root directory.
const exitTime = 500 * time.Millisecond

// ended reports whether the plugin has ended or is about to end. It also recognizes a zombie.
func (in *Inside) ended() bool {
	for end := time.Now().Add(exitTime); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(in.process.Fd()), Events: unix.POLLIN}},
			int(max(0, time.Until(end).Milliseconds())))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}
