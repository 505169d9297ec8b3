// Package stamp identifies states of files and directories, so that a search reads again only what changed. Most callers
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
	Sec, Nsec      int64     // the change time
	Taken          time.Time // a time before the state was read
}

// Settled is the age of a change after which another change certainly has another time.
const Settled = 200 * time.Millisecond

// Of returns the stamp of a state. The argument taken is a time before the state was read.
func Of(st *unix.Stat_t, taken time.Time) Stamp {
	return Stamp{uint64(st.Dev), st.Ino, uint64(st.Size), uint32(st.Mode), int64(st.Ctim.Sec), int64(st.Ctim.Nsec), taken} //nolint:unconvert // types differ between systems
}

// Same reports whether nothing changed between s and a later stamp. A stamp that was taken right after a change can miss
// another change with the same time, so Same returns false for it.
func (s *Stamp) Same(later *Stamp) bool {
	return s.Ino == later.Ino && s.Dev == later.Dev && s.Sec == later.Sec && s.Nsec == later.Nsec && s.Size == later.Size && s.Mode == later.Mode &&
		s.Taken.Sub(time.Unix(s.Sec, s.Nsec)) > Settled
}

// IsDir reports whether the stamp is that of a directory.
func (s *Stamp) IsDir() bool { return s.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsLink reports whether the stamp is that of a symbolic link.
func (s *Stamp) IsLink() bool { return s.Mode&unix.S_IFMT == unix.S_IFLNK }

// IsFile reports whether the stamp is that of a regular file.
func (s *Stamp) IsFile() bool { return s.Mode&unix.S_IFMT == unix.S_IFREG }
