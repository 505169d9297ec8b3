package policy

import (
	"path/filepath"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
)

// Globs converts globs in the form of [Rule.Paths] to absolute globs. Relative globs are relative to the workspace. If
// the beginning of a glob contains symbolic links, the result also contains the glob with the links resolved.
func Globs(globs []string, workspace string) (out []string, err error) {
	for _, g := range globs {
		pg, err := newPathGlob(g)
		if err != nil {
			return nil, err
		}
		if pg.relative {
			pg.glob = filepath.Join(escapeGlob(workspace), pg.glob)
		}
		out = append(out, pg.glob)
		base, rest := doublestar.SplitPattern(pg.glob)
		if target, err := filepath.EvalSymlinks(base); err == nil && filepath.IsAbs(base) &&
			target != filepath.Clean(base) {
			out = append(out, filepath.Join(escapeGlob(target), rest))
		}
	}
	return out, nil
}

// Covers returns the first path glob of the rule that matches a root together with all its files.
func (r *Rule) Covers(workspace string, roots []tool.Root) (glob string, covers bool) {
	for i, g := range r.globs {
		for _, root := range roots {
			if g.match(workspace, root.Path) || !g.relative && doublestar.MatchUnvalidated(g.glob, root.Path+"/\x02") &&
				doublestar.MatchUnvalidated(g.glob, root.Path+"/\x03.\x04") {
				return r.Paths[i], true
			}
		}
	}
	return "", false
}
