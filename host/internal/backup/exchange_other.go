//go:build !linux

package backup

import (
	"errors"
	"os"
)

// exchange makes from the directory to, and keeps the earlier content of to as before.
func exchange(from, to, before string) error {
	if err := os.Rename(to, before); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Rename(before, to))
	}
	return nil
}
