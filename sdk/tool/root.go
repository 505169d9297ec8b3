package tool

import (
	"path/filepath"
	"strings"
)

// Root is a directory tree that tools may read, and also write if Writable is set.
type Root struct {
	// Path is absolute and has no symbolic links.
	Path     string `json:"path"`
	Writable bool   `json:"writable"`
}

// Contains reports whether path is the root's directory or lies beneath it.
//
// Contains compares names only: it cleans both paths and follows no symbolic link, so the
// caller resolves those first. A relative path lies in no root, and an empty or relative root
// contains nothing.
func (r Root) Contains(path string) bool {
	_, ok := r.Rel(path)
	return ok
}

// Rel returns path relative to the root's directory, "." for the directory itself. It reports
// false if the root does not contain path, by the rule of [Root.Contains].
func (r Root) Rel(path string) (rel string, ok bool) {
	if !filepath.IsAbs(r.Path) || !filepath.IsAbs(path) {
		return "", false
	}
	dir, path := clean(r.Path), clean(path)
	rest, ok := strings.CutPrefix(path, dir)
	switch {
	case !ok:
		return "", false
	case rest == "":
		return ".", true
	case dir == "/":
		return rest, true
	case rest[0] == '/':
		return rest[1:], true
	}
	return "", false // a sibling whose name begins with the root's name
}

// clean returns [filepath.Clean] of an absolute path. It skips the call for a path that has
// nothing to clean, because callers compare thousands of paths.
func clean(path string) string {
	if strings.HasSuffix(path, "/") || strings.Contains(path, "//") || strings.Contains(path, "/.") {
		return filepath.Clean(path)
	}
	return path
}
