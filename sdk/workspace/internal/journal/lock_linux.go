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

// lockFile is the name of an empty file. Each path is mapped to a position in the file. Locking a path means locking
// this position with a record lock. Therefore the kernel releases the locks of a dead process.
const lockFile = "locks"

// Lock locks a path between processes that share the journal's directory. It does not exclude callers in the same
// process, so the caller must already hold a lock for the path in this process. Lock waits until the path is free or
// ctx is canceled. If locks are not supported, Lock succeeds immediately, because each write is checked in any case.
func (j *Journal) Lock(ctx context.Context, path string) (unlock func(), err error) {
	f := j.locks()
	if f == nil {
		return func() {}, nil
	}
	sum := sha256.Sum256([]byte(path))
	at := unix.Flock_t{
		Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(binary.LittleEndian.Uint64(sum[:]) >> 2), Len: 1,
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at)
		switch {
		case err == nil:
			return func() {
				at.Type = unix.F_UNLCK
				_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at)
			}, nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR):
			return func() {}, nil // the file system does not support record locks
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// locks returns the open lock file. It opens the file at the first call. It returns nil if the file cannot be
// opened.
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
