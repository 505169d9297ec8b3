// Package paths finds the files and directories in roots whose paths the kernel restricts for tools. Most callers want
// [Finder.Sweep]. Package confinement mounts a mask over each match.
package paths

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
)

// Rules describes the paths that a finder searches for.
type Rules struct {
	// Hide and Protect contain absolute globs in the syntax of doublestar. Tools cannot use paths that match Hide. They
	// cannot change paths that match Protect.
	Hide, Protect []string
	// Names contains names of files and directories that tools cannot change in any directory, except below
	// node_modules.
	Names []string
}

// Packages is the name of directories with installed packages. People do not open these directories as projects, and
// package managers must be able to replace them as a whole.
const Packages = "node_modules"

// Match is a file or directory that the kernel restricts.
type Match struct {
	// Path is absolute and contains no symbolic links.
	Path string
	// Hidden reports that tools cannot use the path. If Hidden is false, they can use the path but not change it.
	Hidden bool
	// Setting is true if the path has the name of a settings file, such as .vscode, and matches no other rule.
	Setting bool
}

// matcher is a compiled list of globs.
type matcher struct {
	names map[string]bool // names from globs such as "**/.env"
	bases []string        // globs for the last path element, such as "*.pem" from "**/*.pem"
	globs []string        // globs for the whole path

	copies []Root // roots that are copies
}

func compile(globs []string) (m matcher) {
	m.names = make(map[string]bool)
	for _, g := range globs {
		base, anywhere := strings.CutPrefix(g, "**/")
		switch {
		case !anywhere || strings.ContainsAny(base, "/{"): // braces can contain slashes
			m.globs = append(m.globs, g)
		case strings.ContainsAny(base, `*?[\`):
			m.bases = append(m.bases, base)
		default:
			m.names[base] = true
		}
	}
	return m
}

func (m *matcher) match(dir, name string) bool {
	if m.names[name] {
		return true
	}
	for _, g := range m.bases {
		if doublestar.MatchUnvalidated(g, name) {
			return true
		}
	}
	return len(m.globs) > 0 && m.matchPath(filepath.Join(dir, name))
}

func (m *matcher) matchPath(path string) bool {
	for _, r := range m.copies {
		if tool.Within(r.Path, path) && m.matchGlobs(r.CopyOf+path[len(r.Path):]) {
			return true
		}
	}
	return m.matchGlobs(path)
}

func (m *matcher) matchGlobs(path string) bool {
	return slices.ContainsFunc(m.globs, func(g string) bool { return doublestar.MatchUnvalidated(g, path) })
}

func (m *matcher) empty() bool { return len(m.names)+len(m.bases)+len(m.globs) == 0 }
