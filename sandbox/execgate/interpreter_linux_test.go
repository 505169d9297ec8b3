package execgate

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLook checks which files count as scripts. A file lease that another process holds must not block the gate.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{"#!/bin/sh -e\nexit\n": "/bin/sh -e", "#! \t/bin/sh": "/bin/sh", "\x7fELF": "", "": "", "#!": "", "#!/a\x00b\n": "/a"} {
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, errno := look(fd, 0); got != want || errno != 0 {
			t.Errorf("%q: got %q and error %d, want %q", text, got, errno, want)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Fatal(err)
		}
		if got, _, errno := look(fd, 0); got != "" || errno != unix.EAGAIN {
			t.Errorf("%q with a lease: got %q and error %d", text, got, errno)
		}
		_, _ = f.Close(), unix.Close(fd)
	}
}
