package filetree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Copy copies a layer, including the marks of the overlay.
func Copy(from, to string) error {
	type directory struct {
		path string
		st   unix.Stat_t
	}
	var directories []directory
	err := WalkOwn(from, 0o500, func(path, rel string, st *unix.Stat_t, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			directories = append(directories, directory{at, *st})
			return errors.Join(os.Mkdir(at, 0o700), CopyMarks(path, at))
		case unix.S_IFREG:
			if err := CopyFile(path, at); err != nil {
				return err
			}
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(target, at)
			}
			if err != nil {
				return err
			}
		case unix.S_IFSOCK:
			return nil // the process that listened on the socket has ended
		default:
			if err := mknod(at, st); err != nil { //nolint:unconvert // not all systems have these sizes
				return err
			}
			return FinishCopy(at, st)
		}
		return errors.Join(CopyMarks(path, at), FinishCopy(at, st))
	})
	for _, d := range slices.Backward(directories) { // after the copies, which change directories
		err = errors.Join(err, FinishCopy(d.path, &d.st))
	}
	return err
}

// CopyFile copies the content of a regular file to a new file. The copy shares the data of the original if the file
// system supports this.
func CopyFile(from, to string) error {
	in, err := OpenRegular(from)
	if errors.Is(err, unix.EACCES) { // the mode forbids the owner to read the file
		restore := readable(from)
		in, err = OpenRegular(from)
		restore()
	}
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	return copyContent(in, to)
}

// copyData copies a file to a new file.
func copyData(in *os.File, to string) error {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if share(out, in) != nil {
		_, err = io.Copy(out, in)
	}
	return errors.Join(err, out.Close())
}

// readable makes a file readable for its owner. The returned function restores the mode.
func readable(path string) (restore func()) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || unix.Chmod(path, uint32(st.Mode)&0o7777|0o400) != nil { //nolint:unconvert // as above
		return func() {}
	}
	return func() { _ = unix.Chmod(path, uint32(st.Mode)&0o7777) } //nolint:unconvert // as above
}

// CopyMarks copies the extended attributes of a file, including the marks of the overlay.
func CopyMarks(from, to string) error { return SetAttributes(to, WithMarks(from)) }

// WithMarks returns the extended attributes of a file, including the marks of the overlay.
func WithMarks(from string) map[string][]byte {
	all := Attributes(from)
	for _, m := range marks {
		buf := make([]byte, 4096)
		if n, err := unix.Lgetxattr(from, m, buf); err == nil {
			if all == nil {
				all = make(map[string][]byte)
			}
			all[m] = buf[:n]
		}
	}
	return all
}

// Like sets the owner, the mode, the attributes and the times of the directory "to" to those of the directory "from",
// whose state is st. If the two are already equal, it changes nothing, and the times stay.
func Like(to, from string, st *unix.Stat_t) error {
	var now unix.Stat_t
	if err := unix.Lstat(to, &now); err != nil {
		return err
	}
	if now.Mode == st.Mode && SameOwner(&now, st) && EqualAttributes(to, from) {
		return nil
	}
	own := Attributes(from)
	for name := range Attributes(to) {
		if _, kept := own[name]; !kept {
			_ = unix.Lremovexattr(to, name) // ignore the error: the directory then counts as changed
		}
	}
	for name, value := range own {
		err := unix.Lsetxattr(to, name, value, 0)
		if err != nil && !strings.HasPrefix(name, "security.") { // the security module can keep users from setting its labels
			return fmt.Errorf("the attribute %s cannot be set: %w", name, err)
		}
	}
	return FinishCopy(to, st)
}

// FinishCopy sets the owner, the mode and the times of a copy.
func FinishCopy(path string, st *unix.Stat_t) error {
	if os.Geteuid() == 0 {
		if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(path, uint32(st.Mode)&0o7777); err != nil { //nolint:unconvert // as above
			return err
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
