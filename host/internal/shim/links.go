package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Link makes dir hold a program of each name, all of them links to the binary. What
// else is there stays: another host may use it, and a name that the host does not know
// says so when it is used.
func Link(dir, binary string, names []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // commands of another user may be given it
		return err
	}
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("%q is not a valid program name", name)
		}
		path := filepath.Join(dir, name)
		if to, err := os.Readlink(path); err == nil && to == binary {
			continue
		}
		// Another host may be about to do the same.
		if err := os.Symlink(binary, path); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if to, err := os.Readlink(path); err == nil && to == binary {
			continue
		}
		tmp, err := os.MkdirTemp(dir, ".link")
		if err != nil {
			return err
		}
		fresh := filepath.Join(tmp, "l")
		if err = os.Symlink(binary, fresh); err == nil {
			err = os.Rename(fresh, path)
		}
		if err = errors.Join(err, os.RemoveAll(tmp)); err != nil {
			return err
		}
	}
	return nil
}
