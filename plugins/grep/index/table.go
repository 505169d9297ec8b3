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

// dir is an indexed directory. Neither it nor a directory above it is ignored or hidden. The contents of other
// directories are read from the disk when a call asks for them.
type dir struct {
	path    string // absolute
	parent  *dir
	rules   *ignore.Dir
	entries []entry // sorted by name
	// stamp is the stamp of the directory. read is the time when it was listed.
	stamp freshness.Stamp
	read  int64
	// ruleStamps are the stamps of its ignore files.
	ruleStamps map[string]freshness.Stamp
	kind       freshness.Kind
	watch      int32       // 0 if it is not watched
	held       *walk.Probe // nil unless the directory is held open
	dropped    bool        // removed from the index
}

// entry is an entry of a directory.
type entry struct {
	path    string // absolute
	in      *dir
	kind    fs.FileMode // the type bits
	verdict ignore.Verdict
	dir     *dir  // nil unless an indexed directory
	file    *file // nil unless an indexed regular file
}

func (e *entry) name() string { return e.path[strings.LastIndexByte(e.path, '/')+1:] }

// byDefault reports whether a call without options visits the entry.
func (e *entry) byDefault() bool {
	return e.verdict == ignore.Include || e.verdict == ignore.None && !walk.IsHidden(e.name())
}

// fileKind is the way to search a file.
type fileKind uint8

const (
	unread     fileKind = iota // on disk: it is too large, unreadable, or has a NUL byte far from its beginning
	textFile                   // in memory
	binaryFile                 // never: it has a NUL byte so early that nothing is found
)

// file is an indexed regular file.
type file struct {
	id    uint32
	in    *dir
	path  string
	kind  fileKind
	text  *content.Text
	sum   uint64 // [Sum] of the text
	kept  atomic.Pointer[any]
	stamp freshness.Stamp // zero if unknown
	read  int64           // time of reading
	// writing means that the file was written and not closed since.
	writing bool
	dropped bool
	queued  bool // queued for the next load
}

func (f *file) name() string { return f.path[strings.LastIndexByte(f.path, '/')+1:] }

// slack returns the timestamp slack of the directory's file system.
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

// find returns the index of a name in the entries.
func (d *dir) find(name string) (int, bool) {
	return slices.BinarySearchFunc(d.entries, name, func(e entry, name string) int { return strings.Compare(e.name(), name) })
}

// lookup returns the directory at an absolute path, or nil if it is not indexed.
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

// rel returns the path of a directory relative to the root.
func (x *Index) rel(d *dir) string {
	if d == x.root {
		return "."
	}
	return strings.TrimPrefix(d.path[len(x.root.path):], "/")
}

// newFile adds a file and queues it for the next load.
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

// drop removes a directory with its contents from the index.
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
