package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
)

const (
	// maxProtected limits the paths that the kernel protects for one plugin. Each path is a mount.
	maxProtected = 1024
	// maxSearched limits the files that a search for protected paths visits.
	maxSearched = 500_000
)

// Existing returns the existing files and directories in writable roots that match globs. The globs have the form of
// [Rule.Paths], and the first root is the workspace. If a directory matches, the result omits the files in it.
func Existing(globs []string, roots []tool.Root) ([]string, error) {
	if len(globs) == 0 || len(roots) == 0 {
		return nil, nil
	}
	var out []string
	visited := 0
	for _, g := range globs {
		pg, err := newPathGlob(g)
		if err != nil {
			return nil, err
		}
		full := pg.glob
		if pg.relative {
			full = filepath.Join(escapeGlob(roots[0].Path), pg.glob)
		}
		for _, root := range roots {
			if !root.Writable {
				continue
			}
			found, err := search(full, root, &visited)
			if err != nil {
				return nil, fmt.Errorf("permissions.paths.protect %q: %w", g, err)
			}
			out = append(out, found...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// search returns the existing paths in a root that match an absolute glob.
func search(glob string, root tool.Root, visited *int) (out []string, err error) {
	start := root.Path
	if base, rest := doublestar.SplitPattern(glob); !strings.HasPrefix(glob, "**") && filepath.IsAbs(base) {
		switch base = filepath.Clean(base); {
		case root.Contains(base):
			start = base
			if rest == "**" {
				return target(root, start), nil
			}
		case !(tool.Root{Path: base}).Contains(root.Path):
			return nil, nil
		}
	}
	err = filepath.WalkDir(start, func(path string, d fs.DirEntry, err error) error {
		if *visited++; *visited > maxSearched {
			return fmt.Errorf("more than %d files were searched. Name the directory: \"dir/**\"", maxSearched)
		}
		if err != nil {
			return nil //nolint:nilerr // a file that cannot be read cannot be written either
		}
		if path == root.Path || !doublestar.MatchUnvalidated(glob, path) {
			return nil
		}
		if out = append(out, target(root, path)...); len(out) > maxProtected {
			return fmt.Errorf("more than %d files in %s match. Name directories: \"dir/**\"", maxProtected, root.Path)
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}

// target returns a path in a root, and the target of its links if the target is in the root, too.
func target(root tool.Root, path string) []string {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil || !root.Contains(resolved) || resolved == root.Path {
		return nil
	}
	return []string{resolved}
}

// Covers returns the first path glob of the rule that matches a root as a whole.
func (r *Rule) Covers(workspace string, roots []tool.Root) (glob string, covers bool) {
	for i, g := range r.globs {
		for _, root := range roots {
			if g.match(workspace, root.Path) || !g.relative && doublestar.MatchUnvalidated(g.glob, root.Path+"/\x02") && doublestar.MatchUnvalidated(g.glob, root.Path+"/\x03.\x04") {
				return r.Paths[i], true
			}
		}
	}
	return "", false
}
