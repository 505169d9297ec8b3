package shell

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// Sizes of pipes, where they can be chosen.
const (
	outputSize = 256 << 10
	dumpSize   = 1 << 20 // what an ordinary user may have
)

// unwatched makes files of a pipe's descriptors, which the runtime watches only when they do
// not block as it gets them.
func unwatched(fds [2]int) (r, w *os.File, err error) {
	r, w = os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1")
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, r.Close(), w.Close())
	}
	return r, w, nil
}

// namelessOnDisk is for systems and sandboxes without files in memory.
func namelessOnDisk(text string) (*os.File, error) {
	f, err := os.CreateTemp("", "toolhost-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return fill(f, text)
}

func fill(f *os.File, text string) (*os.File, error) {
	_, err := f.WriteString(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
