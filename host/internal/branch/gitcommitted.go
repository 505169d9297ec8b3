package branch

import (
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// waits is the reason why a change stays in the branch when its commit is saved.
const waits = "the branch changed it after a commit that is saved for git merge. Apply again after the merge"

// markCommitted marks the changes that are in the saved commits, which git merge brings in.
func (g *gitState) markCommitted(changes []Change) {
	if g.saved == "" {
		return
	}
	for i := range changes {
		c := &changes[i]
		name, ok := c.Path, true
		if top := filepath.Dir(g.dir); top != "." {
			name, ok = strings.CutPrefix(c.Path, top+"/")
		}
		if !ok || c.Path == g.dir || strings.HasPrefix(c.Path, g.dir+"/") || c.Op == OpMetadata || c.Never != "" {
			continue
		}
		switch same, other := g.compareCommitted(c, name); {
		case same > 0 && other == 0:
			c.repo, c.Commit, c.Merge = g.dir, g.saved, false
		case same+other > 0 && g.concerns(name):
			c.repo, c.Waits = g.dir, waits
		}
	}
}

// later is a file that the branch changed after a commit that is saved.
type later struct {
	path, blob string
	mode       uint32
}

// keepAncestors records the committed states of files that the branch changed later. Once git has merged the commits, these
// are the common ancestors.
func (g *gitState) keepAncestors() error {
	if len(g.later) == 0 {
		return nil
	}
	a := ancestry{b: g.w.b, seen: make(map[string]bool)}
	defer a.close()
	if err := a.open(); err != nil {
		return err
	}
	for _, l := range g.later {
		text, err := g.objects.ask("cat-file", "blob", l.blob)
		if err != nil || !isText(text) || len(text) > maxAncestor {
			continue // it is not merged
		}
		if err := a.write(&ancestor{Path: []byte(l.path), Since: a.b.since(l.path), Mode: l.mode, Size: int64(len(text))}, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether the commits change a file at a path or below it.
func (g *gitState) concerns(name string) bool {
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

// compareCommitted counts the files of a change that are as in the commits, and the other ones.
func (g *gitState) compareCommitted(c *Change, name string) (same, other int) {
	top := filepath.Join(g.w.upper, c.Path)
	count := func(rel string, st *unix.Stat_t) {
		want, known := g.files[rel]
		if known && (want.mode == 0 && st == nil || st != nil && want == blobOf(filepath.Join(top, strings.TrimPrefix(rel, name)), st, len(g.oid))) {
			same++
			return
		}
		if other++; known && st != nil && want.mode != 0 {
			g.later = append(g.later, later{path: filepath.Join(filepath.Dir(g.dir), rel), blob: want.name, mode: uint32(st.Mode)}) //nolint:unconvert // not all systems have 32 bits here
		}
	}
	switch {
	case c.Is == "" && c.Was != "directory":
		count(name, nil)
	case c.Is == "":
		other++ // the directory can have had files that git does not know
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
