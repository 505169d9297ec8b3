package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Link creates a link to the binary in dir for each name. It does not remove other files from dir, because another host
// can use them. Such a file does no harm: if a command starts it, the host reports that it does not know the name.
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
		// Another host can create the same link at the same time.
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
