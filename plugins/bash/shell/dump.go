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
	kept []byte
	over bool // there was more than is kept
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
				d.over = d.over || room < n
			case !errors.Is(err, unix.EINTR):
				return
			}
		}
	})
}
