package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile is empty: it is there for the positions in it, of which each path has one.
// So a lock leaves nothing behind, and its end is the kernel's business.
const lockFile = "locks"

// lock locks a path among the processes that share the journal's directory. Within this
// process it excludes nobody: the caller holds the path's lock here already.
func (j *Journal) lock(ctx context.Context, path string) (unlock func(), err error) {
	f := j.locks()
	if f == nil {
		return func() {}, nil // no place for it; the check before each write remains
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

// locks opens the file once; nil if it cannot be.
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
		f, err := os.OpenFile(filepath.Join(j.dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil
		}
		j.lockFile = f
	}
	return j.lockFile
}
