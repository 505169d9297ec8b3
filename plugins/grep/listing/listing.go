// Package listing implements the listing of a directory or a tree, directories included, in order.
package listing

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"toolhost.dev/plugins/grep/glob"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk/workspace"
)

// Pattern is a glob of names or, with a slash in it, of paths beneath the listed directory.
type Pattern struct {
	glob  *glob.Glob
	paths bool
}

// Parse reads a glob; "" gives nil, which matches everything. The error is a [*glob.Error].
func Parse(text string) (*Pattern, error) {
	if text == "" {
		return nil, nil
	}
	g, err := glob.Parse(text, glob.Options{Shell: true})
	return &Pattern{glob: g, paths: strings.Contains(text, "/")}, err
}

// Deep reports whether it is of paths.
func (p *Pattern) Deep() bool { return p != nil && p.paths }

func (p *Pattern) matches(rel string) bool {
	switch {
	case p == nil:
		return true
	case p.paths:
		return p.glob.Match(rel)
	}
	return p.glob.Match(path.Base(rel))
}

// metadata are directories of version control systems. They are listed, but what is in them
// only when that is asked for itself.
var metadata = []string{".git", ".hg", ".svn", ".jj"}

// Closed reports whether a directory of that name is listed without what is in it.
func Closed(name string) bool { return slices.Contains(metadata, name) }

// Order is that of the entries.
type Order string

// The orders.
const (
	// ByPath: directories before the rest, by name, each followed by what is in it.
	ByPath Order = "path"
	// Newest: those changed last come first.
	Newest Order = "modified"
)

// Options say what is listed.
type Options struct {
	Pattern *Pattern
	Order   Order
	Limit   int // how many entries are given, at least one
}

// Entry is one file, directory or other thing.
type Entry struct {
	Rel      string      // beneath the listed directory
	Type     fs.FileMode // the type bits
	Size     int64
	Modified time.Time
	Target   string // what a symbolic link says
	known    bool   // size and time are
}

// Line writes an entry for a model.
func (e *Entry) Line() string {
	return workspace.Entry{Name: e.Rel, Mode: e.Type, Size: e.Size, Modified: e.Modified, Target: e.Target}.Line()
}

// Listing is what was found.
type Listing struct {
	Entries []Entry
	// Total counts the entries that there are, given or not.
	Total int
	// GivenUp: there were too many to look at all of them; Total is what was seen.
	GivenUp bool
	// Closed are the directories that were not gone into.
	Closed []string
}

// How many entries are looked at on the disk: in a tree, and in one directory.
const (
	maxExamined = 1_000_000
	maxInOne    = 100_000
)

var errTooMany = errors.New("listing: too many entries")

// Directory lists one directory as it is on the disk.
func Directory(ctx context.Context, s walk.Start, o Options, hidden bool, skipped *walk.Skipped) (*Listing, error) {
	entries, more, err := read(ctx, s.Dir, maxInOne)
	if err != nil {
		return nil, err
	}
	c := collection{o: o, out: Listing{GivenUp: more}}
	for _, e := range entries {
		if !hidden && walk.IsHidden(e.Name()) {
			skipped.Hidden.Add(1)
			continue
		}
		c.add(Entry{Rel: e.Name(), Type: e.Type()})
	}
	c.out.Closed = nil // nothing is gone into
	return c.listing(ctx, s)
}

// read reads the entries of a directory, most at most, in no order. It reports whether there
// are more.
func read(ctx context.Context, dir *os.File, most int) (entries []fs.DirEntry, more bool, err error) {
	again, err := walk.OpenDir(dir, ".") // to be read from its beginning
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = again.Close() }()
	const batch = 1024
	for ctx.Err() == nil {
		some, err := again.ReadDir(min(batch, most-len(entries)+1))
		entries = append(entries, some...)
		switch {
		case errors.Is(err, io.EOF):
			return entries, false, nil
		case err != nil:
			return nil, false, err
		case len(entries) > most:
			return entries[:most], true, nil
		}
	}
	return nil, false, ctx.Err()
}

// Tree lists what is in a directory and in those beneath it, as it is on the disk. The
// options of the walk have [Closed].
func Tree(ctx context.Context, s walk.Start, w walk.Options, o Options, skipped *walk.Skipped) (*Listing, error) {
	c := collection{o: o}
	if err := c.walk(ctx, s, w, skipped); err != nil {
		return nil, err
	}
	return c.listing(ctx, s)
}

// Indexed does the same in a tree that is known, with the options of a walk that the
// snapshot was taken for. What it gives does not need the snapshot, and is not complete: see
// [Pending.Listing].
func Indexed(ctx context.Context, s *index.Snapshot, w walk.Options, o Options, skipped *walk.Skipped) (*Pending, error) {
	p := &Pending{collection{o: o}}
	skipped.Add(s.Counts().NotWanted)
	s.Each(func(_ int, i index.Item) {
		e := Entry{Rel: i.Rel(), Type: i.Type()}
		if info, ok := i.KnownInfo(); ok {
			e.Size, e.Modified, e.known = info.Size, info.Modified, true
		}
		p.add(e)
	})
	err := s.Trees(func(start walk.Start) error { return p.walk(ctx, start, w, skipped) }, skipped.Count)
	return p, cmp.Or(err, ctx.Err())
}

// Pending is a listing whose entries are still to be looked up.
type Pending struct{ collection }

// Listing looks up what is given of them.
func (p *Pending) Listing(ctx context.Context, s walk.Start) (*Listing, error) {
	return p.listing(ctx, s)
}

// collection gathers entries, in any order.
type collection struct {
	o       Options
	mu      sync.Mutex
	seen    int
	entries []Entry
	// last is the entry after which none is wanted, once that is known.
	last    Entry
	hasLast bool
	out     Listing
}

func (c *collection) add(e Entry) {
	matches := c.o.Pattern.matches(e.Rel)
	closed := e.Type.IsDir() && Closed(path.Base(e.Rel))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	if matches {
		c.out.Total++
		c.keep(e)
	}
	if closed {
		c.out.Closed = append(c.out.Closed, e.Rel)
	}
}

// keep keeps an entry, unless enough come before it.
func (c *collection) keep(e Entry) {
	if c.hasLast && comparePaths(&e, &c.last) > 0 {
		return
	}
	c.entries = append(c.entries, e)
	const slack = 512
	if c.o.Order != Newest && len(c.entries) > 2*c.o.Limit+slack {
		slices.SortFunc(c.entries, func(a, b Entry) int { return comparePaths(&a, &b) })
		c.entries = c.entries[:c.o.Limit]
		c.last, c.hasLast = c.entries[c.o.Limit-1], true
	}
}

func (c *collection) walk(ctx context.Context, s walk.Start, w walk.Options, skipped *walk.Skipped) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := walk.Walk(ctx, s, w, skipped, func(_ int, d *walk.Dir, e walk.Entry) {
		found := Entry{Rel: d.Rel(e.Name), Type: e.Type}
		if c.o.Order == Newest && c.o.Pattern.matches(found.Rel) {
			info, err := d.Stat(e.Name)
			if err != nil {
				return
			}
			found.Size, found.Modified, found.known = info.Size, info.Modified, true
		}
		c.add(found)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.seen > maxExamined {
			c.out.GivenUp = true
			stop(errTooMany)
		}
	})
	if errors.Is(context.Cause(ctx), errTooMany) {
		return nil
	}
	return err
}

// listing puts the entries in order and looks up those that are given.
func (c *collection) listing(ctx context.Context, s walk.Start) (*Listing, error) {
	at := looker{start: s.Dir}
	defer at.close()
	compare := func(a, b Entry) int { return comparePaths(&a, &b) }
	if c.o.Order == Newest {
		compare = func(a, b Entry) int {
			return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(a.Rel, b.Rel))
		}
		kept := c.entries[:0]
		for _, e := range c.entries {
			if e.known || at.complete(&e) {
				kept = append(kept, e)
			} else {
				c.out.Total--
			}
		}
		c.entries = kept
	}
	slices.SortFunc(c.entries, compare)
	slices.Sort(c.out.Closed)
	for i := range c.entries {
		if len(c.out.Entries) == c.o.Limit || ctx.Err() != nil {
			break
		}
		e := c.entries[i]
		if !at.complete(&e) { // gone by now
			c.out.Total--
			continue
		}
		c.out.Entries = append(c.out.Entries, e)
	}
	return &c.out, ctx.Err()
}

// comparePaths compares paths element by element, directories first.
func comparePaths(a, b *Entry) int {
	x, y := a.Rel, b.Rel
	for {
		xName, xRest, xMore := strings.Cut(x, "/")
		yName, yRest, yMore := strings.Cut(y, "/")
		if xName != yName {
			if xDir, yDir := xMore || a.Type.IsDir(), yMore || b.Type.IsDir(); xDir != yDir {
				if xDir {
					return -1
				}
				return 1
			}
			return strings.Compare(xName, yName)
		}
		if !xMore || !yMore {
			return len(x) - len(y)
		}
		x, y = xRest, yRest
	}
}

// looker looks entries up, with the directory of the last one open.
type looker struct {
	start *os.File
	rel   string
	dir   *os.File
}

func (l *looker) close() {
	if l.dir != nil {
		_ = l.dir.Close()
	}
}

// complete finds out what is not known of an entry. It reports whether it is there.
func (l *looker) complete(e *Entry) bool {
	link := e.Type&fs.ModeSymlink != 0
	if e.known && !link {
		return true
	}
	rel := path.Dir(e.Rel)
	if l.dir == nil || l.rel != rel {
		l.close()
		var err error
		if l.dir, err = walk.OpenDir(l.start, rel); err != nil {
			l.dir = nil
			return !gone(err)
		}
		l.rel = rel
	}
	name := path.Base(e.Rel)
	info, err := walk.Stat(l.dir, rel, name)
	if err != nil {
		return !gone(err)
	}
	e.Size, e.Modified, e.known = info.Size, info.Modified, true
	if link {
		e.Target, _ = walk.Readlink(l.dir, name)
	}
	return true
}

// gone reports whether an error says that there is nothing at a path: by now its directory may be
// a file or a link.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
