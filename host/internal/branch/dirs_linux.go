package branch

import "golang.org/x/sys/unix"

// Flags of a rename. See renameat2(2).
const (
	noReplace = unix.RENAME_NOREPLACE
	exchange  = unix.RENAME_EXCHANGE
)

// openBelow opens a directory below another without following links.
func openBelow(root int, path string) (int, error) {
	return unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
}

// exchangePaths makes two paths change places.
func exchangePaths(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
