package listing

import (
	"os"

	"golang.org/x/sys/unix"
)

// cheap returns another file for an open directory: one that was opened beneath a root
// asks for the metadata of each entry that it reads, and this one takes the type from the
// directory itself. Its entries' Info goes by path and is not to be used.
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
