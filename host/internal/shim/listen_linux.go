package shim

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pointAt returns a descriptor that refers to a socket. Clients can connect to the path /proc/PID/fd/N, even after the
// socket's own path was removed.
func pointAt(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the socket %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
