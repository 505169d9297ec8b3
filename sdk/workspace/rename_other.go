//go:build !linux

package workspace

import (
	"errors"
	"syscall"
)

// exchange would make the temporary file and the target change names in one step.
func exchange(*pinned, string) error { return errors.ErrUnsupported }

// renameNew renames the temporary file to the target's name unless that is taken.
func renameNew(d *pinned, temp string) error { return linkNew(d, temp) }

func ctim(st *syscall.Stat_t) syscall.Timespec { return st.Ctimespec }
