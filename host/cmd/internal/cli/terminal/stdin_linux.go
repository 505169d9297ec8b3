package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Input returns a stream that can be closed. If the stream is the standard input of the process, and is a pipe or a
// socket, the result is in non-blocking mode. In this mode, a waiting read needs no thread of its own, and the host can
// handle a request sooner. The mode of a socket also applies to other processes that share it. The function "release"
// therefore restores the original mode of a socket.
func Input(stream io.Reader) (in io.ReadCloser, release func()) {
	none := func() {}
	if stream != io.Reader(os.Stdin) {
		return closable(stream), none
	}
	var st, out unix.Stat_t
	if unix.Fstat(0, &st) != nil || unix.Fstat(1, &out) != nil {
		return os.Stdin, none
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		// Open standard input again, because the mode of the new file description does not affect other processes. If
		// this fails, as for a pipe of another user, the original descriptor is used.
		if f, err := os.OpenFile("/proc/self/fd/0", os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			return f, none
		}
	case unix.S_IFSOCK:
		if out.Ino == st.Ino && out.Dev == st.Dev {
			break // keep the blocking mode, because other processes write to the shared socket
		}
		flags, err := unix.FcntlInt(0, unix.F_GETFL, 0)
		if err != nil || flags&unix.O_NONBLOCK != 0 {
			break
		}
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			break
		}
		if unix.SetNonblock(fd, true) != nil {
			_ = unix.Close(fd)
			break
		}
		return os.NewFile(uintptr(fd), os.Stdin.Name()), func() { _ = unix.SetNonblock(0, false) }
	}
	return os.Stdin, none
}
