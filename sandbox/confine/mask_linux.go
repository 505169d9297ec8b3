package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// readLists reads the lists of a policy from the descriptor that the host passed.
func readLists(p *Policy) error {
	if p.ListsFD == 0 {
		return nil
	}
	f := os.NewFile(uintptr(p.ListsFD), "lists")
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, &p.Lists)
}

// applyMasks mounts masks in the mount namespace of the current process. It skips paths that do not exist.
func applyMasks(dir string, masks []Mask) error {
	for _, m := range masks {
		if err := m.apply(dir); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

// apply mounts one mask. It opens the target only once and follows no links, because tools can change the tree at the
// same time.
func (m Mask) apply(dir string) error {
	target, err := unix.Openat2(unix.AT_FDCWD, m.Path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ESTALE) || m.Kind != Hide && errors.Is(err, unix.EACCES) {
		return nil // the path was removed or replaced, and the host checks again; links and hidden directories need no mask
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	source, attr, err := m.source(dir, target, &st)
	if err != nil || source < 0 {
		return err
	}
	defer func() { _ = unix.Close(source) }()
	if attr != 0 {
		if err := unix.MountSetattr(source, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: attr}); err != nil {
			return fmt.Errorf("the mount cannot be made read-only: %w", err)
		}
	}
	err = unix.MoveMount(source, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if errors.Is(err, unix.ENOENT) { // the target was removed, and the host checks again
		return nil
	}
	if err != nil {
		return fmt.Errorf("the mount failed: %w", err)
	}
	return nil
}

// source returns the detached mount for a mask and the attributes of the mount. A negative descriptor means that the
// target is already masked.
func (m Mask) source(dir string, target int, st *unix.Stat_t) (fd int, attr uint64, err error) {
	const clone = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
	switch m.Kind {
	case Hide:
		name := MaskFile
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			name = MaskDirectory
		}
		path := filepath.Join(dir, name)
		var mask unix.Stat_t
		if err := unix.Lstat(path, &mask); err != nil {
			return -1, 0, fmt.Errorf("%s: %w", path, err)
		}
		if mask.Ino == st.Ino && mask.Dev == st.Dev {
			return -1, 0, nil
		}
		fd, err = unix.OpenTree(unix.AT_FDCWD, path, clone|unix.AT_SYMLINK_NOFOLLOW)
		return fd, unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC, err
	case Protect:
		fd, err = unix.OpenTree(target, "", clone|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
		return fd, unix.MOUNT_ATTR_RDONLY, err
	case Fix:
		fd, err = unix.OpenTree(target, "", clone|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
		return fd, 0, err
	}
	return -1, 0, fmt.Errorf("unknown kind of mask %q", m.Kind)
}

// Warden runs the launcher as a warden, which mounts masks in the namespace of a running plugin and exits. The host
// passes a pidfd of the plugin as descriptor 3. The program's entry point joins the plugin's namespaces, because only a
// process with one thread can join a user namespace. The argument "joined" is the result of this system call.
func Warden(joined int64) {
	var r WardenReply
	if err := warden(joined); err != nil {
		r.Problem = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(exitStatus)
	}
	os.Exit(0)
}

func warden(joined int64) error {
	if joined > 0 {
		return errors.New("the program toolhost-sandbox was linked without its entry point; link it with -ldflags=-E=main.entry")
	}
	if joined < 0 {
		return fmt.Errorf("the namespaces of the plugin cannot be joined: %w", unix.Errno(-joined))
	}
	var r WardenRequest
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	return applyMasks(r.MaskDir, r.Masks)
}
