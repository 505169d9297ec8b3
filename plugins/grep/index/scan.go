package index

import (
	"context"
	"errors"
	"maps"
	"os"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/ignore"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk/workspace"
)

// maxEntries is the maximum number of files and directories in an index.
const maxEntries = 1_000_000

var errManyWatches = errors.New("half of this user's limit on watched directories is in use")

var errTooLarge = errors.New("the tree has too many files for an index")

// list reads a directory and its new subdirectories. If deep is true, it also relists the known subdirectories,
// because their rules can have changed. If the directory cannot be read, list returns false, and the caller must
// drop the directory.
//
// list adds the watch before it reads the directory. Otherwise it could miss a change.
func (x *Index) list(d *dir, deep bool) (bool, error) {
	if x.stopped() {
		return false, errStale
	}
	x.release(d)
	f, err := walk.OpenDir(x.handle, x.rel(d))
	if err != nil {
		return false, nil
	}
	defer func() { _ = f.Close() }()
	stamp, err := walk.StampOf(f)
	if err != nil {
		return false, nil
	}
	if !d.stamp.Same(stamp) { // the directory is new, or it has replaced another directory
		for i := range d.entries {
			x.dropEntry(&d.entries[i])
		}
		x.entries -= len(d.entries)
		d.entries = nil
		if d.kind = freshness.Watched; d.parent == nil || d.parent.stamp.Dev != stamp.Dev ||
			d.parent.kind != freshness.Watched {
			d.kind = x.kindOf(f)
		}
		if d.kind == freshness.NotKnown {
			return false, nil
		}
	}
	x.watch(d, f)
	d.stamp, d.read = stamp, freshness.Now()
	if now, err := walk.StampOf(f); err == nil { // the stamp must be taken after the watch was added
		d.stamp = now
	}
	entries, err := walk.List(context.Background(), f)
	if err != nil {
		return false, nil
	}
	changed := x.readRules(d, f, entries)
	return true, x.merge(d, f, entries, deep || changed)
}

// kindOf returns the method that detects changes in a directory. In a layered directory, the reports of the host are
// necessary in addition to the kernel's notifications.
func (x *Index) kindOf(f *os.File) freshness.Kind {
	switch kind := freshness.KindOf(f); {
	case kind != freshness.Layered:
		return kind
	case x.reported != nil:
		return freshness.Watched
	}
	return freshness.ByStat
}

// watch adds a watch to a directory. If no watch can be added, it adds the directory to byStat.
func (x *Index) watch(d *dir, f *os.File) {
	id := int32(0)
	if d.kind == freshness.Watched && x.watcher != nil {
		var err error
		if d.watch == 0 && len(x.watches) >= x.mostWatches {
			err = errManyWatches
		} else {
			id, err = x.watcher.Add(f)
		}
		if err != nil {
			id, x.refused = 0, err
		}
	}
	if id != d.watch {
		x.unwatch(d)
		if d.watch = id; id != 0 {
			x.watches[id] = append(x.watches[id], d)
		}
	}
	if id == 0 {
		x.byStat[d] = struct{}{}
	} else {
		delete(x.byStat, d)
	}
}

// readRules reads the ignore files of a directory. It reports whether the rules that apply in the directory have
// changed.
func (x *Index) readRules(d *dir, f *os.File, entries []walk.Entry) (changed bool) {
	was, before := d.ruleStamps, x.lookedFor(d)
	d.ruleStamps = nil
	for _, e := range entries {
		if walk.IsRuleFile(e.Name) {
			if d.ruleStamps == nil {
				d.ruleStamps = make(map[string]freshness.Stamp)
			}
			d.ruleStamps[e.Name], _ = walk.StampAt(f, d.path, e.Name)
		}
	}
	parent := x.above
	if d.parent != nil {
		parent = d.parent.rules
	}
	if d.ruleStamps == nil {
		x.forget(d)
		d.rules = parent
	} else {
		d.rules = x.reader(d).Rules(parent, f, d.path, entries)
	}
	return !maps.Equal(was, d.ruleStamps) || !maps.Equal(before, x.lookedFor(d))
}

// reader returns a reader of ignore files for a directory. The index records the path of each ignore file that the
// reader looks up.
func (x *Index) reader(d *dir) walk.RuleReader {
	x.forget(d)
	return walk.RuleReader{
		Read: x.readRule, Looked: func(path string) { x.outside = append(x.outside, x.lookAt(d, path)) },
	}
}

// merge replaces the entries of a directory by the listed entries. It keeps the data of each entry that was already
// known.
func (x *Index) merge(d *dir, f *os.File, listed []walk.Entry, deep bool) error {
	old := d.entries
	x.entries += len(listed) - len(old)
	if x.entries > maxEntries {
		return errTooLarge
	}
	d.entries = make([]entry, 0, len(listed))
	x.changed = true
	x.progress.Store(int64(x.entries))
	for _, l := range listed {
		for len(old) > 0 && old[0].name() < l.Name {
			x.dropEntry(&old[0])
			old = old[1:]
		}
		e := entry{path: join(d.path, l.Name), in: d, kind: l.Type}
		if len(old) > 0 && old[0].name() == l.Name {
			if old[0].kind == l.Type {
				e.path, e.dir, e.file = old[0].path, old[0].dir, old[0].file
				x.keepDir(&e, f)
			} else {
				x.dropEntry(&old[0])
			}
			old = old[1:]
		}
		if err := x.place(&e, deep); err != nil {
			return err
		}
		d.entries = append(d.entries, e)
	}
	for i := range old {
		x.dropEntry(&old[i])
	}
	return nil
}

// keepDir drops an entry's directory from the index if another directory has replaced it on disk. The open directory
// f contains the entry.
func (x *Index) keepDir(e *entry, f *os.File) {
	if e.dir == nil {
		return
	}
	if now, err := walk.StampAt(f, e.in.path, e.name()); err != nil || !now.Same(e.dir.stamp) {
		x.drop(e.dir)
		e.dir = nil
	}
}

// place adds an entry to the index or removes the entry, depending on the ignore rules. It lists new directories. If
// deep is true, it also relists known directories.
func (x *Index) place(e *entry, deep bool) error {
	if e.verdict = ignore.None; e.in.rules != nil {
		e.verdict = e.in.rules.Match(e.path, e.kind.IsDir())
	}
	known := e.byDefault()
	switch {
	case e.kind.IsRegular():
		if known && e.file == nil {
			e.file = x.newFile(e.in, e.path)
		} else if !known && e.file != nil {
			x.dropFile(e.file)
			e.file = nil
		}
	case e.kind.IsDir() && !known:
		if e.dir != nil {
			x.drop(e.dir)
			e.dir = nil
		}
	case e.kind.IsDir() && e.dir == nil:
		e.dir = &dir{path: e.path, parent: e.in}
		x.dirs++
		ok, err := x.list(e.dir, deep)
		if err != nil {
			return err
		}
		if !ok {
			x.drop(e.dir)
			e.dir = nil
		}
	case e.kind.IsDir() && deep:
		ok, err := x.list(e.dir, deep)
		if err != nil {
			return err
		}
		if !ok {
			x.drop(e.dir)
			e.dir = nil
		}
	}
	return nil
}

// refresh updates one entry of a directory from the disk.
func (x *Index) refresh(d *dir, f *os.File, name string) error {
	i, there := d.find(name)
	stamp, err := walk.StampAt(f, d.path, name)
	if err != nil {
		if there {
			x.dropEntry(&d.entries[i])
			d.entries = append(d.entries[:i], d.entries[i+1:]...)
			x.entries--
			x.changed = true
		}
		return nil
	}
	kind := workspace.FileType(stamp.Mode)
	e := entry{path: join(d.path, name), in: d, kind: kind}
	if there && d.entries[i].kind == kind {
		e = d.entries[i]
		if e.dir != nil && !e.dir.stamp.Same(stamp) {
			x.drop(e.dir)
			e.dir = nil
		}
	} else if there {
		x.dropEntry(&d.entries[i])
	}
	if !there {
		if x.entries++; x.entries > maxEntries {
			return errTooLarge
		}
		d.entries = append(d.entries, entry{})
		copy(d.entries[i+1:], d.entries[i:])
		x.changed = true
	}
	x.changed = x.changed || e.kind.IsDir() || d.entries[i].kind != kind
	// Set the entry before the call of x.place, because the list of entries must be valid while that method reads the
	// directories below.
	d.entries[i] = entry{path: e.path, in: d, kind: kind}
	if err := x.place(&e, false); err != nil {
		return err
	}
	d.entries[i] = e
	return nil
}
