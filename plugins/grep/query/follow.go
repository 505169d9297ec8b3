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

// Target is the open file or directory to which a symbolic link leads.
type Target struct {
	*os.File
	Info fs.FileInfo
	// Path is the path of the target without symbolic links.
	Path string
}

// link is a symbolic link that a walk has found.
type link struct {
	path, shown string
	// within is the start directory of the walk. The field "above" contains the start directories of the
	// outer walks.
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

// maxLinks limits the depth of nested links: a followed link can lead to a directory that contains further links.
const maxLinks = 40

// follow searches the targets of symbolic links. The results contain the path of the link instead of the path of the
// target. A link to a directory above the link is not followed.
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
		r.symlink.Add(1) // the target of the link is missing or outside of the allowed directories
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
