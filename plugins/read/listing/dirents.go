package listing

import (
	"os"

	"golang.org/x/sys/unix"
)

// cheap returns a duplicate of an open directory. Names and types can be read fast from the duplicate. If dir was
// opened through an os.Root, reading dir also reads the metadata of each entry. Reading the duplicate reads only what
// the directory itself contains. The caller must not call Info on the duplicate's entries, because Info looks up their
// paths.
func cheap(dir *os.File) (*os.File, error) {
	raw, err := dir.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	controlErr := raw.Control(func(from uintptr) { fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	if controlErr != nil {
		return nil, controlErr
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), dir.Name()), nil // #nosec G115 -- a descriptor is not negative
}
