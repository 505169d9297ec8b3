package shell

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nameless creates an unnamed file that contains text. The file offset is at the beginning.
func nameless(text string) (*os.File, error) {
	// Create a non-executable file, because a sandbox can forbid executable files in memory. Before Linux 6.3, the
	// kernel rejects this flag.
	fd, err := unix.MemfdCreate("toolhost", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("toolhost", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return namelessOnDisk(text)
	}
	return fill(os.NewFile(uintptr(fd), "toolhost"), text)
}

// widen enlarges the buffer of a pipe. A larger buffer makes the writer wait less often for the reader.
func widen(pipe *os.File, size int) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
	}
}

// plainPipe creates a blocking pipe that the runtime does not poll.
func plainPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// unread reports whether a pipe contains unread data. The argument is the write end of the pipe.
func unread(pipe *os.File) bool {
	left := 0
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return left > 0
}
