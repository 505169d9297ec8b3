// Package freshness detects whether files have changed since they were read. It uses change notifications of the
// kernel if they are available, and otherwise stat.
package freshness

import (
	"time"

	"golang.org/x/sys/unix"
)

// Stamp is the metadata of a file or directory as returned by stat. Equal stamps prove equal content only if the
// earlier stamp is settled; see [Stamp.Settled].
type Stamp struct {
	Dev, Ino            uint64
	Size, Mtime, Change int64 // times in nanoseconds
	Mode                uint32
	Links               uint64
}

// StampOf converts the result of stat.
func StampOf(st *unix.Stat_t) Stamp {
	return Stamp{
		Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Change: st.Ctim.Nano(), //nolint:unconvert // systems differ
		Mode: uint32(st.Mode), Links: uint64(st.Nlink), //nolint:unconvert // systems differ
	}
}

// Regular reports whether the stamp belongs to a regular file.
func (s Stamp) Regular() bool { return s.Mode&unix.S_IFMT == unix.S_IFREG }

// Same reports whether two stamps belong to the same file or directory. It ignores whether the content differs.
func (s Stamp) Same(o Stamp) bool { return s.Dev == o.Dev && s.Ino == o.Ino }

// Slack is the maximum delay of a file system's clock. Two changes within this duration can have the same timestamp.
type Slack time.Duration

// Linux takes file times from a clock that ticks at least every 10 ms. File servers use their own clocks.
const (
	LocalSlack   = Slack(100 * time.Millisecond)
	NetworkSlack = Slack(5 * time.Second)
)

// Settled reports whether every change after the time "read" would have changed the stamp. The caller must get this
// time from [Now] before it reads the file. Settled compares the change time, because programs cannot set the change
// time.
func (s Stamp) Settled(read int64, slack Slack) bool { return s.Change < read-int64(slack) }
