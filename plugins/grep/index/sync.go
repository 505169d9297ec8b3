package index

import (
	"crypto/sha256"
	"errors"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk/tool"
)

// errStale means that the index cannot be updated and must be rebuilt.
var errStale = errors.New("the index is out of date")

// change combines the events of one directory entry.
type change struct {
	entries bool // true if the entry was created or removed
	content bool // content: the file was written or closed; open: the file was written and is not closed yet
	open    bool
	below   bool // everything below the entry may have changed, too
}

// sync applies the changes since the last call of sync. Afterwards the index is valid for calls that search the
// wanted files below a path. If full is true, sync also detects changes without events. It does not compare files
// that are not wanted. The next call that wants other files must call sync again.
func (x *Index) sync(under string, wanted *view, full bool) error {
	if x.stopped() {
		return errStale
	}
	if x.mounts != nil && x.mounts.Changed() {
		if x.watcher != nil {
			return errStale
		}
		x.releaseAll()
	}
	if x.watcher != nil {
		lost, err := x.watcher.Drain(x.note)
		if err != nil || x.gone {
			return errStale
		}
		if lost {
			x.lost++
			full, wanted = true, nil
		}
	}
	if x.reported != nil && x.reported.Drain(x.noteReport) {
		x.lost++
		full, wanted = true, nil
	}
	if err := x.apply(); err != nil {
		return err
	}
	if err := x.compareAll(x.unheard(under, full), wanted); err != nil {
		return err
	}
	if err := x.outsideRules(); err != nil {
		return err
	}
	if err := x.checkLinks(under); err != nil {
		return err
	}
	below := tool.Root{Path: under}
	for f := range x.writing {
		if below.Contains(f.path) {
			x.enqueue(f)
		}
	}
	x.load()
	if x.stopped() { // loading the files may have stopped early
		return errStale
	}
	if x.changed {
		x.changed = false
		x.generation++
	}
	return nil
}

// note records an event for the next call of sync.
func (x *Index) note(e freshness.Event) {
	x.events++
	for _, d := range x.watches[e.ID] {
		switch {
		case e.Ended:
			// If the directory was removed, its parent gets an event. Otherwise the directory exists without a watch
			// and is compared from now on.
			d.watch = 0
			x.byStat[d] = struct{}{}
		case e.Gone:
			x.gone = x.gone || d == x.root
		case e.Name == "":
			x.gone = x.gone || d == x.root // the permissions changed; for the root, no parent gets an event
		default:
			names := x.changesIn(d)
			c := names[e.Name]
			c.entries = c.entries || e.Entries
			c.content = c.content || e.Written || e.Closed
			c.open = (c.open || e.Written) && !e.Closed
			names[e.Name] = c
		}
	}
	if e.Ended {
		delete(x.watches, e.ID)
	}
}

// changesIn returns the recorded changes in a directory.
func (x *Index) changesIn(d *dir) map[string]change {
	names := x.dirty[d]
	if names == nil {
		names = make(map[string]change)
		x.dirty[d] = names
	}
	return names
}

// noteReport records the host's report of a changed path for the next call of sync. If the index does not know the
// directory of the path, either another report names that directory, or calls search it on disk.
func (x *Index) noteReport(name string) {
	x.events++
	d := x.lookup(path.Dir(name))
	if d == nil || name == x.root.path {
		return
	}
	names := x.changesIn(d)
	c := names[path.Base(name)]
	c.entries, c.content, c.below = true, true, true
	names[path.Base(name)] = c
}

// If more entries than this number are created or removed in a directory, the directory is relisted.
const many = 64

// apply updates the entries for which events were recorded.
func (x *Index) apply() error {
	for len(x.dirty) > 0 {
		for d, names := range x.dirty {
			delete(x.dirty, d)
			if d.dropped {
				continue
			}
			if err := x.applyTo(d, names); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *Index) applyTo(d *dir, names map[string]change) error {
	came, rules := 0, false
	for name, c := range names {
		if c.entries {
			came++
		}
		rules = rules || walk.IsRuleFile(name)
	}
	if rules || came > many {
		if err := x.relist(d, rules); err != nil || d.dropped {
			return err
		}
	}
	var f *os.File
	defer func() {
		if f != nil {
			_ = f.Close()
		}
	}()
	for name, c := range names {
		i, there := d.find(name)
		if came <= many && !rules && (c.entries || !there || d.entries[i].kind.IsDir()) {
			if f == nil {
				var err error
				if f, err = x.openSame(d); err != nil {
					return x.unknown(d)
				}
			}
			if err := x.refresh(d, f, name); err != nil {
				return err
			}
			i, there = d.find(name)
		}
		if there && d.entries[i].dir != nil && (!c.entries || c.below) {
			if err := x.reexamine(d.entries[i].dir); err != nil {
				return err
			}
			continue
		}
		if there && d.entries[i].file != nil {
			if c.content {
				d.entries[i].file.writing = c.open
			}
			x.enqueue(d.entries[i].file)
		}
	}
	return nil
}

// reexamine reads all entries below a directory again. It is called when the permissions of the directory have
// changed.
func (x *Index) reexamine(d *dir) error {
	if err := x.relist(d, true); err != nil || d.dropped {
		return err
	}
	for _, below := range x.all(d, nil) {
		for i := range below.entries {
			if f := below.entries[i].file; f != nil {
				x.enqueue(f)
			}
		}
	}
	return nil
}

// relist lists a directory again. If the directory cannot be read, relist drops it.
func (x *Index) relist(d *dir, deep bool) error {
	ok, err := x.list(d, deep)
	if err == nil && !ok {
		err = x.unknown(d)
	}
	return err
}

// openSame opens a directory. It fails if another directory has replaced the indexed one.
func (x *Index) openSame(d *dir) (*os.File, error) {
	f, err := walk.OpenDir(x.handle, x.rel(d))
	if err != nil {
		return nil, err
	}
	if now, err := walk.StampOf(f); err != nil || !now.Same(d.stamp) {
		_ = f.Close()
		return nil, os.ErrNotExist
	}
	return f, nil
}

// unknown removes a directory from the index. If the directory still exists on disk, calls search it on disk until
// an event reports the directory.
func (x *Index) unknown(d *dir) error {
	if d == x.root {
		return errStale
	}
	if i, ok := d.parent.find(path.Base(d.path)); ok && d.parent.entries[i].dir == d {
		d.parent.entries[i].dir = nil
	}
	x.drop(d)
	return nil
}

// rulesChanged reports whether the ignore files of a directory may have changed since the directory was listed.
func (x *Index) rulesChanged(d *dir) bool {
	p, err := walk.OpenProbe(x.handle, x.rel(d))
	if err != nil {
		return true
	}
	defer p.Close()
	for _, name := range walk.RuleFiles {
		now, err := p.StampAt(name)
		was, had := d.ruleStamps[name]
		if had != (err == nil) || had && (now != was || !was.Settled(d.read, d.slack())) {
			return true
		}
	}
	return false
}

// fewLinks is the maximum number of hard-linked files that are compared one by one. If more files are hard-linked,
// their directories are compared.
const fewLinks = 256

// checkLinks compares the hard-linked files below a path with the disk.
func (x *Index) checkLinks(under string) error {
	below := tool.Root{Path: under}
	if len(x.linked) > fewLinks {
		dirs := make(map[*dir]struct{})
		for f := range x.linked {
			if below.Contains(f.path) {
				dirs[f.in] = struct{}{}
			}
		}
		return x.compareAll(slices.Collect(maps.Keys(dirs)), nil)
	}
	for f := range x.linked {
		if !below.Contains(f.path) {
			continue
		}
		p, err := walk.OpenProbe(x.handle, x.rel(f.in))
		if err != nil {
			x.enqueue(f)
			continue
		}
		now, err := p.StampAt(f.name())
		p.Close()
		if err != nil || now != f.stamp || !now.Settled(f.read, f.in.slack()) {
			x.enqueue(f)
		}
	}
	return nil
}

// looked is the state of an ignore file outside of the indexed directories. Such a file is above the root, in a .git
// directory, or the target of a link.
type looked struct {
	d     *dir // directory whose rules depend on the file
	path  string
	stamp freshness.Stamp // zero if the file does not exist
	sum   [sha256.Size]byte
	read  int64
}

// seen contains the properties of an ignore file that affect the rules.
type seen struct {
	missing bool
	mode    uint32
	sum     [sha256.Size]byte
}

func seenAs(stamp freshness.Stamp, sum [sha256.Size]byte) seen {
	return seen{stamp == freshness.Stamp{}, stamp.Mode, sum}
}

// lookAt reads the current state of an ignore file outside of the indexed directories.
func (x *Index) lookAt(d *dir, path string) looked {
	l := looked{d: d, path: path, read: freshness.Now()}
	l.stamp = stampAt(path)
	l.sum = x.sum(path)
	return l
}

func stampAt(path string) freshness.Stamp {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return freshness.Stamp{}
	}
	return freshness.StampOf(&st)
}

// sum returns the SHA-256 of an ignore file's content. If the file cannot be read, it returns zero.
func (x *Index) sum(path string) [sha256.Size]byte {
	if x.readRule == nil {
		return [sha256.Size]byte{}
	}
	content, err := x.readRule(path)
	if err != nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(content)
}

// lookedFor returns the recorded ignore files on which the rules of a directory depend. The map keys are the paths
// of the ignore files.
func (x *Index) lookedFor(d *dir) map[string]seen {
	var all map[string]seen
	for _, l := range x.outside {
		if l.d == d {
			if all == nil {
				all = make(map[string]seen)
			}
			all[l.path] = seenAs(l.stamp, l.sum)
		}
	}
	return all
}

// forget removes the recorded ignore files on which the rules of a directory depend.
func (x *Index) forget(d *dir) {
	kept := x.outside[:0]
	for _, l := range x.outside {
		if l.d != d && !l.d.dropped {
			kept = append(kept, l)
		}
	}
	x.outside = kept
}

// outsideRules checks the ignore files outside of the indexed directories. It relists each directory whose rules depend
// on a changed file.
func (x *Index) outsideRules() error {
	changed := make(map[*dir]bool)
	for i := range x.outside {
		l := &x.outside[i]
		now, read := stampAt(l.path), freshness.Now()
		if now == l.stamp && (now == freshness.Stamp{} || now.Settled(l.read, freshness.NetworkSlack)) {
			continue
		}
		sum := x.sum(l.path)
		if seenAs(now, sum) != seenAs(l.stamp, l.sum) {
			changed[l.d] = true
		}
		l.stamp, l.sum, l.read = now, sum, read
	}
	for d := range changed {
		if d.dropped {
			continue
		}
		if d == &x.aboveDir { // the rules of the directories above the root depend on the file
			x.above = x.reader(&x.aboveDir).Parents(x.root.path)
			d = x.root
		}
		if err := x.relist(d, true); err != nil {
			return err
		}
	}
	return nil
}
