package sandbox

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxModules bounds the directories of submodules and worktrees that are protected one by one; with
// more, or where something is not as git makes it, all of .git is.
const maxModules = 200

// maxConfig is how much of a repository's settings is looked at, in bytes.
const maxConfig = 1 << 20

// gitPaths gives what in the repository of a root leads to programs that git runs, for whoever
// uses git outside later: hooks and settings. protected must not be written to, and fixed not be
// moved. What is missing of it is made, for what is not there cannot be protected.
func gitPaths(root string) (fixed, protected []string) {
	dir := filepath.Join(root, ".git")
	st, err := os.Lstat(dir)
	switch {
	case err != nil || st.Mode()&fs.ModeSymlink != 0:
		return nil, nil
	case st.Mode().IsRegular(): // it says where the repository is
		return nil, []string{dir}
	case !st.IsDir():
		return nil, nil
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, []string{dir}
	}
	defer r.Close() //nolint:errcheck // only read
	g := gitDir{dir: dir, root: r, fixed: []string{dir}}
	if !g.repository(".") || !g.modules("modules") {
		return nil, []string{dir}
	}
	return g.fixed, g.protected
}

// gitDir collects what is protected below the .git of a root. Its methods report whether that can
// be done piece by piece.
type gitDir struct {
	dir              string
	root             *os.Root
	fixed, protected []string
	count            int // of submodules and worktrees
}

func (g *gitDir) fix(at string)     { g.fixed = append(g.fixed, filepath.Join(g.dir, at)) }
func (g *gitDir) protect(at string) { g.protected = append(g.protected, filepath.Join(g.dir, at)) }

// repository protects one repository.
func (g *gitDir) repository(at string) bool {
	hooks, config := filepath.Join(at, "hooks"), filepath.Join(at, "config")
	if st, err := g.root.Lstat(hooks); err != nil {
		if g.root.Mkdir(hooks, 0o755) != nil {
			return false
		}
	} else if !st.IsDir() {
		return false
	}
	g.protect(hooks)
	if !g.file(config, true) {
		return false
	}
	own, err := g.ownSettings(config)
	return err == nil && g.file(filepath.Join(at, "config.worktree"), own) && g.file(filepath.Join(at, "commondir"), false) && g.worktrees(filepath.Join(at, "worktrees"), own)
}

// ownSettings reports whether each worktree may have settings of its own.
func (g *gitDir) ownSettings(config string) (bool, error) {
	f, err := g.root.OpenFile(config, os.O_RDONLY|syscall.O_NONBLOCK, 0) // what has become a pipe must not hold it up
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return len(text) == maxConfig || bytes.Contains(bytes.ToLower(text), []byte("worktreeconfig")), err
}

// worktrees protects where linked worktrees, which can be anywhere, have their settings from.
func (g *gitDir) worktrees(at string, own bool) bool {
	names, ok := g.subdirectories(at)
	for _, name := range names {
		path := filepath.Join(at, name)
		g.fix(path)
		ok = ok && g.file(filepath.Join(path, "commondir"), false) && g.file(filepath.Join(path, "config.worktree"), own)
	}
	return ok
}

// modules protects the repositories of submodules, whose names may have slashes.
func (g *gitDir) modules(at string) bool {
	names, ok := g.subdirectories(at)
	for _, name := range names {
		path := filepath.Join(at, name)
		if _, err := g.root.Lstat(filepath.Join(path, "HEAD")); err != nil {
			ok = ok && g.modules(path)
			continue
		}
		g.fix(path)
		ok = ok && g.repository(path) && g.modules(filepath.Join(path, "modules"))
	}
	return ok
}

// subdirectories fixes a directory, or another could take its place, and gives those in it.
func (g *gitDir) subdirectories(at string) (names []string, ok bool) {
	st, err := g.root.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	if err != nil || !st.IsDir() {
		return nil, false
	}
	g.fix(at)
	entries, err := fs.ReadDir(g.root.FS(), at)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	g.count += len(names)
	return names, err == nil && g.count <= maxModules
}

// file protects a file that is there, or has to be.
func (g *gitDir) file(at string, needed bool) bool {
	st, err := g.root.Lstat(at)
	if err != nil {
		if !needed {
			return true
		}
		if !g.touch(at) {
			return false
		}
	} else if !st.Mode().IsRegular() {
		return false
	}
	g.protect(at)
	return true
}

// touch makes an empty file.
func (g *gitDir) touch(at string) bool {
	f, err := g.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	return err == nil && f.Close() == nil
}

// Redirects gives the file by which a command sent git elsewhere for its settings and hooks; empty:
// there is none. It cannot be kept from being made, for nothing can stand in the place of what is not
// there; it has no business in a repository that is no worktree of another.
func Redirects(root string) string {
	dir := filepath.Join(root, ".git")
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
		return ""
	}
	path := filepath.Join(dir, "commondir")
	if _, err := os.Lstat(path); err != nil {
		return ""
	}
	return path
}
