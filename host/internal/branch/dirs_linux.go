package branch

import "golang.org/x/sys/unix"

// openPath opens an entry only to refer to it.
const openPath = unix.O_PATH

// Flags of a rename. See renameat2(2).
const (
	noReplace = unix.RENAME_NOREPLACE
	exchange  = unix.RENAME_EXCHANGE
)

func renameAt(dirA int, a string, dirB int, b string, flags uint) error {
	return unix.Renameat2(dirA, a, dirB, b, flags)
}

// syncAll waits until the file system of a directory is on disk.
func syncAll(dir int) error { return unix.Syncfs(dir) }

// openBelow opens a directory below another without following links.
func openBelow(root int, path string) (int, error) {
	return unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
}

// exchangePaths makes two paths change places.
func exchangePaths(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// whiteoutAt creates the mark that a name is deleted.
func whiteoutAt(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) }

// duplicateTo makes a descriptor refer to what another one refers to.
func duplicateTo(from, to int) error { return unix.Dup3(from, to, unix.O_CLOEXEC) }

// birth returns the time at which a file was made, in nanoseconds.
func birth(path string) (at int64, known bool) {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0, false
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec), true
}
