package workspace

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// exchange swaps the names of the temporary file and the target atomically.
func exchange(d *pinned, temp string) error {
	fd := int(d.file.Fd())
	return unix.Renameat2(fd, temp, fd, d.base, unix.RENAME_EXCHANGE)
}

// renameNew renames the temporary file to the target's name. It returns an error if the name is in use.
func renameNew(d *pinned, temp string) error {
	fd := int(d.file.Fd())
	err := unix.Renameat2(fd, temp, fd, d.base, unix.RENAME_NOREPLACE)
	if err != nil && unsupported(err) {
		return linkNew(d, temp)
	}
	return err
}

func ctim(st *syscall.Stat_t) syscall.Timespec { return st.Ctim }
