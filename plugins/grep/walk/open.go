package walk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// noLinks contains the flags of every open call. With these flags, opening a symbolic link fails.
const noLinks = unix.O_CLOEXEC | unix.O_NOFOLLOW

// openAt opens a name in a directory. It fails if the name is a symbolic link.
func openAt(dir *os.File, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|noLinks, 0)
		runtime.KeepAlive(dir)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// OpenDir opens a directory below an open directory. The relative path "." means the open directory. OpenDir follows no
// symbolic link.
func OpenDir(start *os.File, rel string) (*os.File, error) {
	return openBeneath(start, rel, unix.O_RDONLY|unix.O_DIRECTORY)
}

// openStepwise opens a path below a directory, one element of the path after the other.
func openStepwise(start *os.File, rel string, flags int) (*os.File, error) {
	at := start
	for {
		name, rest, more := strings.Cut(rel, "/")
		how := flags
		if more {
			how = unix.O_RDONLY | unix.O_DIRECTORY
		}
		fd, err := openAt(at, name, how)
		if at != start {
			_ = at.Close()
		}
		if err != nil {
			return nil, err
		}
		at = os.NewFile(uintptr(fd), filepath.Join(at.Name(), name))
		if !more {
			return at, nil
		}
		rel = rest
	}
}
