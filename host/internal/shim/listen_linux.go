package shim

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pointAt gives a descriptor that points at a socket. It is connected to as
// /proc/PID/fd/N, also when the socket's name is gone.
func pointAt(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the socket %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
