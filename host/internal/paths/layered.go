package paths

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
)

// A layer over a root contains few directories. All other directories look like the directories of the root without the
// layer. Therefore the search of a layered root reads only the directories of the layer, through the view. It takes all
// other nodes from a finder of the root without the layer. All layers over the root share this finder.

// NewLayered returns a finder for roots with and without layers. The finder below must search the layered roots without
// their layers, with the same rules. The function "sweep" returns the matches of the finder below. It can use the last
// sweep if that is recent.
func NewLayered(roots []Root, rules Rules, below *Finder, sweep func() ([]Match, int, error)) *Finder {
	f := New(roots, rules)
	f.below, f.sweepBelow = below, sweep
	return f
}

// layeredRoot returns the root that has a layer and contains the path.
func (f *Finder) layeredRoot(path string) *Root {
	for i := range f.roots {
		if r := &f.roots[i]; f.below != nil && r.Layer != "" && tool.Within(r.Path, path) {
			return r
		}
	}
	return nil
}

// inLayer reports whether the layer over a root contains a directory. If not, the directory looks as it does without
// the layer, because the kernel creates a directory in the layer before it changes anything in it.
func (r *Root) inLayer(dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(r.Layer+"/"+strings.TrimPrefix(dir[len(r.Path):], "/"), &st) == nil &&
		st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// updateLayered reads the changed directories that are in the layer of a root. It takes all other nodes from the finder
// below.
func (f *Finder) updateLayered(r *Root, changed *[]string) {
	f.below.mu.Lock()
	defer f.below.mu.Unlock()
	f.partial = f.partial || f.below.partial
	old := f.nodes
	f.nodes = make(map[string]*node, len(old))
	for dir, n := range old {
		if !tool.Within(r.Path, dir) {
			f.nodes[dir] = n
		}
	}
	l := layering{f, r, old, changed}
	l.visit(r.Path, node{writable: r.Writable})
}

// layering is one update of a layered root.
type layering struct {
	f       *Finder
	root    *Root
	old     map[string]*node
	changed *[]string
}

// visit adds the node of a directory and of all directories below it.
func (l *layering) visit(dir string, n node) {
	if len(l.f.nodes) >= maxDirectories {
		l.f.partial = true
		return
	}
	old := l.old[dir]
	if dir != l.root.Path && !l.root.inLayer(dir) {
		if from := l.f.below.nodes[dir]; from != nil && from.sameRules(&n) {
			l.graft(dir, from)
			return
		}
	}
	st, err := stampOf(l.f.onHost(dir))
	if err != nil || !st.IsDir() {
		return
	}
	// The stamp of a directory in the layer does not change when the directory below it changes. The old node can still
	// be used, because the sweep of the finder below finds new matches in the directory below.
	if old != nil && old.own && old.sameRules(&n) && old.stamp.Same(&st) {
		l.f.nodes[dir] = old
	} else {
		n.stamp, n.own = st, true
		l.f.list(dir, &n)
		l.f.nodes[dir] = &n
		*l.changed = append(*l.changed, dir)
	}
	now := l.f.nodes[dir]
	for i, name := range now.below {
		l.visit(filepath.Join(dir, name), now.children[i])
	}
}

// graft adds the nodes of a directory that the layer does not contain.
func (l *layering) graft(dir string, from *node) {
	if len(l.f.nodes) >= maxDirectories {
		l.f.partial = true
		return
	}
	switch old := l.old[dir]; {
	case old != nil && (old == from || old.from == from):
		l.f.nodes[dir] = old
	case from.covered: // each finder stores the hard links in such a directory separately
		n := *from
		n.from, n.linked = from, nil
		l.f.nodes[dir] = &n
		*l.changed = append(*l.changed, dir)
	default:
		l.f.nodes[dir] = from
		*l.changed = append(*l.changed, dir)
	}
	for _, name := range from.below {
		at := filepath.Join(dir, name)
		if child := l.f.below.nodes[at]; child != nil {
			l.graft(at, child)
		}
	}
}

func (n *node) sameRules(o *node) bool {
	return n.writable == o.writable && n.covered == o.covered && n.hidden == o.hidden && n.packages == o.packages
}
