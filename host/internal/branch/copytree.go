package branch

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// copyTree copies a layer with all that the overlay stores in it.
func copyTree(from, to string) error {
	type directory struct {
		path string
		st   unix.Stat_t
	}
	var directories []directory
	err := filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			directories = append(directories, directory{at, st})
			return errors.Join(os.Mkdir(at, 0o700), copyMarks(path, at))
		case unix.S_IFREG:
			if err := copyFile(path, at); err != nil {
				return err
			}
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(target, at) //nolint:gosec // nobody else uses the layer, which is locked
			}
			if err != nil {
				return err
			}
		case unix.S_IFSOCK:
			return nil // nobody listens on it any more
		default:
			if err := unix.Mknod(at, uint32(st.Mode), int(st.Rdev)); err != nil { //nolint:unconvert // not all systems have these sizes
				return err
			}
			return finishCopy(at, &st)
		}
		return errors.Join(copyMarks(path, at), finishCopy(at, &st))
	})
	for _, d := range slices.Backward(directories) { // at last, because copies change the times and need the right to write
		err = errors.Join(err, finishCopy(d.path, &d.st))
	}
	return err
}

func copyFile(from, to string) error {
	in, err := openRegular(from)
	if errors.Is(err, unix.EACCES) { // a file that its owner cannot read
		restore := readable(from)
		in, err = openRegular(from)
		restore()
	}
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // copy_file_range, which shares the data where the file system can
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

// copyMarks copies the extended attributes of a file, with the marks of the overlay.
func copyMarks(from, to string) error { return setAttributes(to, withMarks(from)) }

// withMarks returns the extended attributes of a file, with the marks of the overlay.
func withMarks(from string) map[string][]byte {
	all := attributesOf(from)
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

// finishCopy sets the owner, the mode and the times of a copy.
func finishCopy(path string, st *unix.Stat_t) error {
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
