package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// nameless makes a file without a name that holds text, to be read from its beginning.
func nameless(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("toolhost", unix.MFD_CLOEXEC)
	if err != nil {
		return namelessOnDisk(text)
	}
	return fill(os.NewFile(uintptr(fd), "toolhost"), text)
}

// widen makes a pipe hold more, so that who writes to it waits for its reader less often.
func widen(pipe *os.File, size int) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
	}
}

// plainPipe makes a pipe that the runtime does not watch, since it blocks.
func plainPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// unread reports, for the end for writing of a pipe, whether something that was written was not read.
func unread(pipe *os.File) bool {
	left := 0
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return left > 0
}
