// Package durable replaces files so that a crash leaves the old or the new content.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// TempPrefix begins the names of the files that [Replace] creates beside its target. A crash can leave such a file.
const TempPrefix = "new-"

// Replace replaces the content of a file, or creates the file with permission for the user only. Readers see the old or the
// new content. The new content and its name are on disk when Replace returns. Concurrent calls for one file are safe; one
// of them wins.
func Replace(path string, content []byte) error {
	if err := ReplaceUnsynced(path, content); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// ReplaceUnsynced is like [Replace], but does not wait for the name. A crash soon after it can bring the old content back.
func ReplaceUnsynced(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
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
