package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/sandbox/stamp"
)

const (
	// MaxMatches is the maximum number of matches. Each match is a mount in every sandbox.
	MaxMatches = 4096
	// maxDirectories limits the number of searched directories.
	maxDirectories = 200_000
)

// Root is a directory that a finder searches.
type Root struct {
	Path string
	// Writable reports whether tools can write in the root. In a root that is not writable, no file needs protection.
	Writable bool
	// View is a path through which this process sees the files of the root. Empty means Path.
	View string
	// CopyOf is the original directory if the root is a copy of a directory. If a pattern matches a path in the
	// original, it also matches the same path in the copy. Empty means that the root is no copy.
	CopyOf string
	// Layer is the directory with the changes of the layer over the root; see [NewLayered]. Empty means that the root
	// has no layer.
	Layer string
}

// Finder finds matches in roots. It remembers the state of each directory, so that later searches only read the
// directories that changed. It is safe for concurrent use.
type Finder struct {
	roots         []Root
	hide, protect matcher
	names         map[string]bool
	// below is a finder that searches the layered roots without their layers, and sweepBelow sweeps this
	// finder. Both are nil if no root has a layer.
	below      *Finder
	sweepBelow func() ([]Match, int, error)

	mu         sync.Mutex
	nodes      map[string]*node
	linked     map[object]bool // hidden and protected files with several hard links, at the last sweep
	others     map[string]object
	matches    []Match
	generation int
	swept      time.Time
	valid      bool // whether the last sweep succeeded
	partial    bool
}

// New returns a finder for roots.
func New(roots []Root, rules Rules) *Finder {
	f := &Finder{hide: compile(rules.Hide), protect: compile(rules.Protect), names: make(map[string]bool),
		nodes: make(map[string]*node)}
	for _, n := range rules.Names {
		f.names[n] = true
	}
	roots = slices.Clone(roots)
	slices.SortFunc(roots, func(a, b Root) int { return strings.Compare(a.Path, b.Path) })
	for _, r := range roots {
		if r.CopyOf != "" {
			f.hide.copies, f.protect.copies = append(f.hide.copies, r), append(f.protect.copies, r)
		}
		if !r.Writable && f.hide.empty() { // no path in this root can match
			continue
		}
		if i := slices.IndexFunc(f.roots, func(o Root) bool { return tool.Within(o.Path, r.Path) }); i >= 0 {
			f.roots[i].Writable = f.roots[i].Writable || r.Writable
			continue
		}
		f.roots = append(f.roots, r)
	}
	return f
}

// object identifies a file on this machine.
type object struct{ dev, ino uint64 }

// node is a directory.
type node struct {
	stamp stamp.Stamp
	// If the field "covered" is true, the directory is protected, and only hidden paths are searched in the directory.
	// If the field "hidden" is true, the directory is hidden, and only hard links of its files in other directories are
	// searched. If the field "packages" is true, the directory is below a directory with installed packages.
	writable, covered, hidden, packages bool
	below                               []string // names of directories to search
	matches                             []Match
	links                               []Match         // matching symbolic links
	files                               []string        // names of regular files
	linked                              map[object]bool // hard-linked files of a covered directory

	// The following fields are only used for layered roots. The field "children" contains the rules for the directories
	// in the field "below", in the same order. The field "own" is true if this finder read the directory itself.
	// Otherwise, the node is a node of the finder "below" of the Finder, or a copy of such a node. In a copy, the field
	// "from" is the original node.
	children []node
	own      bool
	from     *node
}

// Sweep returns all matches, sorted by path. The result contains no paths in hidden directories. If the matches change,
// the generation changes too. The caller must not change the result.
func (f *Finder) Sweep() (matches []Match, generation int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.valid = false
	var beneath []Match
	if f.below != nil {
		if beneath, _, err = f.sweepBelow(); err != nil {
			return nil, 0, err
		}
	}
	changed := f.update()
	// A match below a layer also counts as a match in the layer. Otherwise a branch could make a path visible or
	// writable by removing the reason for the match, such as a link to the path.
	found := append(f.collect(), beneath...)
	found = f.hardLinks(found, changed)
	found = arrange(found)
	f.swept = time.Now()
	if f.partial && (!f.hide.empty() || !f.protect.empty()) {
		return nil, 0, fmt.Errorf("the roots have more than %d directories, and denied or protected paths in the rest cannot be found. Use a smaller workspace, or fewer roots", maxDirectories)
	}
	if len(found) > MaxMatches {
		return nil, 0, tooMany(found)
	}
	if f.generation == 0 || !slices.Equal(found, f.matches) {
		f.matches = found
		f.generation++
	}
	f.valid = true
	return f.matches, f.generation, nil
}

// Recent returns the matches of the last successful sweep. The result ok is false if the last sweep failed or is older
// than age.
func (f *Finder) Recent(age time.Duration) (matches []Match, generation int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.matches, f.generation, f.valid && time.Since(f.swept) < age
}

// Unchanged reports whether no entry of a root was created or removed since the last sweep.
func (f *Finder) Unchanged() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.below != nil && !f.below.Unchanged() {
		return false
	}
	return !slices.ContainsFunc(f.roots, func(r Root) bool {
		now, err := stampOf(f.onHost(r.Path))
		n := f.nodes[r.Path]
		return err != nil || n == nil || !n.stamp.Same(&now)
	})
}

// Concerns reports whether a new file or directory at a path could be a match.
func (f *Finder) Concerns(path string) bool {
	dir, name := filepath.Split(path)
	return f.names[name] || f.hide.match(dir, name) || f.protect.match(dir, name)
}

// Directories returns the directories that contain matches, and the roots.
func (f *Finder) Directories() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.roots {
		out = append(out, r.Path)
	}
	for _, m := range f.matches {
		out = append(out, filepath.Dir(m.Path))
	}
	for _, n := range f.nodes {
		for _, l := range n.links {
			out = append(out, filepath.Dir(l.Path))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func tooMany(found []Match) error {
	count := make(map[string]int)
	for _, m := range found {
		count[filepath.Dir(m.Path)]++
	}
	var dirs []string
	for dir := range count {
		dirs = append(dirs, dir)
	}
	slices.SortFunc(dirs, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	var most []string
	for _, dir := range dirs[:min(3, len(dirs))] {
		most = append(most, fmt.Sprintf("%d in %s", count[dir], dir))
	}
	return fmt.Errorf("%d denied or protected paths exist, and at most %d are possible. Most are: %s. Name directories in permissions.paths: \"dir/**\"", len(found), MaxMatches, strings.Join(most, ", "))
}

// update reads all changed directories and returns them.
func (f *Finder) update() (changed []string) {
	if f.partial && len(f.nodes) < maxDirectories { // the number of directories is below the limit again
		clear(f.nodes)
	}
	f.partial = false
	for i := range f.roots {
		switch r := &f.roots[i]; {
		case f.below != nil && r.Layer != "":
			f.updateLayered(r, &changed)
		case f.nodes[r.Path] == nil:
			f.read(r.Path, node{writable: r.Writable}, &changed)
		}
	}
	if len(changed) == len(f.nodes) {
		return changed
	}
	for dir, n := range f.nodes {
		if f.layeredRoot(dir) != nil {
			continue
		}
		now, err := stampOf(f.onHost(dir))
		switch {
		case err != nil || !now.IsDir():
			f.forget(dir)
		case !n.stamp.Same(&now):
			f.read(dir, node{writable: n.writable, covered: n.covered, hidden: n.hidden, packages: n.packages},
				&changed)
		}
	}
	return changed
}

func (f *Finder) forget(dir string) {
	n := f.nodes[dir]
	if n == nil {
		return
	}
	delete(f.nodes, dir)
	for _, name := range n.below {
		f.forget(filepath.Join(dir, name))
	}
}

// read reads a directory and its unknown subdirectories. The node n contains the properties that the
// directory inherits.
func (f *Finder) read(dir string, n node, changed *[]string) {
	old := f.nodes[dir]
	if old == nil && len(f.nodes) >= maxDirectories {
		f.partial = true
		return
	}
	st, err := stampOf(f.onHost(dir))
	if err != nil || !st.IsDir() {
		f.forget(dir)
		return
	}
	n.stamp = st
	children := f.list(dir, &n)
	f.nodes[dir] = &n
	*changed = append(*changed, dir)
	if old != nil {
		for _, name := range old.below {
			if !slices.Contains(n.below, name) {
				f.forget(filepath.Join(dir, name))
			}
		}
	}
	for i, name := range n.below {
		at := filepath.Join(dir, name)
		if known := f.nodes[at]; known == nil || known.covered != children[i].covered ||
			known.hidden != children[i].hidden {
			f.forget(at)
			f.read(at, children[i], changed)
		}
	}
}

// list reads the entries of a directory into its node. It returns the nodes of the directories to search.
func (f *Finder) list(dir string, n *node) (children []node) {
	entries, err := os.ReadDir(f.onHost(dir))
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		n.stamp = stamp.Stamp{} // the next sweep tries again
	}
	children = f.classify(dir, entries, n)
	if f.below != nil {
		n.children = children
	}
	return children
}

// classify finds the matches among the entries of a directory, and the directories to search. It also
// returns the properties that these directories inherit.
func (f *Finder) classify(dir string, entries []fs.DirEntry, n *node) (children []node) {
	for _, e := range entries {
		name := e.Name()
		child := node{
			writable: n.writable, covered: n.covered, hidden: n.hidden, packages: n.packages || name == Packages,
		}
		m, ok := f.match(dir, name, n)
		link := e.Type()&fs.ModeSymlink != 0
		switch {
		case ok && link:
			n.links = append(n.links, m)
		case ok && (e.IsDir() || e.Type().IsRegular()):
			n.matches = append(n.matches, m)
			child.covered, child.hidden = true, m.Hidden
		}
		switch {
		case e.IsDir() && (name != "objects" || filepath.Base(dir) != ".git"):
			n.below = append(n.below, name)
			children = append(children, child)
		case e.Type().IsRegular():
			n.files = append(n.files, name)
		}
	}
	return children
}

func (f *Finder) match(dir, name string, n *node) (Match, bool) {
	m := Match{Path: filepath.Join(dir, name)}
	switch {
	case n.hidden:
		return m, false
	case f.hide.match(dir, name):
		m.Hidden = true
	case n.covered || !n.writable:
		return m, false
	case f.protect.match(dir, name):
	case f.names[name] && !n.packages:
		m.Setting = true
	default:
		return m, false
	}
	return m, true
}

// collect returns the matches of all directories and the targets of matching links.
func (f *Finder) collect() (out []Match) {
	for _, n := range f.nodes {
		out = append(out, n.matches...)
		for _, l := range n.links {
			target, err := filepath.EvalSymlinks(l.Path)
			if err != nil || slices.ContainsFunc(f.roots, func(r Root) bool { return target == r.Path }) {
				continue
			}
			if slices.ContainsFunc(f.roots, func(r Root) bool { return tool.Within(r.Path, target) }) {
				l.Path = target
				out = append(out, l)
			}
		}
	}
	return out
}

// arrange sorts matches. It removes duplicates and paths in hidden directories.
func arrange(all []Match) (out []Match) {
	slices.SortFunc(all, func(a, b Match) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return rank(a) - rank(b)
	})
	hidden := make(map[string]bool)
	for _, m := range all {
		if len(out) > 0 && out[len(out)-1].Path == m.Path || below(hidden, m.Path) {
			continue
		}
		if m.Hidden {
			hidden[m.Path] = true
		}
		out = append(out, m)
	}
	return out
}

func rank(m Match) int {
	switch {
	case m.Hidden:
		return 0
	case m.Setting:
		return 2
	}
	return 1
}

func below(dirs map[string]bool, path string) bool {
	if len(dirs) == 0 {
		return false
	}
	for dir := filepath.Dir(path); len(dir) > 1; dir = filepath.Dir(dir) {
		if dirs[dir] {
			return true
		}
	}
	return false
}

func stampOf(path string) (stamp.Stamp, error) {
	var st unix.Stat_t
	taken := time.Now()
	if err := unix.Lstat(path, &st); err != nil {
		return stamp.Stamp{}, err
	}
	return stamp.Of(&st, taken), nil
}

// onHost returns the path through which this process sees a path of a root.
func (f *Finder) onHost(path string) string {
	for _, r := range f.roots {
		if r.View != "" && tool.Within(r.Path, path) {
			return r.View + "/" + strings.TrimPrefix(path[len(r.Path):], "/")
		}
	}
	return path
}
