//go:build !linux

package terminal

import "golang.org/x/sys/unix"

// These are the requests to read and write the mode of a terminal, and the value that disables a control key.
const (
	readMode  = unix.TIOCGETA
	writeMode = unix.TIOCSETA
	noKey     = 0xff
)
