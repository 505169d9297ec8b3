package testprogram

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Built returns the directory of the programs that tests start: toolhost, its launcher and its shim, the bundled
// plugins below plugins with their manifests, and the plugin and the servers of the tests. Tests must not change them.
// "make test" builds them and names the directory in TOOLHOST_TEST_PROGRAMS. Without this variable, Built builds
// them.
var Built = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("TOOLHOST_TEST_PROGRAMS"); dir != "" {
		return dir, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	c := exec.Command("make", "--silent", "-C", root, "test-programs") //nolint:gosec // the repository of the tests
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("make test-programs: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// Copy copies some of the programs of [Built] to a directory. The names are relative to both directories.
func Copy(to string, names ...string) error {
	from, err := Built()
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(to, name)
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // other users start the programs
		}
		if err == nil {
			err = os.WriteFile(path, b, 0o755) //nolint:gosec // other users start the programs
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Root returns the root of the repository. A test that reads files there, outside of its module, must not use a result
// that Go kept from a run with other files. So Root reads the variable TOOLHOST_SOURCES, in which "make test" puts a
// hash of all files.
func Root() (string, error) {
	_ = os.Getenv("TOOLHOST_SOURCES") // Go records that the result depends on it
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no directory above has a go.work")
}
