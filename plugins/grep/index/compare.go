package index

import (
	"strings"
	"sync"
	"sync/atomic"

	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
	"toolhost.dev/sdk/tool"
)

// unheard returns the directories that must be compared by stamps before a call searches below a path. If full is
// true, the result contains all directories. Otherwise it contains the directories without a watch that are at, above
// or below the path.
func (x *Index) unheard(under string, full bool) []*dir {
	switch {
	case full:
		return x.all(x.root, nil)
	case len(x.byStat) == x.dirs: // no directory has a watch: use the order of the tree, because the kernel caches directories in this order
		return x.surroundings(under)
	}
	var out []*dir
	below := tool.Root{Path: under}
	for d := range x.byStat {
		if below.Contains(d.path) || (tool.Root{Path: d.path}).Contains(under) {
			out = append(out, d)
		}
	}
	return out
}

// surroundings returns the directory at a path together with all directories below and above it.
func (x *Index) surroundings(under string) []*dir {
	rel, ok := tool.Root{Path: x.root.path}.Rel(under)
	if !ok {
		return nil
	}
	var out []*dir
	d := x.root
	for name := range strings.SplitSeq(rel, "/") {
		if name == "." {
			continue
		}
		out = append(out, d)
		i, ok := d.find(name)
		if !ok || d.entries[i].dir == nil {
			return out
		}
		d = d.entries[i].dir
	}
	return x.all(d, append(make([]*dir, 0, len(out)+x.dirs), out...))
}

// all appends a directory and all directories below it to the slice out.
func (x *Index) all(d *dir, out []*dir) []*dir {
	out = append(out, d)
	for i := range d.entries {
		if child := d.entries[i].dir; child != nil {
			out = x.all(child, out)
		}
	}
	return out
}

// compareAll compares directories with the disk. It relists the directories that have changed.
func (x *Index) compareAll(dirs []*dir, wanted *view) error {
	for _, d := range x.compare(dirs, wanted) {
		if d.dropped {
			continue
		}
		if err := x.relist(d, x.rulesChanged(d)); err != nil {
			return err
		}
	}
	return nil
}

// part is a range of the entries in a directory. A worker compares one part at a time.
type part struct {
	d        *dir
	from, to int // the entries of the part are d.entries[from:to]
}

// manyDirs is the number of directories from which a second processor saves more time than it costs.
const manyDirs = 64

// partSize is the maximum number of entries in a part. Larger directories are divided into several parts.
const partSize = 1024

// compare compares directories and their wanted files with the disk. If the argument "wanted" is nil, all files are
// wanted. It returns the directories that must be relisted. It adds the files that must be read again to the list of
// pending files.
func (x *Index) compare(dirs []*dir, wanted *view) []*dir {
	if len(dirs) == 0 {
		return nil
	}
	if len(dirs) >= manyDirs {
		workers.Spare()
	}
	parts := make([]part, 0, len(dirs))
	for _, d := range dirs {
		from := 0
		for len(d.entries)-from > partSize {
			parts = append(parts, part{d, from, from + partSize})
			from += partSize
		}
		parts = append(parts, part{d, from, len(d.entries)})
	}
	var mu sync.Mutex
	var again []*dir
	var next atomic.Int64
	const few = 16
	workers.Run(min(x.workers, (len(parts)+few-1)/few), func(int) {
		c := comparison{x: x, wanted: wanted}
		for {
			to := int(next.Add(few))
			if to-few >= len(parts) {
				break
			}
			for _, p := range parts[to-few : min(to, len(parts))] {
				c.part(p)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		again = append(again, c.changed...)
		for _, f := range c.stale {
			x.enqueue(f)
		}
	})
	return again
}

// comparison holds the results of one worker.
type comparison struct {
	x      *Index
	wanted *view
	stamp  walk.Stamper
	// changed contains the directories with changed entries or rules. The field "stale" contains the files
	// that must be read again.
	changed []*dir
	stale   []*file
}

func (c *comparison) part(p part) {
	d := p.d
	probe, held, err := c.x.probe(d)
	if err != nil {
		if p.from == 0 {
			c.changed = append(c.changed, d)
		}
		return
	}
	defer func() {
		if !held {
			probe.Close()
		}
	}()
	if p.from == 0 {
		switch {
		case !c.sameDir(d, probe):
			c.changed = append(c.changed, d)
		case !held:
			held = c.x.keepOpen(d, probe)
		}
	}
	slack := d.slack()
	for i := p.from; i < p.to; i++ {
		f := d.entries[i].file
		if f == nil || c.wanted != nil && !c.wanted.has(f) {
			continue
		}
		now, err := c.stamp.At(probe, f.name())
		if err != nil || now != f.stamp || !now.Settled(f.read, slack) {
			c.stale = append(c.stale, f)
		}
	}
}

// sameDir reports whether the entries and the rules of a directory are unchanged.
func (c *comparison) sameDir(d *dir, p walk.Probe) bool {
	now, err := p.Stamp()
	if err != nil || !d.stamp.Same(now) || d.stamp.Mtime != now.Mtime || d.stamp.Change != now.Change ||
		!d.stamp.Settled(d.read, d.slack()) {
		return false
	}
	for name, was := range d.ruleStamps {
		now, err := c.stamp.At(p, name)
		if err != nil || now != was || !was.Settled(d.read, d.slack()) {
			return false
		}
	}
	return true
}
