// Package flock locks files with flock(2). The kernel releases a lock when all descriptors of the open file are closed.
// This also happens when the process is killed.
package flock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Apply locks or unlocks a file. The argument "how" is an operation of flock(2), such as LOCK_EX. With LOCK_NB, Apply
// returns EWOULDBLOCK if another open file has the lock. Signals do not interrupt the wait, because the runtime of Go
// handles them in its own threads.
func Apply(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Try locks a file exclusively if no other open file has the lock. It reports whether it locked the file.
func Try(f *os.File) bool { return Apply(f, unix.LOCK_EX|unix.LOCK_NB) == nil }
