package change

import (
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/gitstate"
)

// waits is the reason why a change stays in the branch after a commit of the same file is saved.
const waits = "the branch changed it after a commit that is saved for git merge. Apply again after the merge"

// markCommitted marks the changes that the saved commits also contain. A later "git merge" adds these changes to the
// workspace.
func (g *Repository) markCommitted(changes []Change) {
	if g.saved == "" {
		return
	}
	for i := range changes {
		c := &changes[i]
		name, ok := c.Path, true
		if top := filepath.Dir(g.Dir); top != "." {
			name, ok = strings.CutPrefix(c.Path, top+"/")
		}
		if !ok || c.Path == g.Dir || strings.HasPrefix(c.Path, g.Dir+"/") || c.Op == OpMetadata || c.Never != "" {
			continue
		}
		switch same, other := g.compareCommitted(c, name); {
		case same > 0 && other == 0:
			c.Repository, c.Commit, c.Merge = g.Dir, g.saved, false
		case same+other > 0 && g.concerns(name):
			c.Repository, c.Waits = g.Dir, waits
		}
	}
}

// later is a file that the branch changed after the saved commits.
type later struct {
	path, blob string
	mode       uint32
}

// keepAncestors records the committed states of files that the branch changed later. After git has merged the commits,
// these states are the common ancestors.
func (g *Repository) keepAncestors() error {
	if len(g.later) == 0 {
		return nil
	}
	a := Ancestry{l: g.w.l, seen: make(map[string]bool)}
	defer a.Close()
	if err := a.open(); err != nil {
		return err
	}
	for _, l := range g.later {
		text, err := g.objects.Content(l.blob)
		if err != nil || !isText(text) || len(text) > maxAncestor {
			continue // such a file cannot be merged
		}
		if err := a.write(&ancestor{Path: []byte(l.path), Since: a.l.since(l.path), Mode: l.mode,
			Size: int64(len(text))}, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether the commits change a file at a path or below it.
func (g *Repository) concerns(name string) bool {
	if _, ok := g.files[name]; ok {
		return true
	}
	for other := range g.files {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

// compareCommitted compares the files of a change with the commits. It returns the number of equal files and the number
// of different files.
func (g *Repository) compareCommitted(c *Change, name string) (same, other int) {
	top := filepath.Join(g.w.upper, c.Path)
	count := func(rel string, st *unix.Stat_t) {
		want, known := g.files[rel]
		if known && (want.Mode == 0 && st == nil ||
			st != nil && want == gitstate.BlobOf(filepath.Join(top, strings.TrimPrefix(rel, name)), st, len(g.oid))) {
			same++
			return
		}
		if other++; known && st != nil && want.Mode != 0 {
			g.later = append(g.later, later{path: filepath.Join(filepath.Dir(g.Dir), rel), blob: want.Name, mode: uint32(st.Mode)}) //nolint:unconvert // not all systems have 32 bits here
		}
	}
	switch {
	case c.Is == "" && c.Was != "directory":
		count(name, nil)
	case c.Is == "":
		other++ // count it as different, because the directory can have contained files that git does not track
	case c.Is != "directory":
		var st unix.Stat_t
		if unix.Lstat(top, &st) == nil {
			count(name, &st)
		}
	case c.Was != "":
		other++
	default:
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			var st unix.Stat_t
			if err == nil && !d.IsDir() && unix.Lstat(path, &st) == nil {
				count(name+strings.TrimPrefix(path, top), &st)
			}
			return nil
		})
	}
	return same, other
}
