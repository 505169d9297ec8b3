package repository

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
)

// Outer describes what git reads outside of a directory when it works in this directory.
type Outer struct {
	// Shown lists the paths that a sandbox can show to tools read-only, because their owner connected them with the
	// directory. See [FindOuter].
	Shown []string
	// Unshown is the git directory of the directory if a file names it, but nothing in it names the directory in turn.
	// It is "" otherwise.
	Unshown string
	// Top is the directory of the repository's files if it is above the directory. It is "" otherwise.
	Top string
	// Writable is the directory that must become a writable root before commands can commit. It is "" if the git
	// directory is in the directory itself.
	Writable string
}

// FindOuter returns what git reads outside of dir, an absolute path without symbolic links. Tools can have written a
// ".git" file, so its target is shown only if the target names the file, too: the git directory of a linked worktree
// names the worktree in the file gitdir, and the git directory of a submodule names its directory in the setting
// core.worktree. Above dir, FindOuter ends at the home directory, and at files of other users, as git does.
//
// Alternates of objects name no borrower. FindOuter shows those in a file with a text for which the function "adopted"
// returns true, such as [Guard.Adopted]. A nil adopted means none.
func FindOuter(dir string, adopted func(file, text string) bool) (out Outer) {
	if isRepository(dir) {
		return out
	}
	top := dir
	for ; !exists(filepath.Join(top, ".git")); top = filepath.Dir(top) {
		if parent := filepath.Dir(top); parent == "/" || holdsHome(parent) {
			return out
		}
	}
	git := filepath.Join(top, ".git")
	st, err := os.Lstat(git)
	if err != nil || !mine(st) {
		return out
	}
	common := git
	switch {
	case st.Mode().IsRegular():
		if common, err = pointed(git); err != nil || common == "" {
			if to := target(git); exists(filepath.Join(to, "HEAD")) { // tools can write any path
				out.Unshown = to
			}
			return out
		}
		out.Shown, out.Writable = []string{git, common}, common
	case !st.IsDir():
		return out
	case top != dir:
		out.Shown = []string{git}
	}
	if top != dir {
		out.Top, out.Writable = top, top
	}
	if adopted != nil {
		out.Shown = append(out.Shown, borrowed(filepath.Join(common, "objects"), adopted, 0)...)
	}
	out.Shown = slices.DeleteFunc(out.Shown, func(path string) bool { return tool.Within(dir, path) })
	return out
}

// Adopted reports whether a file in a repository had a text before tools could write it. In a directory that the guard
// does not watch, a record of another host means that its tools could.
func (g *Guard) Adopted(file, text string) bool {
	for dir := filepath.Dir(file); dir != "/"; dir = filepath.Dir(dir) {
		if w := g.tree(dir, false); w != nil {
			return w.adopted(file, text)
		}
		if ledgers := g.opts.Ledgers(); ledgers == "" || exists(ledgerPath(ledgers, dir)+".json") {
			return false
		}
	}
	return true
}

func (w *watched) adopted(file, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tree != nil && w.known[pathKey(file, hash([]byte(text)))]
}

// pointed returns the git directory to which the file .git of a linked worktree or a submodule leads. It
// returns "" if the directory does not name the file in turn.
func pointed(file string) (string, error) {
	own, err := filepath.EvalSymlinks(target(file))
	if err != nil {
		return "", err
	}
	if back := resolve(own, firstLine(filepath.Join(own, "gitdir"))); back != "" {
		common, err := filepath.EvalSymlinks(resolve(own, firstLine(filepath.Join(own, "commondir"))))
		trees := filepath.Dir(own)
		if err != nil || !is(filepath.Dir(back), filepath.Dir(file)) || filepath.Base(back) != ".git" ||
			filepath.Base(trees) != "worktrees" || filepath.Dir(trees) != common || !isRepository(common) {
			return "", err
		}
		return common, nil
	}
	text, err := readSmall(filepath.Join(own, "config"))
	if err != nil || !isRepository(own) {
		return "", err
	}
	all, err := parse([]byte(text))
	for _, s := range all {
		if s.name() == "core.worktree" && is(resolve(own, s.value), filepath.Dir(file)) {
			return own, err
		}
	}
	return "", err
}

// maxBorrowed limits how many repositories lend objects to each other in a row, as git does.
const maxBorrowed = 5

// borrowed returns the directories of objects that another such directory uses.
func borrowed(objects string, adopted func(file, text string) bool, depth int) (out []string) {
	list := filepath.Join(objects, "info", "alternates")
	text, err := readSmall(list)
	if err != nil || depth == maxBorrowed || !noLinks(list) || !adopted(list, text) {
		return nil
	}
	for line := range strings.Lines(text) {
		path := filepath.Clean(resolve(objects, strings.TrimRight(line, "\r\n")))
		if filepath.Base(path) != "objects" || !noLinks(path) || !isRepository(filepath.Dir(path)) { // tools can replace a directory by a link
			continue
		}
		out = append(out, path)
		out = append(out, borrowed(path, adopted, depth+1)...)
	}
	return out
}

// isRepository reports whether dir is the git directory of a repository and belongs to the user.
func isRepository(dir string) bool {
	st, err := os.Lstat(dir)
	return err == nil && st.IsDir() && mine(st) && exists(filepath.Join(dir, "HEAD")) &&
		exists(filepath.Join(dir, "objects")) && exists(filepath.Join(dir, "refs"))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// mine reports whether a file belongs to the user of the process.
func mine(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}

// is reports whether a path leads to a directory, which is given without symbolic links.
func is(path, dir string) bool {
	to, err := filepath.EvalSymlinks(path)
	return err == nil && to == dir
}

// holdsHome reports whether a directory is or contains the home directory of the user. If the home directory is
// unknown, it returns true.
func holdsHome(dir string) bool {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	return err != nil || tool.Within(dir, home)
}

// target returns the absolute path of the git directory that a file named .git names, or "".
func target(file string) string {
	to, is := strings.CutPrefix(firstLine(file), "gitdir: ")
	if !is {
		return ""
	}
	return resolve(filepath.Dir(file), to)
}

// resolve returns the absolute form of a path that is relative to a directory. It returns "" for an empty path.
func resolve(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func firstLine(path string) string {
	text, err := readSmall(path)
	if err != nil {
		return ""
	}
	return strings.TrimRight(text, "\r\n")
}

// maxPointer is the maximum size in bytes of the files with which git finds a repository. Larger files count as
// unreadable.
const maxPointer = 1 << 20

// readSmall returns the content of such a file.
func readSmall(path string) (string, error) {
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // a pipe would block otherwise
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxPointer+1))
	if err == nil && len(text) > maxPointer {
		err = unix.EFBIG
	}
	return string(text), err
}
