package backup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange renames the directory "from" to "to" and keeps the earlier directory "to" under the name "before". It first
// renames "from" to "before". Then "before" and "to" exchange their names. The earlier content therefore never has the
// old name of "from", which a sweep would remove.
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
