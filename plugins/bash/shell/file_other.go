//go:build unix && !linux

package shell

import (
	"os"
	"syscall"
)

// nameless creates an unnamed file that contains text. The file offset is at the beginning.
func nameless(text string) (*os.File, error) { return namelessOnDisk(text) }

func widen(*os.File, int) {}

// plainPipe creates a blocking pipe that the runtime does not poll.
func plainPipe() (r, w *os.File, err error) {
	var fds [2]int
	syscall.ForkLock.RLock() // no child can inherit the descriptors before they are marked close-on-exec
	err = syscall.Pipe(fds[:])
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// unread always returns false, because this system does not report unread data.
func unread(*os.File) bool { return false }
