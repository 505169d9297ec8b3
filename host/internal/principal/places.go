package principal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"toolhost.dev/sdk/tool"
)

// places remembers the directory to which each workspace path of a grant first led. A principal with write access above
// another principal's workspace could replace the path with a link. Therefore the workspace stays the first directory.
// A workspace behind a link in another workspace permits nothing.
type places struct {
	mu sync.Mutex
	by map[string]string
}

// pin returns a grant in which the paths of workspaces contain no symbolic links. The argument "all" contains
// the workspaces of all principals. If a path leads through a link in a workspace, pin replaces the path with "", which
// permits nothing.
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

// resolve returns a workspace of a grant without symbolic links. It keeps the missing last components of
// the path unchanged.
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

// follow returns an absolute path without symbolic links. It returns false if a link is in one of the
// workspaces.
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
		if err != nil { // the component is not a link
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

// inside reports whether a directory is in a workspace of a grant. The path dir contains no symbolic
// links.
func inside(workspace, dir string) bool {
	parent, children := strings.CutSuffix(workspace, "/*")
	if workspace == "*" || !filepath.IsAbs(workspace) {
		return false
	}
	target, err := filepath.EvalSymlinks(filepath.Clean("/" + parent))
	if err != nil {
		target = filepath.Clean("/" + parent)
	}
	rel, ok := tool.Root{Path: target}.Rel(dir)
	return ok && (rel != "." || !children)
}

// plain reports whether a directory exists and its path contains no symbolic link.
func plain(dir string) bool {
	target, err := filepath.EvalSymlinks(dir)
	return err == nil && target == filepath.Clean(dir)
}
