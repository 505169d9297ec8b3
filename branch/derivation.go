package branch

import (
	"maps"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/journal"
	"toolhost.dev/branch/internal/overlay"
)

// derivation records when a layer last saw each path of the base. Later changes of the base can conflict with the
// layer.
type derivation struct {
	// Since is the time of the base's file system at which the branch began, in nanoseconds. A path of the base that
	// changed later can conflict with the layer. Renewed contains later times for single paths and everything below
	// them.
	Since   int64            `json:"since"`
	Renewed map[string]int64 `json:"renewed,omitempty"`
	// Clock is the state of the clock that measured Since. SetBack means that the clock was set back afterwards. Both
	// are empty for a copy, because a copy compares states and not times.
	Clock   *clock `json:"clock,omitempty"`
	SetBack bool   `json:"set_back,omitempty"`
}

// clock identifies a state of the clock of the machine. Offset is the result of [overlay.ClockOffset].
type clock struct {
	Boot   string `json:"boot"`
	Offset int64  `json:"offset"`
}

// maxBack is the tolerated step back of the clock, in nanoseconds. A leap second sets the clock back by one second.
const maxBack = 1.1e9

// clockSetBack reports whether the clock was set back since the branch began. Changes of the base then have times from
// before the branch, so that the times do not show them.
func (b *Branch) clockSetBack() bool {
	if b.Copy != nil {
		return false
	}
	if b.SetBack || time.Now().UnixNano()+maxBack < b.Since {
		return true
	}
	offset, known := overlay.ClockOffset()
	if !known || b.Clock == nil || b.Clock.Offset <= offset+maxBack {
		return false
	}
	boot, err := overlay.BootID()
	return err != nil || boot == b.Clock.Boot
}

// watchClock stores in b the state of the clock, and whether the clock was set back. The caller must save b.
func (b *Branch) watchClock() {
	if b.Copy != nil {
		return
	}
	b.SetBack = b.clockSetBack()
	offset, known := overlay.ClockOffset()
	boot, err := overlay.BootID()
	if known && err == nil && (b.Clock == nil || b.Clock.Boot != boot || b.Clock.Offset < offset) {
		b.Clock = &clock{Boot: boot, Offset: offset}
	}
}

// renew records the argument "now" as the time at which the layer and the base were compared at the paths of a journal.
// Only later changes of the base are conflicts at these paths. renew returns these paths. It also returns the
// directories whose metadata alone was compared. If the apply was reverted, earlier changes of the base become
// conflicts again.
func (b *Branch) renew(j *journal.Journal, state string, now int64) (paths, dirs []string) {
	if state == journal.Reverted && j.Done != 0 && j.Since != 0 {
		b.Since, b.Renewed, b.SetBack = j.Since, maps.Clone(j.Renewed), b.SetBack || j.SetBack
	}
	if b.Renewed == nil {
		b.Renewed = make(map[string]int64)
	}
	for i := range j.Steps {
		s := &j.Steps[i]
		switch {
		case state == journal.Reverted && (s.Contested || !b.asCompared(j, s)):
			// the conflict stays; after a kill, the base can have changed before this process completed the revert
		case s.Op == change.OpMetadata:
			b.Renewed[change.Itself(s.Path)] = now // nothing below the directory was compared
			dirs = append(dirs, s.Path)
		default:
			b.Renewed[s.Path] = now
			paths = append(paths, s.Path)
		}
	}
	return paths, dirs
}

// asCompared reports whether a path of the base is unchanged since an apply searched for conflicts.
func (b *Branch) asCompared(j *journal.Journal, s *journal.Step) bool {
	at := filepath.Join(b.Base, s.Path)
	var st unix.Stat_t
	if unix.Lstat(at, &st) != nil {
		return s.Old.Inode == 0
	}
	now := change.StampOf(&st)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && s.Op != change.OpMetadata {
		return now.Inode == s.Old.Inode && change.Newest(at, j.Checked, false) == ""
	}
	return now == s.Old || s.Op == change.OpMetadata
}
