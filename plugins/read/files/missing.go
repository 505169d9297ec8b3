package files

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

const (
	// maxNames is the maximum number of directory entries whose names are compared with the name of the missing file.
	maxNames = 10_000
	// maxLooked is the maximum number of directories that are searched for a file with the same name.
	maxLooked = 300
)

// missing returns a NotFound error that suggests existing files.
func (r *request) missing() error {
	var b strings.Builder
	fmt.Fprintf(&b, "File does not exist: %s", r.in.FilePath)
	dir, wanted := r.nearestDirectory()
	var meant []string
	if names, err := r.ws.Names(dir, maxNames); err == nil {
		slices.Sort(names)
		for _, n := range suggest.Closest(wanted, names, 3) {
			meant = append(meant, r.relative(filepath.Join(dir.String(), n)))
		}
	}
	for _, p := range r.sameName() {
		if !slices.Contains(meant, p) {
			meant = append(meant, p)
		}
	}
	switch {
	case len(meant) > 0:
		fmt.Fprintf(&b, "\nDid you mean %s?", strings.Join(meant, ", or "))
	case dir.String() != r.ws.Parent(r.path).String():
		fmt.Fprintf(&b, "\nThe directory %s does not exist either. List %s to see what is there.", r.relative(filepath.Join(dir.String(), wanted)), r.relative(dir.String()))
	default:
		fmt.Fprintf(&b, "\nList %s to see what is there.", r.relative(dir.String()))
	}
	return sdk.Errorf(tool.NotFound, "%s", b.String())
}

// nearestDirectory returns the deepest existing directory of the path. The result "wanted" is the next element of the
// path, which does not exist.
func (r *request) nearestDirectory() (dir workspace.Path, wanted string) {
	p := r.path
	for {
		dir = r.ws.Parent(p)
		if info, err := r.ws.Stat(dir); err == nil && info.IsDir() || dir.String() == p.String() {
			return dir, p.Base()
		}
		p = dir
	}
}

// sameName returns files below the working directory that have the same name as the missing file. Files near the
// working directory come first.
func (r *request) sameName() []string {
	top, err := r.ws.Resolve(r.call.Cwd, ".")
	if err != nil {
		return nil
	}
	var found []string
	queue := []workspace.Path{top}
	for looked := 0; len(queue) > 0 && looked < maxLooked && len(found) < 3 && r.ctx.Err() == nil; looked++ {
		dir := queue[0]
		queue = queue[1:]
		entries, _, err := r.ws.ReadDir(dir, maxNames/10)
		if err != nil {
			continue
		}
		for _, e := range entries {
			switch {
			case e.Name() == r.path.Base() && e.Type().IsRegular():
				found = append(found, r.relative(filepath.Join(dir.String(), e.Name())))
			case e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "node_modules":
				if child, err := r.ws.Entry(dir, e); err == nil {
					queue = append(queue, child)
				}
			}
		}
	}
	return found
}

// relative returns a path relative to the working directory. If no relative path exists, it returns the path
// unchanged.
func (r *request) relative(path string) string {
	if rel, ok := (tool.Root{Path: r.call.Cwd}).Rel(path); ok {
		return rel
	}
	return path
}
