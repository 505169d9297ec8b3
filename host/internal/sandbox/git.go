package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
)

// maxModules bounds the repositories of submodules that are protected.
const maxModules = 200

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
	fixed = []string{dir}
	whole := false
	repository := func(at string) {
		paths, ok := repositoryPaths(dir, at)
		protected = append(protected, paths...)
		whole = whole || !ok
	}
	repository(".")
	modules := 0
	_ = fs.WalkDir(os.DirFS(dir), "modules", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // what cannot be read leads to no repository
		}
		if _, err := os.Lstat(filepath.Join(dir, path, "HEAD")); err != nil {
			return nil //nolint:nilerr // a directory of repositories
		}
		if modules++; modules > maxModules {
			whole = true
			return fs.SkipAll
		}
		fixed = append(fixed, filepath.Join(dir, path))
		repository(path)
		if _, err := os.Lstat(filepath.Join(dir, path, "modules")); err == nil {
			return nil // submodules of submodules
		}
		return fs.SkipDir
	})
	if whole {
		return nil, []string{dir}
	}
	return fixed, protected
}

// repositoryPaths gives what is to be protected of one repository below dir. ok is false when that
// cannot be done piece by piece.
func repositoryPaths(dir, at string) (paths []string, ok bool) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, false
	}
	defer r.Close() //nolint:errcheck // only read
	if st, err := r.Lstat(filepath.Join(at, "hooks")); err != nil {
		if r.Mkdir(filepath.Join(at, "hooks"), 0o755) != nil {
			return nil, false
		}
	} else if !st.IsDir() {
		return nil, false
	}
	config := filepath.Join(at, "config")
	if _, err := r.Lstat(config); err != nil {
		f, err := r.OpenFile(config, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil || f.Close() != nil {
			return nil, false
		}
	}
	for _, name := range []string{"hooks", "config", "config.worktree", "commondir"} {
		path := filepath.Join(at, name)
		switch st, err := r.Lstat(path); {
		case err != nil: // the last two are rarely there
		case name != "hooks" && !st.Mode().IsRegular():
			return nil, false
		default:
			paths = append(paths, filepath.Join(dir, path))
		}
	}
	return paths, true
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
