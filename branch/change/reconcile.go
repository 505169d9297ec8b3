package change

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/textmerge"
)

// reconcile removes the conflict about a file if its original state is known and the changes of both sides fit
// together. It merges texts. The conflict stays if both sides changed the same lines, or changed the mode or the
// attributes differently.
func (w *walker) reconcile(c *Change, lo, up *unix.Stat_t) {
	if c.Conflict == "" || c.Was != "file" || w.exact {
		return
	}
	if c.Op == OpModify && max(lo.Size, up.Size) > maxAncestor {
		c.Conflict += fmt.Sprintf(", and a file of more than %d MiB is not merged", maxAncestor>>20)
		return
	}
	k := w.ancestorOf(c.Path)
	if k == nil || k.Index != "" {
		return
	}
	before, err := k.text(w.l)
	theirs, readable := View{Base: w.base}.Text(c.Path, "file")
	if err != nil || !readable {
		return
	}
	upper, base := filepath.Join(w.upper, c.Path), filepath.Join(w.base, c.Path)
	loMode, upMode := uint32(lo.Mode), uint32(up.Mode) //nolint:unconvert // not all systems have 32 bits here
	untouched := theirs == before && loMode == k.Mode
	if c.Op != OpModify {
		if untouched && len(filetree.Attributes(base)) == 0 {
			c.Conflict = "" // the base changed only the times of the file
		}
		return
	}
	if !filetree.EqualAttributes(base, upper) || !filetree.SameOwner(lo, up) {
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
	ours, readable := View{Base: w.upper}.Text(c.Path, "file")
	if !readable {
		return
	}
	merged, err := textmerge.Merge(before, ours, theirs)
	switch {
	case err != nil:
		c.Conflict += ": " + err.Error()
		return
	case merged == theirs && mode == loMode:
		c.Dropped = true // the merged file equals the file of the base
	case merged != ours || mode != upMode:
		c.Merge, c.Content = true, &merged
		c.Mode, c.Size = mode&0o7777, int64(len(merged))
	}
	c.Conflict = ""
}

// bornAfter reports whether a directory of the base was made after a time. It also returns false if the file system
// does not record this time.
func bornAfter(dir string, since int64) bool {
	at, known := filetree.Birth(dir)
	return known && at >= since
}
