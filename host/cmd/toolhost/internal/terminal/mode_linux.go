package terminal

import "golang.org/x/sys/unix"

// The requests that read and write the mode of a terminal, and the value of a control key that no key has.
const (
	readMode  = unix.TCGETS
	writeMode = unix.TCSETS
	noKey     = 0
)
