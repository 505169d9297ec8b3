package terminal

import "golang.org/x/sys/unix"

// These are the requests to read and write the mode of a terminal, and the value that disables a control key.
const (
	readMode  = unix.TCGETS
	writeMode = unix.TCSETS
	noKey     = 0
)
