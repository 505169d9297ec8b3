// Package durable replaces files so that a crash leaves the old or the new content.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TempPrefix is the prefix of the names of temporary files. They are created in the directory of the file to replace. A
// crash can leave such a file.
const TempPrefix = "new-"

// Replace replaces the content of a file, or creates the file with permission for the user only. Readers see the old or
// the new content. The new content and its name are on disk when Replace returns. Concurrent calls for one file are
// safe; one of them wins.
func Replace(path string, content []byte) error {
	return ReplaceMode(path, content, 0o600)
}

// ReplaceMode is like [Replace], and sets the permissions of the file.
func ReplaceMode(path string, content []byte, mode fs.FileMode) error {
	if err := replace(path, content, mode); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// ReplaceUnsynced is like [Replace], but returns before the new name is on disk. After a crash, the file can have its
// old content.
func ReplaceUnsynced(path string, content []byte) error {
	return replace(path, content, 0o600)
}

// Update is like [Replace], but for a file that belongs to a person. It keeps the permissions of the file. If path is a
// symbolic link, Update replaces the target of the link.
func Update(path string, content []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := fs.FileMode(0o600)
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
	}
	return ReplaceMode(path, content, mode)
}

func replace(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if mode != 0o600 { // the mode of temporary files
		err = errors.Join(err, f.Chmod(mode))
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// SyncDir waits until the names in a directory are on disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
