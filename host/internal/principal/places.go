package principal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// places remembers which directories the workspaces of grants are. A principal that can write in a directory above a
// workspace of another one can put a link there. Therefore a workspace remains the directory that it was at the first
// use. A workspace behind a link in another workspace permits nothing.
type places struct {
	mu sync.Mutex
	by map[string]string
}

// pin returns a grant in which the paths of workspaces contain no symbolic links. The argument all contains the
// workspaces of all principals. If a path leads through a link that is located in a workspace, pin replaces the path by
// "", which permits nothing.
func (p *places) pin(g Grant, all []string) Grant {
	if len(g.Workspaces) == 0 {
		return g
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = make(map[string]string)
	}
	g.Workspaces = slices.Clone(g.Workspaces)
	for i, w := range g.Workspaces {
		if _, known := p.by[w]; !known {
			p.by[w] = resolve(w, all)
		}
		g.Workspaces[i] = p.by[w]
	}
	return g
}

// resolve returns a workspace of a grant without symbolic links. The part of the path that does not exist yet stays.
func resolve(workspace string, all []string) string {
	if workspace == "*" || !filepath.IsAbs(workspace) {
		return workspace
	}
	dir, children := strings.CutSuffix(workspace, "/*")
	dir, ok := follow(filepath.Clean("/"+dir), all)
	switch {
	case !ok:
		return ""
	case children:
		return strings.TrimSuffix(dir, "/") + "/*"
	}
	return dir
}

// maxLinks limits the symbolic links in a path, as in the kernel.
const maxLinks = 40

// follow returns an absolute path without symbolic links. It returns false if a link is in one of the workspaces.
func follow(path string, all []string) (string, bool) {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		to, err := os.Readlink(next)
		if err != nil { // no link
			at = next
			continue
		}
		if links++; links > maxLinks || slices.ContainsFunc(all, func(w string) bool { return inside(w, at) }) {
			return "", false
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, true
}

// inside reports whether a directory is in a workspace of a grant. dir contains no symbolic links.
func inside(workspace, dir string) bool {
	parent, children := strings.CutSuffix(workspace, "/*")
	if workspace == "*" || !filepath.IsAbs(workspace) {
		return false
	}
	target, err := filepath.EvalSymlinks(filepath.Clean("/" + parent))
	if err != nil {
		target = filepath.Clean("/" + parent)
	}
	rel, err := filepath.Rel(target, dir)
	return err == nil && filepath.IsLocal(rel) && (rel != "." || !children)
}

// plain reports whether a directory exists and no part of its path is a symbolic link.
func plain(dir string) bool {
	target, err := filepath.EvalSymlinks(dir)
	return err == nil && target == filepath.Clean(dir)
}
