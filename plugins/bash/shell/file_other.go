//go:build unix && !linux

package shell

import (
	"os"
	"syscall"
)

// nameless makes a file without a name that holds text, to be read from its beginning.
func nameless(text string) (*os.File, error) { return namelessOnDisk(text) }

func widen(*os.File, int) {}

// plainPipe makes a pipe that the runtime does not watch, since it blocks.
func plainPipe() (r, w *os.File, err error) {
	var fds [2]int
	syscall.ForkLock.RLock() // no child must get the descriptors before they are marked
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

// unread reports, for the end for writing of a pipe, whether something that was written was not
// read, where that can be known.
func unread(*os.File) bool { return false }
