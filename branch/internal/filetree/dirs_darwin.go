package filetree

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenPath contains the flags to open an entry only as a reference. On this system, opening an entry always requires
// read permission.
const OpenPath = unix.O_RDONLY | unix.O_NONBLOCK

// errNoAttribute is the error for a missing extended attribute.
const errNoAttribute = unix.ENOATTR

// Flags of a rename. See renameatx_np(2).
const (
	NoReplace = unix.RENAME_EXCL
	Exchange  = unix.RENAME_SWAP
)

func renameAt(dirA int, a string, dirB int, b string, flags uint) error {
	return unix.RenameatxNp(dirA, a, dirB, b, uint32(flags))
}

// SyncAll waits until the file system of a directory is on disk.
func SyncAll(dir int) error {
	if err := unix.Sync(); err != nil {
		return err
	}
	_, err := unix.FcntlInt(uintptr(dir), unix.F_FULLFSYNC, 0)
	return err
}

// OpenBelow opens a directory below another without following links.
func OpenBelow(root int, path string) (int, error) {
	at, err := unix.Dup(root)
	for name := range strings.SplitSeq(path, "/") {
		if err != nil {
			return -1, err
		}
		next, openErr := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(at)
		at, err = next, openErr
	}
	return at, err
}

// ExchangePaths atomically exchanges two paths.
func ExchangePaths(a, b string) error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) }

// WhiteoutAt creates a whiteout, which marks a name as deleted.
func WhiteoutAt(dir int, name string) error { return Mark(Descriptor(dir) + "/" + name) }

// DuplicateTo makes the descriptor "to" a duplicate of the descriptor "from".
func DuplicateTo(from, to int) error { return unix.Dup2(from, to) }

// Birth returns the time at which a file was created, in nanoseconds.
func Birth(path string) (at int64, known bool) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return st.Btim.Nano(), err == nil
}

// copyContent copies a file to a new file. The new file shares the data of the original if the file system supports
// this.
func copyContent(in *os.File, to string) error {
	if unix.Fclonefileat(int(in.Fd()), unix.AT_FDCWD, to, 0) == nil {
		return os.Chmod(to, 0o600)
	}
	return copyData(in, to)
}

// Shares reports whether copies of a file in a directory share the data of the file. Such copies are fast and need no
// space.
func Shares(file, dir string) bool {
	to := filepath.Join(dir, ".shares")
	err := unix.Clonefile(file, to, unix.CLONE_NOFOLLOW)
	return errors.Join(err, os.Remove(to)) == nil
}

// Descriptor returns a path that leads to the file or directory of a descriptor.
func Descriptor(fd int) string {
	buf := make([]byte, 4*1024)
	if _, _, failed := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), unix.F_GETPATH, uintptr(unsafe.Pointer(&buf[0]))); failed != 0 { //nolint:gosec // the form of this call
		return ""
	}
	path, _, _ := bytes.Cut(buf, []byte{0})
	return string(path)
}

// mknod creates a pipe or a device of the same kind as the one that st describes.
func mknod(path string, st *unix.Stat_t) error {
	return unix.Mknod(path, uint32(st.Mode), int(st.Rdev))
}

func share(_, _ *os.File) error { return unix.ENOTSUP }

// MountID identifies the mount in which a path is. It returns false, because this system has one mount of a file
// system.
func MountID(string) (id uint64, known bool) { return 0, false }
