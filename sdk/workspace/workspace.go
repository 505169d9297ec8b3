package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/internal/journal"
)

// MaxFileSize is the maximum size in bytes of a file that tools read or write as a whole.
const MaxFileSize = 96 << 20

// Workspace is a set of open roots. It is safe for concurrent use. Its descriptors are closed by [Workspace.Close] or
// by the garbage collector.
type Workspace struct {
	roots  []*root // sorted by the length of the path, the longest path first
	given  []tool.Root
	closed atomic.Bool

	journal *journal.Journal // nil if writes are not recorded
}

type root struct {
	tool.Root
	at atomic.Pointer[tree]
}

// tree is a root directory that is open.
type tree struct {
	dir   *os.Root
	probe *os.File // the same directory opened as a file, for system calls that os.Root does not support
	info  fs.FileInfo
}

// Open opens the roots. Each root must be an existing directory with an absolute path without symbolic links. The
// caller must close the workspace. Handlers get the workspace of their call from the SDK and must not close it.
func Open(roots []tool.Root) (*Workspace, error) {
	w := &Workspace{given: slices.Clone(roots)}
	for _, r := range roots {
		if !filepath.IsAbs(r.Path) || strings.IndexByte(r.Path, 0) >= 0 {
			_ = w.Close()
			return nil, tool.Errorf(tool.InvalidArguments, "The root %q is not an absolute path. Give an absolute path in the configuration.", r.Path)
		}
		r.Path = filepath.Clean(r.Path)
		t, err := openTree(r.Path)
		if err != nil {
			_ = w.Close()
			return nil, rootError(r.Path, err)
		}
		held := &root{Root: r}
		held.at.Store(t)
		w.roots = append(w.roots, held)
	}
	slices.SortStableFunc(w.roots, func(a, b *root) int { return len(b.Path) - len(a.Path) })
	return w, nil
}

// Roots returns the roots that were passed to [Open].
func (w *Workspace) Roots() []tool.Root { return slices.Clone(w.given) }

// Close closes the descriptors. Operations that still use the workspace fail.
func (w *Workspace) Close() error {
	w.closed.Store(true)
	var errs []error
	for _, r := range w.roots {
		t := r.at.Load()
		errs = append(errs, t.dir.Close(), t.probe.Close())
	}
	return errors.Join(errs...)
}

var errLink = errors.New("it leads through a symbolic link")

// openTree opens a root. It rejects paths with symbolic links, because tools can have write access to a directory
// above the root and could replace a link.
func openTree(path string) (*tree, error) {
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	probe, err := dir.Open(".")
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	info, err := probe.Stat()
	if err == nil {
		err = sameWithoutLinks(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, probe.Close(), dir.Close())
	}
	return &tree{dir: dir, probe: probe, info: info}, nil
}

// tree returns the open directory of a root. If the root's path now leads to another directory, tree opens that
// directory. This happens after the old directory is moved or created again. Paths that were resolved earlier keep
// the old directory.
func (r *root) tree() (*tree, error) {
	t := r.at.Load()
	same, err := t.isAt(r.Path)
	if err != nil {
		return nil, rootError(r.Path, err)
	}
	if same {
		return t, nil
	}
	fresh, err := openTree(r.Path)
	if err != nil {
		return nil, rootError(r.Path, err)
	}
	r.at.CompareAndSwap(t, fresh)
	return fresh, nil
}

// isAt reports whether path still leads to this directory. Each call of a tool calls isAt, so isAt allocates no
// memory.
func (t *tree) isAt(path string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return false, err
	}
	was, ok := t.info.Sys().(*syscall.Stat_t)
	return ok && was.Dev == st.Dev && was.Ino == st.Ino, nil
}

// root returns the innermost root that contains a canonical path. This root decides whether the path is writable.
func (w *Workspace) root(abs string) *root {
	for _, r := range w.roots {
		if r.Contains(abs) {
			return r
		}
	}
	return nil
}

// aboveRoot reports whether the directory contains a root.
func (w *Workspace) aboveRoot(dir string) bool {
	beneath := tool.Root{Path: dir}
	return slices.ContainsFunc(w.roots, func(r *root) bool { return beneath.Contains(r.Path) })
}

func (w *Workspace) describeRoots() string {
	var out []string
	for _, r := range w.given {
		access := "read-only"
		if r.Writable {
			access = "read-write"
		}
		out = append(out, fmt.Sprintf("%s (%s)", r.Path, access))
	}
	return strings.Join(out, ", ")
}
