package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// holdAt is the path at which the holder attaches the overlay. It must attach the overlay because, before Linux 6.15,
// only an attached mount can be cloned.
const holdAt = base + "/branch"

// hold runs a holder. It returns the exit status.
func hold(text string) int {
	var h Hold
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		fmt.Fprintln(os.Stderr, "toolhost-sandbox: cannot read the description of the branch:", err)
		return 2
	}
	answer := func(err error) bool {
		b := []byte{HoldDone}
		if err != nil {
			b = append([]byte{HoldFailed}, err.Error()...)
		}
		_, written := unix.Write(h.Socket, b)
		return written == nil
	}
	var err error
	if h.Unmapped {
		err = awaitIDs(h.Socket)
	}
	if err == nil {
		err = h.mount()
	}
	if !answer(err) || err != nil {
		return 1
	}
	for b := make([]byte, 1); ; {
		n, err := unix.Read(h.Socket, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n != 1:
			return 0 // the host has closed the socket
		case b[0] == HoldClone:
			err = h.pass()
		case b[0] == HoldRefresh:
			err = refresh()
		default:
			err = fmt.Errorf("the request %q is unknown", b)
		}
		if (b[0] != HoldClone || err != nil) && !answer(err) {
			return 0
		}
	}
}

func (h *Hold) mount() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("the parent-death signal cannot be set: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("the mounts cannot be made private: %w", err)
	}
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("the kernel has no overlay file system: %w", err)
	}
	// Name the layers by descriptors. Thus no path must be quoted, and tools cannot see the paths of the layers.
	var lower []string
	for _, fd := range append([]*int{&h.Upper, &h.Work}, pointers(h.Lower)...) {
		if *fd, err = here(*fd); err != nil {
			return err
		}
	}
	for _, fd := range h.Lower {
		lower = append(lower, descriptorPath(fd))
	}
	for _, o := range [][2]string{
		{"source", HoldSource + h.Name}, {"lowerdir", strings.Join(lower, ":")}, {"upperdir", descriptorPath(h.Upper)},
		{"workdir", descriptorPath(h.Work)}, {"userxattr", ""}, {"volatile", ""},
	} {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(fs, o[0])
		} else {
			err = unix.FsconfigSetString(fs, o[0], o[1])
		}
		if err != nil {
			return fmt.Errorf("the option %s of the overlay: %w%s", o[0], err, kernelSays(fs))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("the overlay cannot be made: %w%s", err, kernelSays(fs))
	}
	mnt, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return fmt.Errorf("the overlay cannot be mounted: %w%s", err, kernelSays(fs))
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64k"); err != nil {
		return fmt.Errorf("a directory for the overlay cannot be made: %w", err)
	}
	if err := os.Mkdir(holdAt, 0o700); err != nil {
		return err
	}
	if err := unix.MoveMount(mnt, "", unix.AT_FDCWD, holdAt, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("the overlay cannot be attached: %w", err)
	}
	return errors.Join(unix.Close(mnt), unix.Close(fs))
}

func pointers(list []int) (out []*int) {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// here opens a directory again in the mount namespace of this process. The kernel makes overlays only of directories in
// this namespace.
func here(fd int) (int, error) {
	path, err := os.Readlink(descriptorPath(fd))
	if err != nil {
		return -1, err
	}
	again, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", path, err)
	}
	var before, now unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &before), unix.Fstat(again, &now)); err != nil {
		return -1, err
	}
	if before.Dev != now.Dev || before.Ino != now.Ino {
		return -1, fmt.Errorf("%s was replaced meanwhile", path)
	}
	return again, nil
}

func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// kernelSays returns the kernel's messages about a failed mount. They contain the reason, while the error number is
// only "invalid argument".
func kernelSays(fs int) string {
	var out []string
	for buf := make([]byte, 512); len(out) < 8; {
		n, err := unix.Read(fs, buf)
		if err != nil || n <= 0 {
			break
		}
		text := strings.TrimSpace(string(buf[:n]))
		if _, rest, ok := strings.Cut(text, " "); ok {
			text = rest // remove the letter of the message's level
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// pass sends a detached clone of the overlay to the host.
func (h *Hold) pass() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, holdAt, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("the overlay cannot be cloned: %w", err)
	}
	return errors.Join(unix.Sendmsg(h.Socket, []byte{HoldDone}, unix.UnixRights(fd), nil, 0), unix.Close(fd))
}

// refresh makes the kernel forget all unused names of the overlay. Otherwise the overlay would show the old content of
// files that were replaced in the lower layers. A reconfiguration of the mount has this effect, even if it changes no
// setting.
func refresh() error {
	fs, err := unix.Fspick(unix.AT_FDCWD, holdAt, unix.FSPICK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("the overlay cannot be refreshed: %w", err)
	}
	defer unix.Close(fs) //nolint:errcheck // nothing was written
	if _, _, e := unix.Syscall6(unix.SYS_FSCONFIG, uintptr(fs), unix.FSCONFIG_CMD_RECONFIGURE, 0, 0, 0, 0); e != 0 {
		return fmt.Errorf("the overlay cannot be refreshed: %w%s", e, kernelSays(fs))
	}
	return nil
}

// cover mounts the branches of a policy over their paths. All later steps then open the files of the branches.
func cover(branches []Branch) error {
	for _, b := range branches {
		if err := unix.MoveMount(b.FD, "", unix.AT_FDCWD, b.Path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("the branch cannot be mounted at %s: %w", b.Path, err)
		}
	}
	return nil
}
