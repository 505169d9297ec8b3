//go:build !linux

package backup

import (
	"errors"
	"os"
)

// exchange renames the directory "from" to "to" and keeps the earlier directory "to" under the name "before".
func exchange(from, to, before string) error {
	if err := os.Rename(to, before); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Rename(before, to))
	}
	return nil
}
