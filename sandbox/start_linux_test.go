package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/need"
)

// TestStartWithoutNamespaces checks that a command with mounts does not start where the mounts would be ignored,
// because it would write to what they cover.
func TestStartWithoutNamespaces(t *testing.T) {
	kernel, err := Self()
	must(t, err)
	if why := (Landlock{}).Unusable(&kernel); why != nil {
		need.Missing(t, why)
	}
	old := self
	defer func() { self = old }()
	self = func() (Kernel, error) {
		kernel.Namespaces, kernel.NoNamespaces = false, "not for this test"
		return kernel, nil
	}
	dir := t.TempDir()
	mount, err := os.Open(t.TempDir())
	must(t, err)
	cmd := exec.Command("/bin/sh", "-c", "echo x > written")
	cmd.Dir = dir
	err = Start(cmd, Profile{WriteRoots: true, StartProcesses: true}, Place{Roots: []tool.Root{{Path: dir, Writable: true}}, Mounts: map[string]*os.File{dir: mount}})
	if err == nil {
		err = cmd.Wait()
	}
	if err == nil || !strings.Contains(err.Error(), "not for this test") {
		t.Errorf("the command started: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "written")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the command wrote to the covered directory: %v", err)
	}
	if err := mount.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the mount is still open: %v", err)
	}
}
