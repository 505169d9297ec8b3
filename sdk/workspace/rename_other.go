//go:build !linux

package workspace

import (
	"errors"
	"syscall"
)

// exchange always returns an error, because this system cannot exchange names atomically.
func exchange(*pinned, string) error { return errors.ErrUnsupported }

// renameNew renames the temporary file to the target's name. It returns an error if the name is in use.
func renameNew(d *pinned, temp string) error { return linkNew(d, temp) }

func ctim(st *syscall.Stat_t) syscall.Timespec { return st.Ctimespec }
