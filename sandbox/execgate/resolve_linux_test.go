package execgate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileOfAnotherProcess checks that paths through the links of /proc are resolved for the process that uses them,
// and not for the host.
func TestFileOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"inner": "file", "cwd": "/proc/self/cwd", "up": "..", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxLinks + 2 { // a chain of links
		if err := os.Symlink(fmt.Sprintf("chain%d", i+1), filepath.Join(dir, fmt.Sprintf("chain%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 { // links whose targets have many elements
		if err := os.Symlink(fmt.Sprintf("long%d", i+1)+strings.Repeat("/.", 1900), filepath.Join(dir, fmt.Sprintf("long%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", fmt.Sprintf("chain%d", maxLinks+2)} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "long12"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sleep", "60")
	c.Dir = dir
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	last := func(n int) string { return filepath.Join(dir, fmt.Sprintf("chain%d", n)) }
	for _, tc := range []struct {
		path, want string
		errno      unix.Errno
	}{
		{"file", filepath.Join(dir, "file"), 0},
		{"/proc/self/cwd/file", filepath.Join(dir, "file"), 0},
		{"/proc/self/cwd/cwd/inner", filepath.Join(dir, "file"), 0},
		{"/proc/thread-self/cwd/./up/" + filepath.Base(dir) + "/inner", filepath.Join(dir, "file"), 0},
		{"/proc/self/root/../.." + dir + "/file", filepath.Join(dir, "file"), 0},
		{"/proc/self/cwd/none", "", unix.ENOENT},
		{"/proc/self/cwd/file/x", "", unix.ENOTDIR},
		{"/proc/self/cwd/loop", "", unix.ELOOP},
		{"/proc/self/cwd/chain0", "", unix.ELOOP},
		{"/proc/self/cwd/chain8", last(maxLinks + 2), 0},
		{"/proc/self/cwd/long0", "", unix.ENAMETOOLONG},
	} {
		fd, errno := file(c.Process.Pid, unix.AT_FDCWD, tc.path, dir, 0)
		got := ""
		if errno == 0 {
			got = pathOf(fd)
			_ = unix.Close(fd)
		}
		if errno != tc.errno || got != tc.want {
			t.Errorf("%s: %q %v, want %q %v", tc.path, got, errno, tc.want, tc.errno)
		}
	}
}
