package flock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenReplacedFile checks that a lock belongs to the file at the path, although the file was removed or replaced
// while Open waited for its lock.
func TestOpenReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for _, replace := range []bool{true, false} {
		first, err := Open(path, os.O_RDWR|os.O_CREATE, unix.LOCK_EX)
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan *os.File)
		go func() {
			f, err := Open(path, os.O_RDWR|os.O_CREATE, unix.LOCK_EX)
			if err != nil {
				t.Error(err)
			}
			waiting <- f
		}()
		for descriptors(t, path) < 2 {
			runtime.Gosched()
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if replace {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		second := <-waiting
		if _, err := Open(path, os.O_RDWR|os.O_CREATE, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Fatalf("replaced %t: two locks of %s at the same time: %v", replace, path, err)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}

// descriptors returns the number of open files of this process that have a path.
func descriptors(t *testing.T, path string) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && to == path {
			n++
		}
	}
	return n
}

// TestOpenRefuses checks files that must not be locked: a missing file, the target of a link, and a pipe, which must
// not block the caller.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink(filepath.Join(dir, "target"), link), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "missing"), os.O_RDWR, unix.LOCK_EX); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, path := range []string{link, pipe} {
		if _, err := Open(path, os.O_RDONLY|os.O_CREATE, unix.LOCK_EX); err == nil {
			t.Errorf("%s was locked", path)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); err == nil {
		t.Error("the target of the link was created")
	}
	if f, err := Open(dir, os.O_RDONLY, unix.LOCK_EX); err != nil {
		t.Error(err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}
}
