package artifact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"
)

const someContent = "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func newStore(t *testing.T) *Store {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	s, err := OpenStore()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSweepAndUnpack runs sweeps while temporary directories are used for unpacking. A sweep must not remove a
// directory that is in use.
func TestSweepAndUnpack(t *testing.T) {
	s := newStore(t)
	done := make(chan struct{})
	var sweeper, makers sync.WaitGroup
	for range 2 {
		sweeper.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := s.Sweep(false); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 4 {
		makers.Go(func() {
			for range 300 {
				dir, release, err := s.Temporary()
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
					t.Error(err)
				}
				release()
			}
		})
	}
	makers.Wait()
	close(done)
	sweeper.Wait()
}

// TestHoldRemoved checks that Hold fails if the directory is removed while Hold waits for its lock.
func TestHoldRemoved(t *testing.T) {
	s := newStore(t)
	dir := s.Dir(someContent)
	// Repeat this, because the scheduler decides whether Hold opens the directory before its removal.
	for range 200 {
		holdRemoved(t, s, dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Hold(filepath.Join(dir, "x")); err != nil {
		t.Error(err)
	}
	if gone, err := s.Remove(someContent); err != nil || gone {
		t.Errorf("what is held was removed: %v", err)
	}
}

func holdRemoved(t *testing.T, s *Store, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := flock.Open(dir, os.O_RDONLY, unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	var hold error
	var waits sync.WaitGroup
	ready := make(chan struct{})
	waits.Go(func() {
		close(ready)
		hold = s.Hold(filepath.Join(dir, "x"))
	})
	<-ready
	runtime.Gosched()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	waits.Wait()
	if !errors.Is(hold, fs.ErrNotExist) {
		t.Fatal(hold)
	}
}

// TestLockAll checks that nothing is collected while a lock file is locked for a change.
func TestLockAll(t *testing.T) {
	s := newStore(t)
	one, err := s.Lock("/a")
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Lock("/b") // the lock of another lock file must be free
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(s.all())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		t.Error("versions could be collected")
	}
	one()
	two()
	all, err := s.LockAll()
	if err != nil {
		t.Fatal(err)
	}
	all()
}
