// Package freshness implements checks whether knowledge about files is still valid: by change
// notifications of the kernel where they exist, and else by stat.
package freshness

import (
	"time"

	"golang.org/x/sys/unix"
)

// Stamp is what a stat says of a file. Two equal stamps mean the same content only if
// the first one is settled; see [Stamp.Settled].
type Stamp struct {
	Dev, Ino            uint64
	Size, Mtime, Change int64 // times in nanoseconds
	Mode                uint32
	Links               uint64
}

// StampOf returns the stamp of a stat's answer.
func StampOf(st *unix.Stat_t) Stamp {
	return Stamp{
		Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Change: st.Ctim.Nano(), //nolint:unconvert // systems differ
		Mode: uint32(st.Mode), Links: uint64(st.Nlink), //nolint:unconvert // systems differ
	}
}

// Regular reports whether the file is a regular one.
func (s Stamp) Regular() bool { return s.Mode&unix.S_IFMT == unix.S_IFREG }

// Same reports whether two stamps are of the same directory or file, whatever is in it.
func (s Stamp) Same(o Stamp) bool { return s.Dev == o.Dev && s.Ino == o.Ino }

// Slack is how far the clock of a file system may be behind: a change that comes less
// than this after the one before may bear the same time.
type Slack time.Duration

// The slacks. Linux takes file times from a clock that moves every 10 ms at most; a
// server has a clock of its own.
const (
	LocalSlack   = Slack(100 * time.Millisecond)
	NetworkSlack = Slack(5 * time.Second)
)

// Settled reports whether a file that was read at a time (of [Now], taken before reading)
// would bear another stamp if it had changed since. The time of change counts,
// which no program can set.
func (s Stamp) Settled(read int64, slack Slack) bool { return s.Change < read-int64(slack) }
