package walk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// openBeneath opens a path below a directory with a system call that refuses symbolic links. If the kernel or a
// seccomp filter does not support this system call, openBeneath opens one element of the path after the other.
func openBeneath(start *os.File, rel string, flags int) (*os.File, error) {
	fd, err := openAtOnce(start, rel, flags)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), filepath.Join(start.Name(), rel)), nil
	case isAnswer(err):
		return nil, err
	}
	return openStepwise(start, rel, flags)
}

// openAtOnce opens a path with one system call. If isAnswer returns false for the error, the system does not support
// this system call.
func openAtOnce(start *os.File, rel string, flags int) (int, error) {
	fd, err := unix.Openat2(int(start.Fd()), rel, &unix.OpenHow{
		Flags:   uint64(flags | noLinks), // #nosec G115 -- flags are not negative
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	runtime.KeepAlive(start)
	return fd, err
}

func isAnswer(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.ENOTDIR)
}
