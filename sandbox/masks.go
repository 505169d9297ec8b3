package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"toolhost.dev/sandbox/confine"
)

// MaskObjects creates an empty file and an empty directory that replace hidden files and directories. It creates them
// in a directory that tools cannot write. It keeps existing objects.
func MaskObjects(dir string) error {
	err := os.MkdirAll(dir, 0o755) //nolint:gosec // plugins of root run without root's access to files of others
	if err == nil {
		err = maskObject(filepath.Join(dir, confine.MaskDirectory),
			func(path string) error { return os.Mkdir(path, 0) }, true)
	}
	if err == nil {
		err = maskObject(filepath.Join(dir, confine.MaskFile), func(path string) error {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return f.Close()
		}, false)
	}
	if err != nil {
		return fmt.Errorf("the masks of denied paths cannot be created: %w", err)
	}
	return nil
}

// maskObject creates an object that nobody can open. If the host runs as root, the object belongs to a group that does
// not exist in sandboxes. Otherwise root could open the object in a sandbox, because root can open all files whose
// owner and group exist there.
func maskObject(path string, create func(string) error, dir bool) error {
	if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if st.IsDir() != dir || !dir && (!st.Mode().IsRegular() || st.Size() != 0) {
		return fmt.Errorf("%s was changed; remove it", path)
	}
	if os.Getuid() == 0 {
		group, err := foreignGroup()
		if err == nil {
			err = os.Lchown(path, 0, group)
		}
		if err != nil {
			return err
		}
	}
	if st.Mode().Perm() != 0 {
		return os.Chmod(path, 0)
	}
	return nil
}
