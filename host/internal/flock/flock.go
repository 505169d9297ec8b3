// Package flock locks files, as flock(2) does. The kernel releases a lock when the file is closed everywhere, also when the
// process is killed.
package flock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Apply locks or unlocks a file. The argument how is that of flock(2), such as LOCK_EX. With LOCK_NB, Apply returns
// EWOULDBLOCK if another open file has the lock. Signals do not interrupt the wait: the runtime of Go sends them to its own
// threads.
func Apply(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Try locks a file exclusively if no other open file has the lock, and reports whether it did.
func Try(f *os.File) bool { return Apply(f, unix.LOCK_EX|unix.LOCK_NB) == nil }
