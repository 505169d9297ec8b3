//go:build !linux

package terminal

import "golang.org/x/sys/unix"

// The requests that read and write the mode of a terminal, and the value of a control key that no key has.
const (
	readMode  = unix.TIOCGETA
	writeMode = unix.TIOCSETA
	noKey     = 0xff
)
