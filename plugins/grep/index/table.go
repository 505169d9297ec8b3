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

// dir is an indexed directory. Ignored and hidden directories are never indexed. If a call searches an ignored or
// hidden directory, it reads the disk.
type dir struct {
	path    string // absolute path
	parent  *dir
	rules   *ignore.Dir
	entries []entry // sorted by name
	// stamp is the stamp of the directory. The field "read" is the time at which the stamp was read.
	stamp freshness.Stamp
	read  int64
	// ruleStamps maps the names of the directory's ignore files to their stamps.
	ruleStamps map[string]freshness.Stamp
	kind       freshness.Kind
	watch      int32       // ID of the directory's watch; 0 if the directory is not watched
	held       *walk.Probe // open directory; nil if the directory is not held open
	dropped    bool        // true if the directory was removed from the index
}

// entry is an entry of a directory.
type entry struct {
	path    string // absolute path of the entry
	in      *dir
	kind    fs.FileMode // type bits of the file mode
	verdict ignore.Verdict
	dir     *dir  // the indexed directory; nil if the entry is not an indexed directory
	file    *file // the indexed regular file; nil if the entry is not an indexed file
}

func (e *entry) name() string { return e.path[strings.LastIndexByte(e.path, '/')+1:] }

// byDefault reports whether a call without options visits the entry.
func (e *entry) byDefault() bool {
	return e.verdict == ignore.Include || e.verdict == ignore.None && !walk.IsHidden(e.name())
}

// fileKind determines how the content of a file is searched.
type fileKind uint8

const (
	unread     fileKind = iota // search on disk: the file is too large, unreadable, or has a NUL byte far from its beginning
	textFile                   // search the text in memory
	binaryFile                 // do not search: no match can precede the NUL byte at its beginning
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
	stamp freshness.Stamp // zero if the stamp is unknown
	read  int64           // time at which the file was read
	// writing is true if the file was written and is not closed yet.
	writing bool
	dropped bool
	queued  bool // true if the file is pending and the next load reads it
}

func (f *file) name() string { return f.path[strings.LastIndexByte(f.path, '/')+1:] }

// slack returns the slack of timestamps on the directory's file system.
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

// find returns the index of the entry with the given name. If no entry has this name, it returns false and the index
// at which to insert the entry.
func (d *dir) find(name string) (int, bool) {
	return slices.BinarySearchFunc(d.entries, name, func(e entry, name string) int {
		return strings.Compare(e.name(), name)
	})
}

// lookup returns the directory at an absolute path. If the directory is not indexed, it returns nil.
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

// newFile adds a file to the index and queues the file for the next load.
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

// drop removes a directory and all entries below it from the index.
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
