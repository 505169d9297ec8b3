package index

import (
	"io/fs"

	"toolhost.dev/plugins/grep/walk"
)

// view is the list of the entries below a directory that a call can find. Calls with the same options share a view.
type view struct {
	key        string
	generation uint64
	start      int // length of the directory's path including a final slash
	shown      string
	items      []*entry // files and directories in the order of paths
	// The slice maps the ID of a file to the position of the file in items. For a file outside of the view, the
	// position is -1.
	at []int32
	// texts and binaries are the numbers of indexed texts and indexed binary files. The field "disk" contains the files
	// that must be searched on disk.
	texts, binaries int
	disk            []*entry
	// trees contains the directories that must be walked on disk.
	trees            []*entry
	symlinks, others int
	files            int // number of items that are not directories
	skipped          walk.Skipped
}

// maxViews is the maximum number of cached views.
const maxViews = 8

// viewOf returns the view of a directory for a call's options. The caller must hold mu for reading.
func (x *Index) viewOf(d *dir, s walk.Start, o *walk.Options, key string) *view {
	key = d.path + "\x00" + s.Shown + "\x00" + key
	x.viewsMu.Lock()
	defer x.viewsMu.Unlock()
	for i, v := range x.views {
		if v.key == key && v.generation == x.generation {
			copy(x.views[1:i+1], x.views[:i]) // move the most recently used view to the front
			x.views[0] = v
			return v
		}
	}
	v := &view{key: key, generation: x.generation, start: len(d.path) + 1, shown: walk.ShownPrefix(s.Shown),
		at: make([]int32, len(x.files))}
	if d.path == "/" {
		v.start = 1
	}
	for i := range v.at {
		v.at[i] = -1
	}
	v.add(d, o)
	if len(x.views) == maxViews {
		x.views = x.views[:maxViews-1]
	}
	x.views = append([]*view{v}, x.views...)
	return v
}

// shownAs returns the path of an entry as displayed in results.
func (v *view) shownAs(e *entry) string { return v.shown + e.path[v.start:] }

// add adds the wanted entries of a directory to the view.
func (v *view) add(d *dir, o *walk.Options) {
	shows := o.Globs != nil || o.Global != nil
	for i := range d.entries {
		e := &d.entries[i]
		shown, isDir := "", e.kind.IsDir()
		if shows {
			shown = v.shownAs(e)
		}
		want, decided := o.Selected(shown, isDir)
		if !decided {
			want = o.Wanted(e.name(), shown, isDir, e.verdict, d.rules.InRepository(), &v.skipped)
		}
		if !want {
			continue
		}
		v.take(e)
		switch {
		case isDir && o.Closed != nil && o.Closed(e.name()):
		case isDir && e.dir != nil:
			v.add(e.dir, o)
		case isDir:
			v.trees = append(v.trees, e)
		}
	}
}

func (v *view) take(e *entry) {
	if e.file != nil {
		v.at[e.file.id] = int32(len(v.items)) // #nosec G115 -- at most maxEntries
	}
	v.items = append(v.items, e)
	switch {
	case e.kind.IsDir():
		return
	case e.kind&fs.ModeSymlink != 0:
		v.symlinks++
	case !e.kind.IsRegular():
		v.others++
	case e.file == nil || e.file.kind == unread:
		v.disk = append(v.disk, e)
	case e.file.kind == textFile:
		v.texts++
	case e.file.kind == binaryFile:
		v.binaries++
	}
	v.files++
}

// has reports whether the view contains a file.
func (v *view) has(f *file) bool { return int(f.id) < len(v.at) && v.at[f.id] >= 0 }
