package confine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// restrictExecution makes all mounts noexec, except the mounts of executable paths. It must run in the new root. Files
// on a noexec mount can neither be executed nor mapped as code.
func restrictExecution(p *Policy) error {
	if p.Execute == nil {
		return nil
	}
	clones := make(map[string]int)
	for _, path := range p.Execute {
		fd, err := unix.OpenTree(unix.AT_FDCWD, path,
			unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) {
			continue // skip a path that the sandbox does not contain
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		clones[path] = fd
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOEXEC}); err != nil {
		return fmt.Errorf("the mounts cannot be made noexec: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(clones)) { // mount each directory before its content
		fd := clones[path]
		err := unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if err == nil {
			err = unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
