package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile stays empty. Each path has a position in it, and a lock is one on that position. So
// the kernel ends the locks of a process that dies, and nothing is left.
const lockFile = "locks"

// Lock locks a path among the processes that share the journal's directory. It excludes nobody
// within this process, so the caller must hold a lock of the path here already. It waits until
// ctx ends. If there is no place or no support for locks, Lock succeeds at once: the check before
// each write remains.
func (j *Journal) Lock(ctx context.Context, path string) (unlock func(), err error) {
	f := j.locks()
	if f == nil {
		return func() {}, nil
	}
	sum := sha256.Sum256([]byte(path))
	at := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(binary.LittleEndian.Uint64(sum[:]) >> 2), Len: 1}
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at)
		switch {
		case err == nil:
			return func() {
				at.Type = unix.F_UNLCK
				_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at)
			}, nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR):
			return func() {}, nil // the file system has no such locks
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// locks opens the lock file once. It returns nil if that fails.
func (j *Journal) locks() *os.File {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lockFile == nil {
		if os.MkdirAll(j.dir, 0o700) != nil {
			return nil
		}
		f, err := os.OpenFile(j.Path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil
		}
		j.lockFile = f
	}
	return j.lockFile
}
