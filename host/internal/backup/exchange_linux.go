package backup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange makes from the directory to, and keeps the earlier content of to as before. The directory from gets the name
// before first, because both directories then only exchange their names. A sweep therefore never finds the earlier content
// under a name that it removes.
func exchange(from, to, before string) error {
	if err := os.Rename(from, before); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, before, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system cannot exchange names
		aside := before + ".old"
		if err = os.Rename(to, aside); err == nil {
			err = errors.Join(os.Rename(before, to), os.Rename(aside, before))
		}
	}
	if err != nil {
		return errors.Join(err, os.Rename(before, from))
	}
	return nil
}
