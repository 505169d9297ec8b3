package repository

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// protection is what the kernel keeps tools from changing in a tree. It lasts as long as the same files are at their
// paths: if somebody replaces a file outside of the sandbox, the kernel ends its protection inside.
type protection struct {
	// top reports whether the settings and hooks of the repository at the top of the tree are protected.
	top bool
	// held are the files and directories of the repository at the top, which are protected together.
	held []*held
	// kept are other protected files and directories, which globs matched.
	kept  []*held
	globs []string
}

// held is a file or directory that stays open, so that no other file can get its identity.
type held struct {
	rel     string
	fd      int // -1 if the file did not exist
	dev     uint64
	ino     uint64
	missing bool
}

// protects returns the protection of a tree. kept are absolute paths.
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

// relevant reports whether the search could move a file at a path or in it.
func relevant(rel string) bool {
	name := filepath.Base(rel)
	return slices.Contains([]string{"config", "config.worktree", "commondir", "hooks"}, name) || strings.EqualFold(name, ".git") || filepath.Base(filepath.Dir(rel)) == "hooks"
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

// same reports whether the file is still at its path. A file that did not exist is held when it appears: the host creates
// it before the first plugin starts.
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
		_ = unix.Close(h.fd) // nothing was written through it
	}
	h.fd = -1
}

// renew ends the protection of files that were replaced. It reports whether it ended any.
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

// exempt reports whether the kernel protects a file. A change of it came from outside of the sandbox.
func (p *protection) exempt(rel string) bool {
	if p.top && (rel == ".git/config" || rel == ".git/hooks" || strings.HasPrefix(rel, ".git/hooks/")) {
		return true
	}
	return slices.ContainsFunc(p.kept, func(h *held) bool { return rel == h.rel || strings.HasPrefix(rel, h.rel+"/") })
}

// unprotected reports whether a plugin is running whose sandbox does not protect the repository at the top of a
// directory, and whether such a sandbox protects nothing in the directory.
func (g *Guard) unprotected(path string) (top, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, top = g.unguarded[path]
	return top, all
}

// Unguard records that a plugin is running whose sandbox does not protect the repository at the top of a directory. If
// all is true, the sandbox protects nothing in the directory.
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

// ended makes the next search inspect what was protected.
func (g *Guard) ended(w *watched) {
	w.forgetStates()
	if err := w.save(); err != nil {
		g.opts.Log.Warn("that a file is no longer protected could not be stored, so a later host can miss changes of it", "path", w.path, "error", err)
	}
}
