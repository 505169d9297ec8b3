package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Path is a resolved path inside a root. Only [Workspace.Resolve] returns a Path, and the zero value is invalid. A Path
// stays valid if the file is created, removed or changed.
type Path struct {
	abs  string
	rel  string // relative to the root; "." is the root itself
	root *root
	tree *tree
	// mode is the file type at the time at which the path was resolved. It is valid only if exists is true.
	mode   fs.FileMode
	exists bool
}

// String returns the canonical path. It is absolute and clean and contains no symbolic links. The host uses this
// path as the key for the state of the file.
func (p Path) String() string { return p.abs }

// Root returns the root that contains the path. For nested roots, it returns the innermost root.
func (p Path) Root() tool.Root {
	if p.root == nil {
		return tool.Root{}
	}
	return p.root.Root
}

// Rel returns the path relative to its root. It returns "." for the root itself.
func (p Path) Rel() string { return p.rel }

// RelTo returns the path relative to dir if dir contains the path. Otherwise it returns the full path. The result is
// for display only.
func (p Path) RelTo(dir string) string {
	if rel, ok := (tool.Root{Path: dir}).Rel(p.abs); ok {
		return rel
	}
	return p.abs
}

// Base returns the last element of the path.
func (p Path) Base() string { return filepath.Base(p.abs) }

// Writable reports whether the path's root is writable. The file's own mode can still forbid writing.
func (p Path) Writable() bool { return p.root != nil && p.root.Writable }

// Exists reports whether the path existed when it was resolved.
func (p Path) Exists() bool { return p.exists }

// IsDir reports whether the path was a directory when it was resolved.
func (p Path) IsDir() bool { return p.exists && p.mode.IsDir() }

// Resolve converts a path from a model or a user to a Path. A leading ~ means the home directory. A relative path
// starts at cwd. Resolve first removes "." and ".." textually. Then it follows symbolic links; each link must lead
// to a path inside the roots. The last elements of the path do not need to exist, because the caller can create
// them.
//
// A path that leads outside the roots or contains a NUL byte is an error of kind Security.
func (w *Workspace) Resolve(cwd, path string) (Path, error) {
	abs, err := absolute(cwd, path)
	if err != nil {
		return Path{}, err
	}
	r := w.root(abs)
	switch {
	case w.closed.Load():
		return Path{}, errClosed()
	case r == nil && (!w.aboveRoot(abs) || len(w.roots) == 0):
		return Path{}, w.errOutside(path, abs, "")
	case r != nil:
		t, err := r.tree()
		if err != nil {
			return Path{}, err
		}
		p := Path{abs: abs, rel: r.rel(abs), root: r, tree: t, exists: true}
		if mode, ok := lookupWithoutLinks(t, p.rel); ok {
			p.mode = mode
			return p, nil
		}
	}
	return w.follow(path, abs)
}

// Parent returns the directory of p. The parent of a root is the root itself.
func (w *Workspace) Parent(p Path) Path {
	if p.rel == "." {
		return p
	}
	return Path{abs: filepath.Dir(p.abs), rel: filepath.Dir(p.rel), root: p.root, tree: p.tree, exists: p.exists,
		mode: fs.ModeDir}
}

// Entry returns the path of an entry that [Workspace.ReadDir] returned for the directory p. The entry must not be a
// symbolic link. Use Resolve for symbolic links.
func (w *Workspace) Entry(p Path, e fs.DirEntry) (Path, error) {
	abs := filepath.Join(p.abs, e.Name())
	r := w.root(abs)
	if r == nil || e.Type()&fs.ModeSymlink != 0 || filepath.Base(abs) != e.Name() {
		return Path{}, tool.Errorf(tool.Internal, "The entry %q of %s is not a plain name. Call Resolve with the path instead.", e.Name(), p.abs)
	}
	child := Path{abs: abs, rel: filepath.Join(p.rel, e.Name()), root: r, tree: p.tree, exists: true, mode: e.Type()}
	if r != p.root {
		t, err := r.tree()
		if err != nil {
			return Path{}, err
		}
		child.tree, child.rel = t, r.rel(abs)
	}
	return child, nil
}

func absolute(cwd, path string) (string, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return "", tool.Errorf(tool.Security, "The path %q contains a NUL byte. Remove it.", path)
	}
	switch {
	case path == "":
		return "", tool.Errorf(tool.InvalidArguments, "The path is empty. Give the path of a file, absolute or relative to %s.", cwd)
	case path == "~" || strings.HasPrefix(path, "~/"):
		home, err := os.UserHomeDir()
		if err != nil {
			return "", tool.Errorf(tool.InvalidArguments, "The path %q begins with ~, but the home directory is not known. Give an absolute path.", path).WithCause(err)
		}
		path = home + path[1:]
	case !filepath.IsAbs(path):
		if !filepath.IsAbs(cwd) {
			return "", tool.Errorf(tool.InvalidArguments, "The path %q is relative, but there is no working directory. Give an absolute path.", path)
		}
		path = cwd + "/" + path
	}
	return filepath.Clean(path), nil
}

// rel returns path relative to the root. The root must contain path.
func (r *root) rel(path string) string {
	rel, _ := r.Rel(path)
	return rel
}
