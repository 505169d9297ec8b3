//go:build !linux

package workspace

import (
	"errors"
	"syscall"
)

// exchange is not supported on this system.
func exchange(*pinned, string) error { return errors.ErrUnsupported }

// renameNew renames the temporary file to the target's name, unless the name is in use.
func renameNew(d *pinned, temp string) error { return linkNew(d, temp) }

func ctim(st *syscall.Stat_t) syscall.Timespec { return st.Ctimespec }
