package index

import (
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/ignore"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk/tool"
)

// dir is a directory that is known: neither it nor one above it is ignored or hidden.
// What is in others is looked up on the disk when a call asks for it.
type dir struct {
	path    string // absolute
	parent  *dir
	rules   *ignore.Dir
	entries []entry // sorted by name
	// stamp is the directory's, and read when it was listed.
	stamp freshness.Stamp
	read  int64
	// ruleStamps are those of its ignore files.
	ruleStamps map[string]freshness.Stamp
	kind       freshness.Kind
	watch      int32       // 0: it is not watched
	held       *walk.Probe // open; nil: it is opened when it is needed
	dropped    bool        // it is no longer part of the table
}

// entry is what a directory has in it.
type entry struct {
	path    string // absolute
	in      *dir
	kind    fs.FileMode // the type bits
	verdict ignore.Verdict
	dir     *dir  // of a directory; nil: not known
	file    *file // of a regular file; nil: not known
}

func (e *entry) name() string { return e.path[strings.LastIndexByte(e.path, '/')+1:] }

// byDefault reports whether a call without options would come to the entry.
func (e *entry) byDefault() bool {
	return e.verdict == ignore.Include || e.verdict == ignore.None && !walk.IsHidden(e.name())
}

// fileKind says how a file is searched.
type fileKind uint8

const (
	unread     fileKind = iota // on the disk: too large, not readable, with a NUL byte somewhere
	textFile                   // in memory
	binaryFile                 // not at all: it has a NUL byte so early that nothing is found
)

// file is a regular file whose content is known.
type file struct {
	id    uint32
	in    *dir
	path  string
	kind  fileKind
	text  *content.Text
	sum   uint64 // of the text, by [Sum]
	kept  atomic.Pointer[any]
	stamp freshness.Stamp // zero: not known
	read  int64           // when it was read
	// writing: it was written to and not closed since.
	writing bool
	dropped bool
	queued  bool // to be read by the next load
}

func (f *file) name() string { return f.path[strings.LastIndexByte(f.path, '/')+1:] }

// slack is how exact the times of the directory's file system are.
func (d *dir) slack() freshness.Slack {
	if d.kind == freshness.Watched {
		return freshness.LocalSlack
	}
	return freshness.NetworkSlack
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// find returns the place of a name among the entries.
func (d *dir) find(name string) (int, bool) {
	return slices.BinarySearchFunc(d.entries, name, func(e entry, name string) int { return strings.Compare(e.name(), name) })
}

// lookup returns the directory at an absolute path, or nil if it is not known.
func (x *Index) lookup(path string) *dir {
	rel, ok := tool.Root{Path: x.root.path}.Rel(path)
	if !ok {
		return nil
	}
	d := x.root
	for name := range strings.SplitSeq(rel, "/") {
		if name == "." {
			continue
		}
		i, ok := d.find(name)
		if !ok || d.entries[i].dir == nil {
			return nil
		}
		d = d.entries[i].dir
	}
	return d
}

// rel returns the path of a directory beneath the root.
func (x *Index) rel(d *dir) string {
	if d == x.root {
		return "."
	}
	return strings.TrimPrefix(d.path[len(x.root.path):], "/")
}

// newFile makes a file that is still to be read.
func (x *Index) newFile(d *dir, path string) *file {
	f := &file{in: d, path: path}
	if n := len(x.free); n > 0 {
		f.id, x.free = x.free[n-1], x.free[:n-1]
		x.files[f.id] = f
	} else {
		f.id = uint32(len(x.files)) // #nosec G115 -- at most maxEntries
		x.files = append(x.files, f)
	}
	x.enqueue(f)
	return f
}

func (x *Index) dropFile(f *file) {
	if f.text != nil {
		x.store.Remove(f.text)
	}
	f.text, f.dropped = nil, true
	delete(x.linked, f)
	delete(x.writing, f)
	x.files[f.id] = nil
	x.free = append(x.free, f.id)
	x.changed = true
}

// drop takes a directory with all that is in it out of the table.
func (x *Index) drop(d *dir) {
	for i := range d.entries {
		x.dropEntry(&d.entries[i])
	}
	d.dropped = true
	x.unwatch(d)
	x.release(d)
	x.entries -= len(d.entries)
	delete(x.byStat, d)
	x.dirs--
	x.changed = true
}

func (x *Index) dropEntry(e *entry) {
	if e.dir != nil {
		x.drop(e.dir)
	}
	if e.file != nil {
		x.dropFile(e.file)
	}
}

func (x *Index) unwatch(d *dir) {
	if d.watch == 0 {
		return
	}
	left := slices.DeleteFunc(x.watches[d.watch], func(o *dir) bool { return o == d })
	if x.watches[d.watch] = left; len(left) == 0 {
		delete(x.watches, d.watch)
		x.watcher.Remove(d.watch)
	}
	d.watch = 0
}
