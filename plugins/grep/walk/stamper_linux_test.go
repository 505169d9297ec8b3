package walk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
)

// TestStamper checks that a Stamper returns the same stamps as stat. The index compares stamps from both sources.
func TestStamper(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 255)
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o640), os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "same")),
		os.WriteFile(filepath.Join(dir, long), nil, 0o600), os.Mkdir(filepath.Join(dir, "dir"), 0o777), os.Symlink("file", filepath.Join(dir, "link")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.Chmod(filepath.Join(dir, "file"), 0o640|os.ModeSetuid),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := new(Stamper)
	for in, names := range map[string][]string{dir: {long, "file", "same", "dir", "link", "fifo"}, "/dev": {"null", "."}, "/proc": {"version", "self"}} {
		f, err := os.Open(in) // #nosec G304 -- a path of the test
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		p, err := OpenProbe(f, ".")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, name := range names {
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(in, name), &st); err != nil {
				t.Fatal(err)
			}
			got, err := s.At(p, name)
			if want := freshness.StampOf(&st); err != nil || in != "/proc" && got != want || !got.Same(want) {
				t.Errorf("%s/%s: %+v, %v; a stat says %+v", in, name, got, err, want)
			}
		}
		for _, name := range []string{"missing", long + "x"} {
			if _, err := s.At(p, name); err == nil || len(name) == 7 && !errors.Is(err, unix.ENOENT) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
