package filetree

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// IsWhiteout reports whether an entry of a layer means that the name is deleted. In an overlay, such an entry is a
// device. If ordinary users cannot create such devices on a file system, it is a pipe that nobody can open, with a time
// that no other pipe has; see [Mark].
func IsWhiteout(st *unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		return st.Rdev == 0
	case unix.S_IFIFO:
		return st.Mode&0o7777 == 0 && st.Mtim.Nano() == markTime
	}
	return false
}

// markTime is the time of a pipe that is a whiteout, in nanoseconds. This time is earlier than any real time of a file.
const markTime = -1_000_000_000 * 86_400 * 365

// Mark creates a whiteout that every file system supports, but the overlay does not understand.
func Mark(path string) error {
	if err := unix.Mkfifo(path, 0); err != nil {
		return err
	}
	at := unix.NsecToTimespec(markTime)
	return errors.Join(unix.Chmod(path, 0),
		unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW))
}

// IsOpaque reports whether a directory of a layer hides the directory of the base. It returns an error if the
// attributes of the directory cannot be read. A missing path hides nothing.
func IsOpaque(dir string) (bool, error) {
	n, err := unix.Lgetxattr(dir, OpaqueMark, nil)
	switch {
	case err == nil:
		return n > 0, nil
	case IsMissing(err) || errors.Is(err, errNoAttribute) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM): // links have none
		return false, nil
	}
	return false, fmt.Errorf("%s: %w", dir, err)
}

// The marks of the overlay file system.
const (
	OpaqueMark = "user.overlay.opaque"
	OriginMark = "user.overlay.origin"
	MarkPrefix = "user.overlay."
)

var marks = []string{
	OpaqueMark, OriginMark, "user.overlay.impure", "user.overlay.nlink", "user.overlay.upper", "user.overlay.redirect",
	"user.overlay.metacopy", "user.overlay.protattr", "user.overlay.uuid", "user.overlay.whiteout",
	"user.overlay.xwhiteouts",
}

// RemoveMarks removes the marks of the overlay from one entry.
func RemoveMarks(path string) error {
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ERANGE) {
		names = make([]byte, 64<<10) // the most that the kernel returns
		n, err = unix.Llistxattr(path, names)
	}
	if err != nil || n == 0 {
		return nil // without attributes there are no marks
	}
	for m := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !strings.HasPrefix(m, MarkPrefix) {
			continue
		}
		err := unix.Lremovexattr(path, m)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) { // a read-only file of this user, or a link
			err = forceRemove(path, m)
		}
		if err != nil && !errors.Is(err, errNoAttribute) && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	return nil
}

// forceRemove removes an attribute of a file although the file is read-only for its owner.
func forceRemove(path, name string) error {
	fd, err := unix.Open(path, OpenPath|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only opened
	var st unix.Stat_t
	at := Descriptor(fd)
	if _, absent := unix.Getxattr(at, name, nil); absent != nil || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK || unix.Chmod(at, uint32(st.Mode)&0o7777|0o600) != nil { //nolint:unconvert // not all systems have 32 bits here
		return nil
	}
	return errors.Join(unix.Removexattr(at, name), unix.Chmod(at, uint32(st.Mode)&0o7777)) //nolint:unconvert // as above
}
