package workspace

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"toolhost.dev/sdk/tool"
)

const (
	// maxLinks is the maximum number of symbolic links in one path. The kernel has the same limit.
	maxLinks = 40
	// maxSteps is the maximum number of steps for one path. It limits the time, because each step resolves a name from
	// the root again.
	maxSteps = 512
)

// walk is the state while one path is resolved. The result of a walk only determines names and can become outdated.
// Security does not depend on it, because os.Root prevents access outside a root.
type walk struct {
	w       *Workspace
	given   string   // path as the caller wrote it
	cur     string   // resolved beginning of the path, without symbolic links; inside a root or above one
	pending []string // path elements that are not yet resolved
	via     string   // last symbolic link, for error messages
	missing bool     // true if cur does not exist
	mode    fs.FileMode
}

// follow resolves abs element by element and follows symbolic links.
func (w *Workspace) follow(given, abs string) (Path, error) {
	k := &walk{w: w, given: given, cur: "/", pending: strings.Split(abs, "/")}
	links := 0
	for steps := 0; len(k.pending) > 0; steps++ {
		name := k.pending[0]
		k.pending = k.pending[1:]
		target, err := k.step(name)
		if err != nil {
			return Path{}, err
		}
		if target != "" {
			links++
			k.pending = append(strings.Split(target, "/"), k.pending...)
		}
		if links > maxLinks || steps > maxSteps {
			return Path{}, tool.Errorf(tool.InvalidArguments,
				"The path %s has too many symbolic links or elements (the last link was %s); the links probably form a loop. Give the path of the file itself.", given, k.via).
				WithCause(syscall.ELOOP)
		}
	}
	r := w.root(k.cur)
	if r == nil {
		return Path{}, w.errOutside(given, k.cur, k.via)
	}
	t, err := r.tree()
	if err != nil {
		return Path{}, err
	}
	return Path{abs: k.cur, rel: r.rel(k.cur), root: r, tree: t, mode: k.mode, exists: !k.missing}, nil
}

// step resolves the next element. If the element is a symbolic link, step returns the target of the link instead.
func (k *walk) step(name string) (target string, err error) {
	switch name {
	case "", ".":
		return "", nil
	case "..":
		// cur exists and contains no symbolic links, so filepath.Dir returns its parent directory. A missing
		// directory has no parent.
		if k.missing {
			return "", notExist(k.given)
		}
		k.cur, k.mode = filepath.Dir(k.cur), fs.ModeDir
		return "", nil
	}
	next := filepath.Join(k.cur, name)
	r := k.w.root(next)
	if r == nil {
		if !k.w.aboveRoot(next) {
			return "", k.w.errOutside(k.given, next, k.via)
		}
		k.cur = next // the path of a root contains no links, so the path in next contains no links either
		return "", nil
	}
	if k.missing {
		k.cur = next
		return "", nil
	}
	t, err := r.tree()
	if err != nil {
		return "", err
	}
	rel := r.rel(next)
	info, err := t.dir.Lstat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		k.cur, k.missing = next, true
		return "", nil
	case err != nil:
		return "", fail("look up", k.given, err)
	case info.Mode()&fs.ModeSymlink == 0:
		k.cur, k.mode = next, info.Mode().Type()
		return "", nil
	}
	target, err = t.dir.Readlink(rel)
	if err != nil {
		return "", fail("read the link", next, err)
	}
	k.via = next + " → " + target
	if strings.HasPrefix(target, "/") {
		k.cur = "/"
	}
	return target, nil
}
