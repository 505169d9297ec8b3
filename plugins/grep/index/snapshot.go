package index

import (
	"io/fs"
	"math/bits"
	"sync/atomic"
	"time"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

// Snapshot is a view of an index for one call. It does not change until the call releases it.
type Snapshot struct {
	x *Index
	v *view
}

// snapshot updates the index for a start and locks the index for reading. If the start is not indexed, it returns nil.
func (x *Index) snapshot(s walk.Start, o walk.Options, key string) (snap *Snapshot, err error) {
	if err := x.hold(s, &o, key); err != nil {
		return nil, err
	}
	err = workers.Catch(func() error {
		d := x.lookup(s.Path)
		now, err := walk.StampOf(s.Dir)
		if d == nil || err != nil || !now.Same(d.stamp) {
			if d != nil && d.parent == nil { // the root was replaced by another directory
				return errStale
			}
			return nil
		}
		snap = &Snapshot{x: x, v: x.viewOf(d, s, &o, key)}
		return nil
	})
	if snap == nil {
		x.mu.RUnlock()
	}
	return snap, err
}

// hold updates the index and locks it for reading.
func (x *Index) hold(s walk.Start, o *walk.Options, key string) error {
	for narrow := o.Globs != nil || o.Type != nil; ; narrow = false {
		x.mu.Lock()
		if x.closed {
			x.mu.Unlock()
			return x.whyClosed()
		}
		narrowed := false
		err := workers.Catch(func() (err error) {
			narrowed, err = x.syncFor(s, o, key, narrow)
			return err
		})
		if err != nil {
			x.close()
			x.failed = err
			x.mu.Unlock()
			return err
		}
		generation := x.generation
		x.mu.Unlock()
		x.mu.RLock()
		switch {
		case x.closed:
			x.mu.RUnlock()
			return x.whyClosed()
		case !narrowed || x.generation == generation:
			return nil
		}
		x.mu.RUnlock() // another call has changed the index, so this call can want files that were not compared
	}
}

// syncFor updates the index for a call. If narrow is true, it tries to compare only the files that the call wants. The
// result "narrowed" reports whether it compared only these files.
func (x *Index) syncFor(s walk.Start, o *walk.Options, key string, narrow bool) (narrowed bool, err error) {
	d := x.lookup(s.Path)
	if !narrow || len(x.byStat) == 0 || d == nil {
		return false, x.sync(s.Path, nil, false)
	}
	wanted, generation := x.viewOf(d, s, o, key), x.generation
	if err := x.sync(s.Path, wanted, false); err != nil || x.generation == generation {
		return true, err
	}
	// Names or ignore rules have changed. Either change can affect which files are wanted, so all files must be
	// compared.
	return false, x.sync(s.Path, nil, false)
}

// Release releases the snapshot. After Release, the snapshot must not be used.
func (s *Snapshot) Release() { s.x.mu.RUnlock() }

// Counts contains the numbers of wanted entries below the start.
type Counts struct {
	Files     int // number of all entries except directories
	Texts     int // number of indexed texts
	Binaries  int // number of indexed files that cannot match because of a NUL byte
	Symlinks  int
	Specials  int // number of FIFOs, sockets and devices
	NotWanted *walk.Skipped
}

// Counts returns the counts of the snapshot.
func (s *Snapshot) Counts() Counts {
	v := s.v
	return Counts{Files: v.files, Texts: v.texts, Binaries: v.binaries, Symlinks: v.symlinks, Specials: v.others,
		NotWanted: &v.skipped}
}

// Item is one file or directory in a snapshot.
type Item struct {
	s *Snapshot
	e *entry
}

// Path returns the absolute path.
func (i Item) Path() string { return i.e.path }

// Shown returns the path as displayed in results.
func (i Item) Shown() string { return i.s.v.shownAs(i.e) }

// Place returns the position of a file in the order of paths, counted from 1. If the file is not indexed, Place
// returns 0.
func (i Item) Place() int32 {
	if i.e.file == nil {
		return 0
	}
	return i.s.v.at[i.e.file.id] + 1
}

// Rel returns the path relative to the start.
func (i Item) Rel() string { return i.e.path[i.s.v.start:] }

// Type returns the type bits of the file mode.
func (i Item) Type() fs.FileMode { return i.e.kind }

// Known reports whether the item is an indexed text. The field Texts of [Counts] counts these items.
func (i Item) Known() bool { return i.e.file != nil && i.e.file.kind == textFile }

// Sum returns the hash of an indexed text, as computed by the function [Sum], and the length of the text.
func (i Item) Sum() (sum uint64, length int) { return i.e.file.sum, i.e.file.text.Len() }

// Keep attaches a value to an indexed text. The value is dropped when the text changes.
func (i Item) Keep(v any) { i.e.file.kept.Store(&v) }

// Kept returns the value attached by Keep, or nil.
func (i Item) Kept() any {
	if v := i.e.file.kept.Load(); v != nil {
		return *v
	}
	return nil
}

// Text returns the text of a file. If the text is not in memory, ok is false. The caller must not keep a reference
// to the text.
func (i Item) Text() (text []byte, ok bool) {
	if !i.Known() {
		return nil, false
	}
	return i.e.file.text.Bytes()
}

// KnownInfo returns the size and time of a file. If the index does not contain them, ok is false.
func (i Item) KnownInfo() (info walk.Info, ok bool) {
	if f := i.e.file; f != nil && f.stamp.Ino != 0 {
		return walk.Info{Size: f.stamp.Size, Modified: time.Unix(0, f.stamp.Mtime)}, true
	}
	return walk.Info{}, false
}

// Info returns the size and time of an entry. It reads them from disk if the index does not contain them.
func (i Item) Info() (walk.Info, error) {
	if info, ok := i.KnownInfo(); ok {
		return info, nil
	}
	dir, err := walk.OpenDir(i.s.x.handle, i.s.x.rel(i.e.in))
	if err != nil {
		return walk.Info{}, err
	}
	defer func() { _ = dir.Close() }()
	return walk.Stat(dir, i.e.in.path, i.e.name())
}

// Open opens a regular file.
func (i Item) Open() (*walk.File, error) {
	dir, err := walk.OpenDir(i.s.x.handle, i.s.x.rel(i.e.in))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return walk.OpenFile(dir, i.e.in.path, i.e.name())
}

// Each calls the function "do" for each item. Several goroutines call do at the same time.
func (s *Snapshot) Each(do func(worker int, i Item)) {
	const chunk = 1024
	parallel(len(s.v.items), chunk, func(worker, i int) bool {
		do(worker, Item{s, s.v.items[i]})
		return true
	})
}

// parallel calls the function "do" for the indices from 0 to n-1, roughly in this order. Several goroutines call do at
// the same time. parallel stops when a call returns false.
func parallel(n, chunk int, do func(worker, i int) bool) {
	var next atomic.Int64
	work := func(worker int) {
		for {
			to := int(next.Add(int64(chunk)))
			if to-chunk >= n {
				return
			}
			for i := to - chunk; i < min(to, n); i++ {
				if !do(worker, i) {
					next.Store(int64(n))
					return
				}
			}
		}
	}
	if most := min(workers.Number(), (n+chunk-1)/chunk); most > 1 {
		workers.Run(most, work)
	} else {
		work(0)
	}
}

// Text is an indexed text that can contain a match. The caller must not keep a reference to its bytes.
type Text struct {
	Item
	Bytes []byte

	selected *content.Selection
}

// Parts returns the parts of the text that can contain a match. A nil result means that a match can be anywhere in
// the text.
func (t Text) Parts() []content.Part {
	if t.selected == nil {
		return nil
	}
	return t.selected.Parts(t.e.file.text)
}

// Candidates calls the function "text" for each text in memory that can match the need. It calls the function "disk"
// for each other file that can match. Several goroutines make these calls, roughly in the order of paths. When a call
// returns false, the iteration ends.
func (s *Snapshot) Candidates(need content.Need, text func(worker int, t Text) bool,
	disk func(worker int, i Item) bool) {
	v := s.v
	sel := s.x.store.Select(need)
	places := make([]uint64, (len(v.items)+63)/64)
	mark := func(at int32) { places[at/64] |= 1 << (at % 64) }
	n := 0
	const few = 8
	if sel.All() || v.texts < len(s.x.files)/few { // faster than visiting all selected texts of the index
		for i, e := range v.items {
			if e.file != nil && e.file.kind == textFile && sel.Has(e.file.text) {
				mark(int32(i)) // #nosec G115 -- at most maxEntries
				n++
			}
		}
	} else {
		sel.Each(func(t *content.Text) {
			if at := v.at[t.Owner]; at >= 0 {
				mark(at)
				n++
			}
		})
	}
	for _, e := range v.disk {
		if e.file != nil {
			mark(v.at[e.file.id])
			n++
		}
	}
	list := make([]*entry, 0, n)
	for w, word := range places {
		for ; word != 0; word &= word - 1 {
			list = append(list, v.items[w*64+bits.TrailingZeros64(word)])
		}
	}
	for _, e := range v.disk {
		if e.file == nil {
			list = append(list, e)
		}
	}
	chunk := max(1, min(16, len(list)/8))
	parallel(len(list), chunk, func(worker, i int) bool {
		e := list[i]
		if e.file == nil || e.file.kind != textFile {
			return disk(worker, Item{s, e})
		}
		b, ok := e.file.text.Bytes()
		if !ok {
			return disk(worker, Item{s, e})
		}
		return text(worker, Text{Item: Item{s, e}, Bytes: b, selected: sel})
	})
}

// Texts calls the function "do" for each text in memory, in the order of paths, until do returns false.
func (s *Snapshot) Texts(do func(Text) bool) {
	for _, e := range s.v.items {
		if e.file == nil || e.file.kind != textFile {
			continue
		}
		if b, ok := e.file.text.Bytes(); ok && !do(Text{Item: Item{s, e}, Bytes: b}) {
			return
		}
	}
}

// Trees calls the function "do" with each directory that is not indexed. The function must walk the directory with the
// options of the call. If a directory cannot be opened, Trees calls the function "failed" with the error.
func (s *Snapshot) Trees(do func(walk.Start) error, failed func(error)) error {
	for _, e := range s.v.trees {
		rel := e.name()
		if e.in.parent != nil {
			rel = s.x.rel(e.in) + "/" + rel
		}
		dir, err := walk.OpenDir(s.x.handle, rel)
		if err != nil {
			failed(err)
			continue
		}
		err = do(walk.Start{Dir: dir, Path: e.path, Shown: s.v.shownAs(e), Rel: e.path[s.v.start:], Rules: e.in.rules})
		_ = dir.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
