package filetree

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenPath contains the flags to open an entry only as a reference.
const OpenPath = unix.O_PATH

// errNoAttribute is the error for a missing extended attribute.
const errNoAttribute = unix.ENODATA

// Flags of a rename. See renameat2(2).
const (
	NoReplace = unix.RENAME_NOREPLACE
	Exchange  = unix.RENAME_EXCHANGE
)

func renameAt(dirA int, a string, dirB int, b string, flags uint) error {
	return unix.Renameat2(dirA, a, dirB, b, flags)
}

// SyncAll waits until the file system of a directory is on disk.
func SyncAll(dir int) error { return unix.Syncfs(dir) }

// OpenBelow opens a directory below another without following links.
func OpenBelow(root int, path string) (int, error) {
	return unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
}

// ExchangePaths atomically exchanges two paths.
func ExchangePaths(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// WhiteoutAt creates a whiteout, which marks a name as deleted.
func WhiteoutAt(dir int, name string) error {
	err := unix.Mknodat(dir, name, unix.S_IFCHR, 0)
	if errors.Is(err, unix.EPERM) { // an overlay does not permit its users to create whiteouts
		return Mark(Descriptor(dir) + "/" + name)
	}
	return err
}

func copyContent(in *os.File, to string) error { return copyData(in, to) }

// share makes a new file share the data of another file. It fails if the file system does not support this.
func share(to, from *os.File) error { return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) }

// Shares reports whether copies of a file in a directory share the data of the file. Such copies are fast and need no
// space.
func Shares(file, dir string) bool {
	in, err := OpenRegular(file)
	if err != nil {
		return false
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.CreateTemp(dir, ".shares-")
	if err != nil {
		return false
	}
	err = share(out, in)
	return errors.Join(err, out.Close(), os.Remove(out.Name())) == nil
}

// Descriptor returns a path that leads to the file or directory of a descriptor.
func Descriptor(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// DuplicateTo makes the descriptor "to" a duplicate of the descriptor "from".
func DuplicateTo(from, to int) error { return unix.Dup3(from, to, unix.O_CLOEXEC) }

// Birth returns the time at which a file was created, in nanoseconds.
func Birth(path string) (at int64, known bool) {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st) != nil ||
		st.Mask&unix.STATX_BTIME == 0 {
		return 0, false
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec), true
}

// MountID identifies the mount in which a path is. The kernel renames no file from one mount to another, not even if
// both show the same file system. MountID returns false if the kernel does not tell.
func MountID(path string) (id uint64, known bool) {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st) != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, false
	}
	return st.Mnt_id, true
}

// mknod creates a pipe or a device of the same kind as the one that st describes.
func mknod(path string, st *unix.Stat_t) error {
	return unix.Mknod(path, uint32(st.Mode), int(st.Rdev))
}
