// Package stamp identifies states of files and directories, so that a search can skip unchanged files. Most callers
// want [Of] and [Stamp.Same].
package stamp

import (
	"time"

	"golang.org/x/sys/unix"
)

// Stamp identifies a state of a file or directory. It contains the change time, which programs cannot set back.
type Stamp struct {
	Dev, Ino, Size uint64
	Mode           uint32
	Sec, Nsec      int64     // change time
	Taken          time.Time // time before the state was read
}

// Settled is the minimum age of a file's last change when a stamp is taken. If the change is younger, a later change
// can have the same change time.
const Settled = 200 * time.Millisecond

// Of returns the stamp of a state. The argument "taken" is a time before the state was read.
func Of(st *unix.Stat_t, taken time.Time) Stamp {
	return Stamp{uint64(st.Dev), st.Ino, uint64(st.Size), uint32(st.Mode), int64(st.Ctim.Sec), int64(st.Ctim.Nsec), taken} //nolint:unconvert // types differ between systems
}

// Same reports whether the file did not change between s and a later stamp. If s was taken right after a change,
// another change can have the same time. Therefore Same returns false for such a stamp.
func (s *Stamp) Same(later *Stamp) bool {
	return s.Ino == later.Ino && s.Dev == later.Dev && s.Sec == later.Sec && s.Nsec == later.Nsec &&
		s.Size == later.Size && s.Mode == later.Mode &&
		s.Taken.Sub(time.Unix(s.Sec, s.Nsec)) > Settled
}

// IsDir reports whether the stamp identifies a directory.
func (s *Stamp) IsDir() bool { return s.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsLink reports whether the stamp identifies a symbolic link.
func (s *Stamp) IsLink() bool { return s.Mode&unix.S_IFMT == unix.S_IFLNK }

// IsFile reports whether the stamp identifies a regular file.
func (s *Stamp) IsFile() bool { return s.Mode&unix.S_IFMT == unix.S_IFREG }
