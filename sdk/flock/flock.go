// Package flock locks files with flock(2). The kernel releases a lock when all descriptors of the open file are closed.
// This also happens when the process is killed.
package flock

import (
	"errors"
	"fmt"
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

// Open opens a file or a directory, which it creates like [os.OpenFile], and locks it like [Apply]. Another process can
// remove or replace the file before it is locked. Open then opens the path again, so the path leads to the locked file.
// Open follows no symbolic link at the end of the path, and does not wait for the writer of a named pipe.
func Open(path string, flag, how int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		opened, err := f.Stat()
		if err == nil && !opened.Mode().IsRegular() && !opened.IsDir() {
			err = fmt.Errorf("%s is not a regular file: remove it", path)
		}
		if err == nil {
			err = Apply(f, how)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if now, err := os.Lstat(path); err == nil && os.SameFile(opened, now) {
			return f, nil
		}
		_ = f.Close() // nothing was written
	}
}

// Try locks a file exclusively if no other open file has the lock. It reports whether it locked the file.
func Try(f *os.File) bool { return Apply(f, unix.LOCK_EX|unix.LOCK_NB) == nil }
