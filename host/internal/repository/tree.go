package repository

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/stamp"
)

// maxDirectories bounds how many directories of a tree are searched.
const maxDirectories = 200_000

// maxPath bounds the length of a relative path, in bytes. Git does not work in directories with longer paths.
const maxPath = unix.PathMax - 1

// tree is a writable directory with everything below it. It remembers the state of each directory, so that a search for
// new repositories only reads the directories that changed.
type tree struct {
	path  string
	root  directory
	dirs  map[string]*node // by relative path
	repos map[string]*repo // by relative path
	// pointers are the relative paths of files and links that stand for a repository.
	pointers map[string]bool
	// partial reports that the tree has more directories than are searched.
	partial bool
	limit   int
	names   []string // of settings of other programs
	added   []string // relative paths of directories that the last update found first
}

// node is a directory of a tree.
type node struct {
	stamp stamp.Stamp
	below []string // names of directories
	// settings are the names of settings of other programs.
	settings []string
}

// repo is a directory that git would use as a repository.
type repo struct {
	watched map[string]stamp.Stamp // by relative path; the state of files when they were inspected
	// contents are the hashes of files by relative path. A program that has mapped a file into its memory changes the
	// content without a change of the file's times.
	contents map[string]string
	// unread reports that a part of the repository could not be read.
	unread bool
}

// forget makes the next search inspect the repository.
func (r *repo) forget() { r.watched = nil }

func newTree(path string, limit int) (*tree, error) {
	root, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	return &tree{path: path, root: root, limit: limit, dirs: make(map[string]*node), repos: make(map[string]*repo), pointers: make(map[string]bool)}, nil
}

// moved reports whether the path of the tree is now another directory.
func (t *tree) moved() bool {
	now, err := openRoot(t.path)
	if err != nil {
		return false
	}
	defer now.close()
	a, errA := now.stat(".")
	b, errB := t.root.stat(".")
	return errA != nil || errB != nil || a.Ino != b.Ino || a.Dev != b.Dev
}

// update finds what changed since the last call. The first call reads the whole tree.
func (t *tree) update() {
	if t.partial && len(t.dirs) < t.limit { // there is room again
		clear(t.dirs)
	}
	if len(t.dirs) == 0 {
		t.partial = false
		t.read(".", false)
		t.added = nil
		return
	}
	t.added = nil
	for rel, n := range t.dirs {
		now, err := t.root.stat(rel)
		switch {
		case err != nil || !now.IsDir():
			t.forget(rel)
		case !n.stamp.Same(&now):
			t.read(rel, true)
		}
	}
}

// forget removes a directory and all below it.
func (t *tree) forget(rel string) {
	n := t.dirs[rel]
	if n == nil {
		return
	}
	delete(t.dirs, rel)
	delete(t.repos, rel)
	for _, name := range n.below {
		t.forget(join(rel, name))
	}
}

// skipped are directories of the system that contain no files of users.
var skipped = []string{"/proc", "/sys", "/dev"}

// read reads a directory, and all directories below it that are new. again is set for a known directory.
func (t *tree) read(rel string, again bool) {
	if len(rel) > maxPath {
		return
	}
	if len(t.dirs) >= t.limit && !again {
		t.partial = true
		return
	}
	st, err := t.root.stat(rel)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = t.list(rel)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP): // replaced meanwhile
		return
	case errors.Is(err, fs.ErrPermission): // git cannot read it either; a change of the mode changes the stamp
		t.dirs[rel] = &node{stamp: st}
		return
	case err != nil: // the zero stamp makes the next search try again
		t.dirs[rel] = new(node)
		return
	}
	n := &node{stamp: st}
	old := t.dirs[rel]
	t.dirs[rel] = n
	if old == nil {
		t.added = append(t.added, rel)
	}
	t.classify(rel, entries, n)
	if old != nil {
		for _, name := range old.below {
			if !slices.Contains(n.below, name) {
				t.forget(join(rel, name))
			}
		}
	}
	for _, name := range n.below {
		if at := join(rel, name); t.dirs[at] == nil {
			t.read(at, false)
		}
	}
}

// list returns the entries of a directory.
func (t *tree) list(rel string) ([]fs.DirEntry, error) {
	d, err := t.root.open(rel)
	if err != nil {
		return nil, err
	}
	defer d.close()
	return d.names()
}

// classify finds the repositories among the entries of a directory, and the directories to search.
func (t *tree) classify(rel string, entries []fs.DirEntry, n *node) {
	var head, common, objects, refs bool
	for _, e := range entries {
		name := e.Name()
		if t.isSetting(rel, name) {
			n.settings = append(n.settings, name)
		}
		switch name {
		case "HEAD":
			head = true
		case "commondir":
			common = true
		case "objects":
			objects = true
		case "refs":
			refs = true
		}
		switch {
		case e.IsDir():
			if (name != "objects" || !inGit(rel)) && !t.excluded(rel, name) {
				n.below = append(n.below, name)
			}
		case strings.EqualFold(name, ".git") && e.Type()&^fs.ModeSymlink == 0:
			t.pointers[join(rel, name)] = true
		}
	}
	base := filepath.Base(rel)
	switch is := objects && refs || head && common || strings.EqualFold(base, ".git"); {
	case is && t.repos[rel] == nil:
		t.repos[rel] = new(repo)
	case !is:
		delete(t.repos, rel)
	}
}

func (t *tree) excluded(rel, name string) bool {
	return rel == "." && slices.Contains(skipped, filepath.Join(t.path, name))
}

// inGit reports whether a relative path is in a directory named .git. Its objects need no search, because git only uses
// a repository there if a pointer leads to it, and such a pointer counts as leading out of the tree.
func inGit(rel string) bool {
	for part := range strings.SplitSeq(rel, "/") {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// leads returns whether a pointer to a path stays in directories that are searched. The argument from is the absolute
// directory to which a relative path refers.
func leads(trees []string, from, to string) bool {
	if !filepath.IsAbs(to) {
		to = from + "/" + to
	}
	clean := filepath.Clean(to) // correct, because noLinks refuses links
	for _, t := range trees {
		rel, err := filepath.Rel(t, clean)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		if searched(rel) && noLinks(to) {
			return true
		}
	}
	return false
}

// searched reports whether a relative path is not in the objects of a repository.
func searched(rel string) bool {
	for dir := rel; dir != "." && dir != "/"; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "objects" && inGit(filepath.Dir(dir)) {
			return false
		}
	}
	return true
}

// noLinks reports whether no part of an absolute path is a link, in the order in which the system resolves the path.
func noLinks(path string) bool {
	at := "/"
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		at = filepath.Join(at, part)
		st, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || st.Mode()&fs.ModeSymlink != 0 {
			return false
		}
	}
	return true
}
