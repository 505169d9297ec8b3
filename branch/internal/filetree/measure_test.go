package filetree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMeasureCountsEverything checks that the size of a tree includes files that are hard to count. They lie below a
// path that is longer than the system permits, and in a directory that its owner cannot read. Root can read this
// directory, too.
func TestMeasureCountsEverything(t *testing.T) {
	top := t.TempDir()
	size, before := count(top)
	at, err := unix.Open(top, OpenPath, 0)
	name := strings.Repeat("d", 200)
	const depth = 50
	for range depth {
		if err == nil {
			err = unix.Mkdirat(at, name, 0o700)
		}
		next, failed := unix.Openat(at, name, OpenPath, 0)
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
	closed := filepath.Join(top, "closed", "listed")
	if err := os.MkdirAll(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	big(unix.AT_FDCWD, filepath.Join(closed, "file"))
	if err := errors.Join(os.Chmod(closed, 0o400), os.Chmod(filepath.Dir(closed), 0)); err != nil {
		t.Fatal(err)
	}
	defer RemoveAll(top) // the test itself cannot remove directories that it cannot read
	nowSize, now := count(top)
	if got, want := now-before, depth+1+3; got != want {
		t.Errorf("%d new files are counted, want %d", got, want)
	}
	if got := nowSize - size; got < 2<<20 {
		t.Errorf("%d new bytes are counted, want 2 MiB", got)
	}
	if info, err := os.Lstat(filepath.Dir(closed)); err != nil || info.Mode().Perm() != 0 {
		t.Errorf("the directory has the mode %v (%v), want that of the command", info.Mode(), err)
	}
}

// count is Measure for a tree about whose paths the test asks nothing.
func count(top string) (size int64, files int) { return Measure(top, func(string, bool) {}) }

// TestMeasureEnds checks that the count stops with the result Beyond for directories that are nested so deeply that
// counting them would need too many descriptors.
func TestMeasureEnds(t *testing.T) {
	top := t.TempDir()
	name := strings.Repeat("d", 255)
	at, err := unix.Open(top, OpenPath, 0)
	for range 17 * (maxEntered + 1) {
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, failed := unix.Openat(at, name, OpenPath, 0)
		_ = unix.Close(at)
		at, err = next, failed
	}
	_ = unix.Close(at)
	if _, files := count(top); files != Beyond {
		t.Errorf("%d files are counted, want %d", files, Beyond)
	}
}
