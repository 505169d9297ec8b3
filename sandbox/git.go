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

// maxModules bounds the number of submodule and worktree directories that are protected separately. With more
// directories, or with an unexpected layout, the whole .git directory is protected.
const maxModules = 200

// maxConfig bounds how much of a repository's settings is read, in bytes.
const maxConfig = 1 << 20

// gitPaths returns the hooks and settings in a root's repository. Through these files, a plugin could make git run
// programs when the user runs git outside the sandbox. A plugin must not write to protected paths and must not move
// fixed paths. The function "onHost" converts a path of the plugin to a path of the host. gitPaths creates missing
// files and directories, because only existing files can be protected.
//
// A root can be a git directory itself. Whether it contains a file .git does not matter, because a plugin can write
// one.
func gitPaths(root string, onHost func(string) string) (fixed, protected []string) {
	for _, dir := range []string{root, filepath.Join(root, ".git")} {
		if dir != root || isRepository(onHost(root)) {
			f, p := gitDirPaths(dir, dir != root, onHost)
			fixed, protected = append(fixed, f...), append(protected, p...)
		}
	}
	return fixed, protected
}

// gitDirPaths is like gitPaths for one git directory, which cannot be moved if the argument "fix" is true.
func gitDirPaths(dir string, fix bool, onHost func(string) string) (fixed, protected []string) {
	st, err := os.Lstat(onHost(dir))
	switch {
	case err != nil || st.Mode()&fs.ModeSymlink != 0:
		return nil, nil
	case st.Mode().IsRegular(): // the file contains the path of the repository
		return nil, []string{dir}
	case !st.IsDir():
		return nil, nil
	}
	r, err := os.OpenRoot(onHost(dir))
	if err != nil {
		return nil, []string{dir}
	}
	defer r.Close() //nolint:errcheck // only read
	g := gitDir{dir: dir, root: r}
	if fix {
		g.fix(".")
	}
	if !g.repository(".") || !g.modules("modules") {
		return nil, []string{dir}
	}
	return g.fixed, g.protected
}

// isRepository reports whether a directory has the parts of a git directory. It can be the git directory of a linked
// worktree.
func isRepository(dir string) bool {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

// gitDir collects the protected paths below the .git directory of a root. Its methods return false if these paths
// cannot be protected one by one. The caller must then protect the whole .git directory.
type gitDir struct {
	dir              string
	root             *os.Root
	fixed, protected []string
	count            int // number of submodules and worktrees
}

func (g *gitDir) fix(at string)     { g.fixed = append(g.fixed, filepath.Join(g.dir, at)) }
func (g *gitDir) protect(at string) { g.protected = append(g.protected, filepath.Join(g.dir, at)) }

// repository protects the hooks and settings of one repository.
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
	if _, linked := g.root.Lstat(filepath.Join(at, "commondir")); linked == nil { // its settings say nothing about the separate settings
		own = true
	}
	return err == nil && g.file(filepath.Join(at, "config.worktree"), own) &&
		g.file(filepath.Join(at, "commondir"), false) && g.worktrees(filepath.Join(at, "worktrees"), own)
}

// ownSettings reports whether worktrees can have separate settings.
func (g *gitDir) ownSettings(config string) (bool, error) {
	f, err := g.root.OpenFile(config, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK prevents blocking on a pipe in place of the file
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	return len(text) == maxConfig || bytes.Contains(bytes.ToLower(text), []byte("worktreeconfig")), err
}

// worktrees protects the settings of linked worktrees. These settings are in the repository, but the worktrees can be
// anywhere.
func (g *gitDir) worktrees(at string, own bool) bool {
	names, ok := g.subdirectories(at)
	for _, name := range names {
		path := filepath.Join(at, name)
		g.fix(path)
		ok = ok && g.file(filepath.Join(path, "commondir"), false) &&
			g.file(filepath.Join(path, "config.worktree"), own)
	}
	return ok
}

// modules protects the repositories of submodules. A submodule's name can contain slashes.
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

// subdirectories returns the names of the subdirectories of a directory. It also marks the directory as fixed, so that
// a plugin cannot replace the directory.
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

// file protects an existing file. If the file is missing and the argument "needed" is true, the method first creates
// the file.
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

// touch creates an empty file.
func (g *gitDir) touch(at string) bool {
	f, err := g.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	return err == nil && f.Close() == nil
}

// Redirects returns the path of a "commondir" file in the repository of root, or "" if the file does not exist. A
// command can create this file to make git read its settings and hooks from another directory. The sandbox cannot
// prevent this, because it can only protect existing files. Only a worktree of another repository needs a "commondir"
// file.
func Redirects(root string) string {
	for _, dir := range []string{root, filepath.Join(root, ".git")} {
		st, err := os.Lstat(dir)
		if err != nil || !st.IsDir() || dir == root && !isRepository(root) {
			continue
		}
		path := filepath.Join(dir, "commondir")
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}
