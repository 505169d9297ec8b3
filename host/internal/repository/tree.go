package repository

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sandbox/stamp"
)

// maxDirectories limits the number of searched directories in a tree.
const maxDirectories = 200_000

// maxPath limits the length of a relative path in bytes. Git does not work in directories with longer paths.
const maxPath = unix.PathMax - 1

// tree is a writable directory with all its subdirectories. It remembers the state of each directory. Therefore a
// search for new repositories reads only changed directories.
type tree struct {
	path  string
	root  directory
	dirs  map[string]*node // directories by relative path
	repos map[string]*repo // repositories by relative path
	// pointers contains the relative paths of files and links that point to a repository.
	pointers map[string]bool
	// partial reports that the tree has more directories than the limit.
	partial bool
	limit   int
	names   []string // names of settings of other programs
	added   []string // relative paths of directories that the last update discovered
	// near is an open directory of the tree, and "at" is its relative path. A search of its subdirectories needs no
	// path resolution from the root. Each update closes near at its end.
	near directory
	at   string
}

// node is a directory of a tree.
type node struct {
	stamp stamp.Stamp
	below []string // names of the subdirectories
	// settings contains the names of settings of other programs.
	settings []string
}

// repo is a directory that git would use as a repository.
type repo struct {
	watched map[string]stamp.Stamp // states of files at the time of their inspection, by relative path
	// contents maps the relative paths of files to hashes of their content. A program with a memory mapping of a file
	// can change the content without changing the file's times.
	contents map[string]string
	// unread reports that some file of the repository is unreadable.
	unread bool
}

// forget makes the next search inspect the repository.
func (r *repo) forget() { r.watched = nil }

func newTree(path string, limit int) (*tree, error) {
	root, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	return &tree{path: path, root: root, near: root, at: ".", limit: limit, dirs: make(map[string]*node),
		repos: make(map[string]*repo), pointers: make(map[string]bool)}, nil
}

// moved reports whether the path of the tree now belongs to another directory.
func (t *tree) moved() bool {
	var a, b unix.Stat_t
	if unix.Lstat(t.path, &a) != nil || a.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	err := unix.Fstat(t.root.fd, &b)
	return err != nil || a.Ino != b.Ino || a.Dev != b.Dev
}

// update finds the changes since its last call. The first call reads the whole tree.
func (t *tree) update() {
	defer t.leave()
	if t.partial && len(t.dirs) < t.limit { // the number of directories is below the limit again
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

// forget removes a directory and its subdirectories from the tree.
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

// skipped lists directories of the system that contain no files of users.
var skipped = []string{"/proc", "/sys", "/dev"}

// read reads a directory and its new subdirectories. The argument "again" is true if the directory is
// already known.
func (t *tree) read(rel string, again bool) {
	if len(rel) > maxPath {
		return
	}
	if len(t.dirs) >= t.limit && !again {
		t.partial = true
		return
	}
	st, entries, err := t.look(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP): // another program replaced the directory
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

// look returns the state of a directory before its entries are read, and the entries.
func (t *tree) look(rel string) (st stamp.Stamp, entries []fs.DirEntry, err error) {
	parent, name := filepath.Dir(rel), filepath.Base(rel)
	if err := t.enter(parent); err != nil {
		st, _ = t.root.stat(rel) // ignore the error: the zero stamp makes the next search try again
		return st, nil, err
	}
	if st, err = t.near.stat(name); err == nil {
		entries, err = t.near.names(name)
	}
	return st, entries, err
}

// enter opens a directory as the field "near".
func (t *tree) enter(rel string) error {
	if rel == t.at {
		return nil
	}
	d, err := t.root.open(rel)
	if err != nil {
		return err
	}
	t.leave()
	t.near, t.at = d, rel
	return nil
}

// leave closes the field "near" and sets it to the root of the tree.
func (t *tree) leave() {
	if t.near != t.root {
		t.near.close()
	}
	t.near, t.at = t.root, "."
}

// list returns the entries of a directory.
func (t *tree) list(rel string) ([]fs.DirEntry, error) {
	d, err := t.root.open(rel)
	if err != nil {
		return nil, err
	}
	defer d.close()
	return d.names(".")
}

// classify finds the repositories and the subdirectories to search among the entries of a directory.
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

// inGit reports whether a relative path is in a directory named .git. Git's objects need no search. Git uses a
// repository among the objects only if a pointer leads to it, and the guard treats such a pointer as dangerous.
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

// leads reports whether the target of a pointer is in a searched directory. The argument "from" is the
// absolute directory to which a relative target refers.
func leads(trees []string, from, to string) bool {
	if !filepath.IsAbs(to) {
		to = from + "/" + to
	}
	clean := filepath.Clean(to) // correct, because noLinks rejects symbolic links
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

// searched reports whether a relative path is outside the objects of a repository.
func searched(rel string) bool {
	for dir := rel; dir != "." && dir != "/"; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "objects" && inGit(filepath.Dir(dir)) {
			return false
		}
	}
	return true
}

// noLinks reports whether an absolute path contains no symbolic link. It checks the components in the order in which
// the system resolves the path.
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
