package repository

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// protection contains the files of a tree that the kernel protects from tools. The protection of a file ends if
// somebody replaces the file outside the sandbox.
type protection struct {
	// top reports whether the kernel protects the settings and hooks of the repository at the top of the tree.
	top bool
	// held contains the files and directories of the repository at the top. The protection of all of them
	// begins and ends together.
	held []*held
	// kept contains other protected files and directories. Globs of the configuration match them.
	kept  []*held
	globs []string
}

// held is a file or directory that stays open, so that no other file can get the same identity.
type held struct {
	rel     string
	fd      int // -1 if the file did not exist
	dev     uint64
	ino     uint64
	missing bool
}

// protects returns the protection of a tree. The argument "kept" contains absolute paths.
func protects(t *tree, top bool, kept []string) protection {
	p := protection{top: top}
	if top {
		for _, rel := range []string{".git", ".git/config", ".git/hooks"} {
			p.held = append(p.held, hold(t, rel))
		}
	}
	for _, path := range kept {
		rel, err := filepath.Rel(t.path, path)
		if err != nil || !filepath.IsLocal(rel) || !relevant(rel) {
			continue
		}
		if h := hold(t, rel); !h.missing {
			p.kept = append(p.kept, h)
		}
	}
	return p
}

// relevant reports whether the search can move a file at or below a path.
func relevant(rel string) bool {
	name := filepath.Base(rel)
	return slices.Contains([]string{"config", "config.worktree", "commondir", "hooks"}, name) ||
		strings.EqualFold(name, ".git") || filepath.Base(filepath.Dir(rel)) == "hooks"
}

func hold(t *tree, rel string) *held {
	h := &held{rel: rel, fd: -1, missing: true}
	dir, name := filepath.Split(rel)
	d, err := t.root.open(filepath.Clean(dir))
	if err != nil {
		return h
	}
	defer d.close()
	fd, err := unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		h.missing = errors.Is(err, fs.ErrNotExist)
		return h
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return h
	}
	h.fd, h.dev, h.ino, h.missing = fd, uint64(st.Dev), st.Ino, false //nolint:unconvert // types differ between systems
	return h
}

// same reports whether the file still exists at its path. If the file did not exist before, the method
// opens it when it appears, because the host creates the file before the first plugin starts.
func (h *held) same(t *tree) bool {
	if h.missing {
		*h = *hold(t, h.rel)
		return h.missing || h.fd >= 0
	}
	now, err := t.root.stat(h.rel)
	return err == nil && h.fd >= 0 && now.Dev == h.dev && now.Ino == h.ino
}

func (h *held) close() {
	if h.fd >= 0 {
		_ = unix.Close(h.fd) // error ignored, because the descriptor is never used for writing
	}
	h.fd = -1
}

// renew ends the protection of replaced files. It returns true if any protection ended.
func (p *protection) renew(t *tree) (ended bool) {
	gone := func(h *held) bool { return !h.same(t) }
	if p.top && slices.ContainsFunc(p.held, gone) {
		p.endTop()
		ended = true
	}
	p.kept = slices.DeleteFunc(p.kept, func(h *held) bool {
		if !gone(h) {
			return false
		}
		h.close()
		ended = true
		return true
	})
	return ended
}

func (p *protection) endTop() {
	p.top = false
	for _, h := range p.held {
		h.close()
	}
	p.held = nil
}

// end ends all protection.
func (p *protection) end() {
	p.endTop()
	p.endKept()
}

func (p *protection) endKept() {
	for _, h := range p.kept {
		h.close()
	}
	p.kept = nil
}

// exempt reports whether the kernel protects a file. A change of such a file has a cause outside the
// sandbox.
func (p *protection) exempt(rel string) bool {
	if p.top && (rel == ".git/config" || rel == ".git/hooks" || strings.HasPrefix(rel, ".git/hooks/")) {
		return true
	}
	return slices.ContainsFunc(p.kept, func(h *held) bool { return rel == h.rel || strings.HasPrefix(rel, h.rel+"/") })
}

// The result "top" of the method "unprotected" is true if a running plugin's sandbox does not protect the repository at
// the top of a directory. The result "all" is true if such a sandbox protects no file in the directory.
func (g *Guard) unprotected(path string) (top, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, top = g.unguarded[path]
	return top, all
}

// Unguard records that a running plugin's sandbox does not protect the repository at the top of a directory. If all is
// true, the sandbox protects no file in the directory.
func (g *Guard) Unguard(path string, all bool) {
	g.mu.Lock()
	g.unguarded[path] = g.unguarded[path] || all
	g.mu.Unlock()
	w := g.tree(path, false)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tree != nil && (w.top || all && len(w.kept) > 0) {
		w.endTop()
		if all {
			w.endKept()
		}
		g.ended(w)
	}
}

// ended makes the next search inspect the files whose protection ended.
func (g *Guard) ended(w *watched) {
	w.forgetStates()
	if err := w.save(); err != nil {
		g.opts.Log.Warn("the end of a file's protection could not be stored, so a later host can miss changes of the file", "path", w.path, "error", err)
	}
}
