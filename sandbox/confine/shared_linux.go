package confine

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// SharedAt is the directory at which a plugin sees Policy.Shared.
const SharedAt = "/tmp"

// shared creates the mount points below [SharedAt] in the shared directory. Other processes can change this
// directory at any time, so all names are resolved step by step and without symbolic links. A nil value means that the
// plugin has a directory in memory instead.
type shared struct {
	root int
	// fixed maps each directory above a mount point to a separate mount of this directory. Without these mounts, a
	// process could rename the directory, and the path of the mount point would lead to other files.
	fixed   map[string]int
	mounted map[string]bool // other entries of the root that are mounted below SharedAt
}

func newShared(root int) *shared {
	return &shared{root: root, fixed: make(map[string]int), mounted: make(map[string]bool)}
}

// contains reports whether a path is below the shared directory.
func (s *shared) contains(path string) bool { return s != nil && strings.HasPrefix(path, SharedAt+"/") }

// put adds an entry of the root below the shared directory.
func (s *shared) put(pl *place, size uint64) error {
	parent, done, err := s.directory(filepath.Dir(pl.path))
	if err != nil {
		return err
	}
	defer done()
	name := filepath.Base(pl.path)
	switch {
	case pl.link != "":
		if err := unix.Symlinkat(pl.link, parent, name); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	case pl.scratch || pl.dir:
		err = unix.Mkdirat(parent, name, 0o755)
	default:
		var fd int
		if fd, err = unix.Openat(parent, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC,
			0o600); err == nil {
			err = unix.Close(fd)
		}
	}
	if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("the mount point cannot be created: %w", err)
	}
	target, err := openStep(parent, name, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target) //nolint:errcheck // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return errors.New("a symbolic link is in place of the mount point; remove it")
	}
	s.mounted[pl.path] = true
	if pl.scratch {
		return mountMemory(fmt.Sprintf("/proc/self/fd/%d", target), size)
	}
	if err := unix.MoveMount(pl.fd, "", target, "",
		unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("the mount failed: %w", err)
	}
	return pl.restrict()
}

// directory opens a directory below the shared directory, and creates missing directories. The caller must call the
// function "done".
func (s *shared) directory(path string) (fd int, done func(), err error) {
	none := func() {}
	if path == SharedAt {
		return s.root, none, nil
	}
	if fd, ok := s.fixed[path]; ok {
		return fd, none, nil
	}
	parent, done, err := s.directory(filepath.Dir(path))
	if err != nil {
		return -1, none, err
	}
	defer done()
	own := !slices.ContainsFunc(slices.Collect(maps.Keys(s.mounted)), func(m string) bool {
		return m == path || strings.HasPrefix(path, m+"/")
	})
	if err := unix.Mkdirat(parent, filepath.Base(path), 0o755); err != nil && own && !errors.Is(err, unix.EEXIST) {
		return -1, none, fmt.Errorf("%s cannot be created: %w", path, err)
	}
	at, err := openStep(parent, filepath.Base(path), unix.O_DIRECTORY)
	if err != nil {
		return -1, none, fmt.Errorf("%s: %w; remove it, because the sandbox needs a directory there", path, err)
	}
	closeAt := func() { _ = unix.Close(at) }
	if !own {
		return at, closeAt, nil
	}
	defer closeAt()
	fd, err = unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err == nil {
		err = unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
	if err != nil {
		return -1, none, fmt.Errorf("%s cannot be mounted: %w", path, err)
	}
	s.fixed[path] = fd
	return fd, none, nil
}

// openStep opens one name in a directory, which must not be a symbolic link.
func openStep(dir int, name string, flags uint64) (int, error) {
	return unix.Openat2(dir, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
}

// finish closes the descriptors. If the argument "write" is false, the method makes the shared directory read-only.
func (s *shared) finish(write bool) error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, fd := range append(slices.Collect(maps.Values(s.fixed)), s.root) {
		if !write {
			errs = append(errs, unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
				Attr_set: unix.MOUNT_ATTR_RDONLY,
			}))
		}
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}
