package shell

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// dump collects the report of a shell's state from a pipe. bash writes the report line by line, and waking a reader for
// each line would take most of the time. Therefore the pipe has space for a report of usual size. The pipe is read at
// long intervals and at the shell's end. The report is not written to a file, because the user's file size limit would
// apply.
type dump struct {
	pipe *os.File
	kept []byte // at most maxDump bytes; a truncated dump has no end marker
}

// newDump takes ownership of the plugin's end of the pipe.
func newDump(pipe *os.File) (dump, error) {
	widen(pipe, dumpSize)
	raw, err := pipe.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), true) }), err)
	}
	if err != nil {
		return dump{}, errors.Join(err, pipe.Close())
	}
	return dump{pipe: pipe}, nil
}

// read reads all bytes that are in the pipe. It does not wait for more bytes.
func (d *dump) read() {
	raw, err := d.pipe.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 16<<10)
	_ = raw.Control(func(fd uintptr) {
		for {
			n, err := unix.Read(int(fd), buf)
			switch {
			case n > 0:
				room := min(n, maxDump-len(d.kept))
				d.kept = append(d.kept, buf[:room]...)
			case !errors.Is(err, unix.EINTR):
				return
			}
		}
	})
}
