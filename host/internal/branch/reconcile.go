package branch

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/textmerge"
)

// reconcile solves a conflict about a file whose state at the beginning of the branch is known. It merges texts. It leaves
// the conflict if both sides changed the same lines, or modes or attributes in different ways.
func (w *walker) reconcile(c *Change, lo, up *unix.Stat_t) {
	if c.Conflict == "" || c.Was != "file" || w.exact {
		return
	}
	k := w.ancestorOf(c.Path)
	if k == nil || k.Index != "" {
		return
	}
	before, err := k.text(w.b)
	theirs, readable := view{base: w.base}.text(c.Path, "file")
	if err != nil || !readable {
		return
	}
	upper, base := filepath.Join(w.upper, c.Path), filepath.Join(w.base, c.Path)
	loMode, upMode := uint32(lo.Mode), uint32(up.Mode) //nolint:unconvert // not all systems have 32 bits here
	untouched := theirs == before && loMode == k.Mode
	if c.Op != OpModify {
		if untouched && len(attributesOf(base)) == 0 {
			c.Conflict = "" // only its times changed
		}
		return
	}
	if !equalAttributes(base, upper) || !sameOwner(lo, up) {
		return
	}
	mode := upMode
	switch {
	case loMode == k.Mode, loMode == upMode:
	case upMode == k.Mode:
		mode = loMode
	default:
		return
	}
	ours, readable := view{base: w.upper}.text(c.Path, "file")
	if !readable {
		return
	}
	merged, err := textmerge.Merge(before, ours, theirs)
	switch {
	case err != nil:
		c.Conflict += ": " + err.Error()
		return
	case merged == theirs && mode == loMode:
		c.drop = true // the branch has no change of its own
	case merged != ours || mode != upMode:
		c.Merge, c.made = true, &merged
		c.Mode, c.Size = mode&0o7777, int64(len(merged))
	}
	c.Conflict = ""
}

// bornAfter reports whether a directory of the base was made after a time. It returns false if the file system does not know.
func bornAfter(dir string, since int64) bool {
	at, known := birth(dir)
	return known && at >= since
}
