package branch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// TestUsageCountsEverything checks that the usage of a branch includes files that are hard to count. They lie below a
// path that is longer than the system permits, and in a directory that its owner cannot read. Root can read this
// directory, too.
func TestUsageCountsEverything(t *testing.T) {
	b := fresh(t)
	size, count := b.Usage()
	at, err := unix.Open(b.Layer(), filetree.OpenPath, 0)
	name := strings.Repeat("d", 200)
	const depth = 50
	for range depth {
		if err == nil {
			err = unix.Mkdirat(at, name, 0o700)
		}
		next, failed := unix.Openat(at, name, filetree.OpenPath, 0)
		_ = unix.Close(at)
		if at = next; err == nil {
			err = failed
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	big := func(dir int, name string) {
		t.Helper()
		fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), name)
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	big(at, "deep")
	_ = unix.Close(at)
	closed := filepath.Join(b.Layer(), "closed", "listed")
	if err := os.MkdirAll(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	big(unix.AT_FDCWD, filepath.Join(closed, "file"))
	if err := errors.Join(os.Chmod(closed, 0o400), os.Chmod(filepath.Dir(closed), 0)); err != nil {
		t.Fatal(err)
	}
	defer filetree.RemoveAll(b.dir) // the test itself cannot remove directories that it cannot read
	nowSize, nowCount := b.Usage()
	if got, want := nowCount-count, depth+1+3; got != want {
		t.Errorf("%d new files are counted, want %d", got, want)
	}
	if got := nowSize - size; got < 2<<20 {
		t.Errorf("%d new bytes are counted, want 2 MiB", got)
	}
	if info, err := os.Lstat(filepath.Dir(closed)); err != nil || info.Mode().Perm() != 0 {
		t.Errorf("the directory has the mode %v (%v), want that of the command", info.Mode(), err)
	}
}

func fresh(t *testing.T) *Branch {
	t.Helper()
	s := &Store{Dir: t.TempDir()}
	b, err := s.Make("", t.TempDir(), "b", Backend{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestUsageEnds checks that the count stops with the result Beyond for directories that are nested so deeply that
// counting them would need too many descriptors.
func TestUsageEnds(t *testing.T) {
	b := fresh(t)
	name := strings.Repeat("d", 255)
	at, err := unix.Open(b.Layer(), filetree.OpenPath, 0)
	for range 17 * (maxEntered + 1) {
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, failed := unix.Openat(at, name, filetree.OpenPath, 0)
		_ = unix.Close(at)
		at, err = next, failed
	}
	_ = unix.Close(at)
	if _, count := b.Usage(); count != Beyond {
		t.Errorf("%d files are counted, want %d", count, Beyond)
	}
}
