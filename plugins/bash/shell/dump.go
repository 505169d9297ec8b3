package shell

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// dump is what a shell tells of its state, in a pipe. bash writes it line by line, and a
// reader that is woken for each takes more time than all the rest: so nobody waits at the pipe,
// which has room for what there usually is. It is read at the shell's end, and looked at now
// and then before. It is no file, since a user's limit of the size of files would bound it.
type dump struct {
	pipe *os.File
	kept []byte // at most maxDump, which is seen by the end that is missing
}

// newDump takes over our end of the pipe.
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

// read takes what is in the pipe, without waiting for more.
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
