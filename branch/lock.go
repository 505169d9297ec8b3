package branch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"

	"toolhost.dev/branch/internal/overlay"
)

// ErrGone means that a branch was discarded before it could be locked.
var ErrGone = errors.New("it was discarded at this moment")

// forkTime is the time for which a lock can remain after this process has closed the lock file. The reason is that a
// child process of this process has a copy of the open file until it executes its program.
const forkTime = 200 * time.Millisecond

// tryLock tries to lock the file of a branch. If the lock was last taken by this process, tryLock waits for at most
// forkTime. If it fails, it returns the process id of the holder, or 0 if the id is unknown.
func tryLock(f *os.File) (holder int, ok bool) {
	for began := time.Now(); !flock.Try(f); time.Sleep(5 * time.Millisecond) {
		text := make([]byte, 20)
		n, _ := f.ReadAt(text, 0) // ignore the error: the id is then unknown
		holder, _ = strconv.Atoi(strings.TrimSpace(string(text[:n])))
		if holder != os.Getpid() || time.Since(began) > forkTime {
			return holder, false
		}
	}
	return 0, true
}

// lockDirectory locks the directory of a branch. The caller must close the file. If another process has the lock, the
// error is an [InUseError].
func lockDirectory(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	for {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the branch %s cannot be used: %w", name, ErrGone)
		}
		if err != nil {
			return nil, fmt.Errorf("the branch %s cannot be locked: %w", name, err)
		}
		holder, ok := tryLock(f)
		if !ok {
			return nil, errors.Join(&InUseError{Name: name, PID: holder}, f.Close())
		}
		// The branch can have been discarded and made again since the file was opened. The new directory then has
		// another lock file.
		var locked, now unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &locked); err != nil {
			return nil, errors.Join(fmt.Errorf("the branch %s cannot be locked: %w", name, err), f.Close())
		}
		if unix.Lstat(path, &now) == nil && now.Ino == locked.Ino && now.Dev == locked.Dev {
			return f, nil
		}
		_ = f.Close()
	}
}

// lock reserves the layer for this process. The caller must close the file. If another process uses
// the layer, the error is an [InUseError].
func (b *Branch) lock() (*os.File, error) {
	f, err := lockDirectory(b.dir, b.Name)
	if err != nil {
		return nil, err
	}
	// Read the branch again, because another process can have changed it before it released the lock.
	now, err := read(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrGone
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the branch %s cannot be used: %w", b.Name, err), f.Close())
	}
	*b = *now
	// After a host was killed, its processes in the branch can take a moment to end. Refuse the lock until then,
	// because the kernel would otherwise mount the layer twice.
	if boot, err := overlay.BootID(); b.Copy == nil && b.Boot != "" && (err != nil || b.Boot == boot) {
		pid, err := overlay.Lingering(b.mountName())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("it cannot be found out whether a process still uses the branch %s: %w. Repeat the command", b.Name, err), f.Close())
		}
		if pid > 0 {
			return nil, errors.Join(&InUseError{Name: b.Name, PID: pid}, f.Close())
		}
	}
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d", os.Getpid()) // only for messages of other processes
	return f, nil
}

// waitForLock limits the wait for a branch that another process still uses. It is enough for a process that is about to
// end.
const waitForLock = 2 * time.Second

func waitLock(b *Branch) (*os.File, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		lock, err := b.lock()
		if used := (*InUseError)(nil); err == nil || !errors.As(err, &used) || time.Since(began) > waitForLock {
			return lock, err
		}
	}
}

// claim locks a branch. If a process was killed during an apply or a revert of the branch, claim first completes the
// operation. If wait is false, claim does not wait for the lock.
func (s *Store) claim(b *Branch, wait bool) (*os.File, error) {
	get := (*Branch).lock
	if wait {
		get = waitLock
	}
	for {
		lock, err := get(b)
		if err != nil {
			return nil, err
		}
		begun, err := b.interrupted()
		if err == nil && !begun {
			return lock, nil
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
		release, err := s.exclusive(b) // the base must be locked before the branch
		if err != nil {
			return nil, fmt.Errorf("a process was killed while it applied or reverted the branch %s. That must be completed first, because the branch has files of the workspace: %w", b.Name, err)
		}
		release()
	}
}

// ready is like claim with wait set to true. It also completes a restore whose process was killed. If the layer can be
// incomplete, ready returns the error of intact.
func (s *Store) ready(b *Branch) (*os.File, error) {
	lock, err := s.claim(b, true)
	if err != nil {
		return nil, err
	}
	if err = b.completeRestore(); err == nil {
		err = errors.Join(b.intact(), b.saves().RemovePreviews())
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// IncompleteError means that the machine stopped while a branch was in use. A person must look at its changes before
// [Store.Accept] makes the branch usable again.
type IncompleteError struct{ Name string }

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("the machine stopped while the branch %s was in use, so the files that were written last can be incomplete", e.Name)
}

// intact returns an [IncompleteError] if the machine stopped while the branch was mounted. The kernel syncs no file of
// a mounted branch, so files of the layer can be empty or torn. A person must look at them before anything uses it.
func (b *Branch) intact() error {
	if b.Boot == "" {
		return nil
	}
	boot, err := overlay.BootID()
	if err != nil {
		return fmt.Errorf("it cannot be found out whether the machine stopped while the branch %s was in use: %w", b.Name, err)
	}
	if b.Boot != boot {
		return &IncompleteError{Name: b.Name}
	}
	return nil
}

// exclusive locks the branch and its base, and completes the operation of a killed process.
func (s *Store) exclusive(b *Branch) (release func(), err error) {
	base, err := s.lockBase(b.Base)
	if err != nil {
		return nil, err
	}
	lock, err := waitLock(b)
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	unlock, err := b.work.Lock()
	if err != nil {
		return nil, errors.Join(err, lock.Close(), base.Close())
	}
	release = func() {
		unlock()
		_, _ = lock.Close(), base.Close()
	}
	if err := errors.Join(b.check(), b.recover(s.Guard)); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// lockBase locks a base, so that only one process at a time changes it.
func (s *Store) lockBase(base string) (*os.File, error) {
	dir := filepath.Join(s.Dir, ".bases")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(base))
	f, err := os.OpenFile(filepath.Join(dir, hex.EncodeToString(sum[:8])), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// The lock can remain for a moment after its release, because a child process has a copy of the open file until it
	// executes its program.
	for began := time.Now(); !flock.Try(f); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) < waitForLock {
			continue
		}
		pid := 0
		_, _ = fmt.Fscan(f, &pid)
		return nil, errors.Join(fmt.Errorf("the process %d applies or reverts a branch in %s right now. Wait until it ends", pid, base), f.Close())
	}
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d", os.Getpid()) // only for messages of other processes
	return f, nil
}
