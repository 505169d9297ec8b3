package query

import (
	"io/fs"
	"os"
	"slices"
	"sync"

	"toolhost.dev/plugins/grep/search"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk/tool"
)

// Target is what a symbolic link leads to: an open file or directory.
type Target struct {
	*os.File
	Info fs.FileInfo
	// Path is the path of the target without symbolic links.
	Path string
}

// link is a symbolic link that a walk has found.
type link struct {
	path, shown string
	// within is the directory in which the walk began. above contains the directories in which the walks above began.
	within string
	above  []string
}

// links collects the symbolic links of a walk.
type links struct {
	mu  sync.Mutex
	all []link
}

func (l *links) add(one link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, one)
}

// maxLinks is the maximum number of followed links to directories that are within each other.
const maxLinks = 40

// follow searches what symbolic links lead to, as if it was at the place of the link. A link to a directory above itself is
// not followed.
func (r *run) follow(o walk.Options, only map[string]search.Window, found *links) error {
	for len(found.all) > 0 {
		l := found.all[len(found.all)-1]
		found.all = found.all[:len(found.all)-1]
		if err := r.followOne(l, o, only, found); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) followOne(l link, o walk.Options, only map[string]search.Window, found *links) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	target, err := r.q.Follow(l.path)
	if err != nil {
		r.symlink.Add(1) // a link that leads nowhere, or out of the allowed directories
		return nil
	}
	defer func() { _ = target.Close() }()
	if !target.Info.IsDir() {
		if _, ok := only[l.shown]; ok || only == nil {
			r.search(0, search.File{Reader: target, Size: target.Info.Size()}, spot{path: l.shown})
		}
		return nil
	}
	above := append(slices.Clone(l.above), l.within)
	loop := func(dir string) bool { return (tool.Root{Path: target.Path}).Contains(dir) }
	if len(above) > maxLinks || loop(l.path) || slices.ContainsFunc(above, loop) {
		r.symlink.Add(1)
		return nil
	}
	below := &links{}
	err = r.walkOne(walk.Start{Dir: target.File, Path: target.Path, Shown: l.shown}, o, only, below)
	for _, b := range below.all {
		b.above = above
		found.all = append(found.all, b)
	}
	return err
}
