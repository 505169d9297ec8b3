package tool

import (
	"path/filepath"
	"strings"
)

// Root is a directory tree that tools are allowed to read. If Writable is true, tools are also allowed to change it.
type Root struct {
	// Path is the path of the directory. It is absolute and without symbolic links.
	Path     string `json:"path"`
	Writable bool   `json:"writable"`
	// Source is the directory in the host's file system that the plugin's sandbox shows at Path. Empty means that Path
	// is also the path in the host's file system. Only the host uses Source, and plugins never receive it.
	Source string `json:"-"`
	// Branch identifies the mounted branch that covers the root, and View is a path through which the host sees the
	// files of the branch. Both are empty for other roots. Only the host uses them, and plugins never receive them.
	Branch string `json:"-"`
	View   string `json:"-"`
	// CopyOf is the directory from which the root was copied. Empty means that the root is no copy. Only the host uses
	// CopyOf, and plugins never receive it.
	CopyOf string `json:"-"`
	// Reported means that the kernel does not report all changes in the tree to the plugin. The host then reports the
	// changes that the kernel omits, to plugins with [CapabilityInvalidate]. It is only set in [Configuration.Roots] of
	// a plugin.
	Reported bool `json:"-"`
}

// Contains reports whether path is the root's directory or is below it.
//
// Contains compares only names. It cleans both paths and follows no symbolic links, so the caller must resolve
// symbolic links first. No root contains a relative path, and an empty or relative root contains nothing.
func (r Root) Contains(path string) bool {
	_, ok := r.Rel(path)
	return ok
}

// Within reports whether path is the directory dir or is below it. It compares only names, like [Root.Contains].
func Within(dir, path string) bool { return Root{Path: dir}.Contains(path) }

// Rel returns path relative to the root's directory. For the directory itself, it returns ".". If the root does not
// contain path according to [Root.Contains], Rel returns false.
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
	return "", false // path is in another directory whose name begins with the root's name
}

// clean returns [filepath.Clean] of an absolute path. It skips the call of Clean for a path that is already
// clean, because callers compare thousands of paths.
func clean(path string) string {
	if strings.HasSuffix(path, "/") || strings.Contains(path, "//") || strings.Contains(path, "/.") {
		return filepath.Clean(path)
	}
	return path
}
