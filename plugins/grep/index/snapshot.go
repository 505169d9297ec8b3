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

// Snapshot is the index as one call sees it: it does not change until it is released.
type Snapshot struct {
	x *Index
	v *view
}

// snapshot brings the index up to date for a start and holds it. It is nil if the start
// is not known.
func (x *Index) snapshot(s walk.Start, o walk.Options, key string) (snap *Snapshot, err error) {
	if err := x.hold(s, &o, key); err != nil {
		return nil, err
	}
	err = workers.Catch(func() error {
		d := x.lookup(s.Path)
		now, err := walk.StampOf(s.Dir)
		if d == nil || err != nil || !now.Same(d.stamp) {
			if d != nil && d.parent == nil { // another directory has the root's path now
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

// hold brings the index up to date and locks it for reading.
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
		x.mu.RUnlock() // because of another call, other files may be wanted than were compared
	}
}

// syncFor brings the index up to date for a call; with narrow, only the files that it wants
// if that can be. It reports whether it was so.
func (x *Index) syncFor(s walk.Start, o *walk.Options, key string, narrow bool) (narrowed bool, err error) {
	d := x.lookup(s.Path)
	if !narrow || len(x.byStat) == 0 || d == nil {
		return false, x.sync(s.Path, nil, false)
	}
	wanted, generation := x.viewOf(d, s, o, key), x.generation
	if err := x.sync(s.Path, wanted, false); err != nil || x.generation == generation {
		return true, err
	}
	// What is wanted depends on the names that there are, and on what ignore files say of them.
	return false, x.sync(s.Path, nil, false)
}

// Release gives the snapshot up.
func (s *Snapshot) Release() { s.x.mu.RUnlock() }

// Counts of what is beneath the start and wanted.
type Counts struct {
	Files     int // all but directories
	Texts     int // known and to be searched
	Binaries  int // known to have nothing to find, because of a NUL byte
	Symlinks  int
	Specials  int // FIFOs, sockets and devices
	NotWanted *walk.Skipped
}

// Counts returns the counts.
func (s *Snapshot) Counts() Counts {
	v := s.v
	return Counts{Files: v.files, Texts: v.texts, Binaries: v.binaries, Symlinks: v.symlinks, Specials: v.others, NotWanted: &v.skipped}
}

// Item is a file or directory of a snapshot.
type Item struct {
	s *Snapshot
	e *entry
}

// Path returns the absolute path.
func (i Item) Path() string { return i.e.path }

// Shown returns the path as it is shown.
func (i Item) Shown() string { return i.s.v.shownAs(i.e) }

// Place returns the place of a file in the order of the paths of the snapshot, from 1 on; 0: it is not known.
func (i Item) Place() int32 {
	if i.e.file == nil {
		return 0
	}
	return i.s.v.at[i.e.file.id] + 1
}

// Rel returns the path beneath the start.
func (i Item) Rel() string { return i.e.path[i.s.v.start:] }

// Type returns the type bits.
func (i Item) Type() fs.FileMode { return i.e.kind }

// Known reports whether it is a file whose text is known, so that it is one of
// [Counts].Texts.
func (i Item) Known() bool { return i.e.file != nil && i.e.file.kind == textFile }

// Sum returns the [Sum] of the text of a file that is known.
func (i Item) Sum() (sum uint64, length int) { return i.e.file.sum, i.e.file.text.Len() }

// Keep keeps something with the text of a file that is known, until that is another.
func (i Item) Keep(v any) { i.e.file.kept.Store(&v) }

// Kept returns what was kept last; nil means nothing.
func (i Item) Kept() any {
	if v := i.e.file.kept.Load(); v != nil {
		return *v
	}
	return nil
}

// Text returns the text of a file, if that is kept. It must not be kept.
func (i Item) Text() (text []byte, ok bool) {
	if !i.Known() {
		return nil, false
	}
	return i.e.file.text.Bytes()
}

// KnownInfo returns the size and time of a file that is known.
func (i Item) KnownInfo() (info walk.Info, ok bool) {
	if f := i.e.file; f != nil && f.stamp.Ino != 0 {
		return walk.Info{Size: f.stamp.Size, Modified: time.Unix(0, f.stamp.Mtime)}, true
	}
	return walk.Info{}, false
}

// Info returns what is known of it without opening it, from the disk if need be.
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

// Each calls do for all items, by several goroutines.
func (s *Snapshot) Each(do func(worker int, i Item)) {
	const chunk = 1024
	parallel(len(s.v.items), chunk, func(worker, i int) bool {
		do(worker, Item{s, s.v.items[i]})
		return true
	})
}

// parallel does n things in several goroutines, in about their order, until one says to stop.
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

// Text is a text that may match. The bytes must not be kept.
type Text struct {
	Item
	Bytes []byte

	selected *content.Selection
}

// Parts returns where a match may be; nil: anywhere.
func (t Text) Parts() []content.Part {
	if t.selected == nil {
		return nil
	}
	return t.selected.Parts(t.e.file.text)
}

// Candidates calls text for each known text that may have what is needed, and disk for
// each file whose text is not known; by several goroutines, about in the order of the
// paths, until one says to stop.
func (s *Snapshot) Candidates(need content.Need, text func(worker int, t Text) bool, disk func(worker int, i Item) bool) {
	v := s.v
	sel := s.x.store.Select(need)
	places := make([]uint64, (len(v.items)+63)/64)
	mark := func(at int32) { places[at/64] |= 1 << (at % 64) }
	n := 0
	const few = 8
	if sel.All() || v.texts < len(s.x.files)/few { // else it is less to look at each one selected
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

// Texts calls do for each known text that is kept, in the order of the paths, until it
// says to stop.
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

// Trees returns the directories that are not known: each is to be walked on the disk with
// the options of the call. One that cannot be opened is given as an error to failed.
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
