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

// Pattern is a glob. It matches names or, if it contains a slash, paths relative to the listed directory.
type Pattern struct {
	glob  *glob.Glob
	paths bool
}

// Parse parses a glob. For "" it returns nil, which matches everything. The error is a [*glob.Error].
func Parse(text string) (*Pattern, error) {
	if text == "" {
		return nil, nil
	}
	g, err := glob.Parse(text, glob.Options{Shell: true})
	return &Pattern{glob: g, paths: strings.Contains(text, "/")}, err
}

// Deep reports whether the pattern matches paths.
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

// metadata are the directories of version control systems. They are listed, but their contents only if the call lists
// such a directory itself.
var metadata = []string{".git", ".hg", ".svn", ".jj"}

// Closed reports whether a directory of that name is listed without its contents.
func Closed(name string) bool { return slices.Contains(metadata, name) }

// Order is the order of the entries.
type Order string

// The orders.
const (
	// ByPath sorts by name, directories first. The contents of a directory follow it.
	ByPath Order = "path"
	// Newest sorts by modification time, the newest entry first.
	Newest Order = "modified"
)

// Options select what is listed.
type Options struct {
	Pattern *Pattern
	Order   Order
	Limit   int // maximal number of returned entries, at least one
}

// Entry is a file, a directory or another kind of entry.
type Entry struct {
	Rel      string      // relative to the listed directory
	Type     fs.FileMode // the type bits
	Size     int64
	Modified time.Time
	Target   string // of a symbolic link
	known    bool   // Size and Modified are set
}

// Line formats an entry for a model.
func (e *Entry) Line() string {
	return workspace.Entry{Name: e.Rel, Mode: e.Type, Size: e.Size, Modified: e.Modified, Target: e.Target}.Line()
}

// Listing is the result of listing a directory.
type Listing struct {
	Entries []Entry
	// Total counts all matching entries, returned or not.
	Total int
	// GivenUp means that there were too many entries to examine. Total then counts only the examined ones.
	GivenUp bool
	// Closed are the directories whose contents are not listed.
	Closed []string
}

// Limits on the entries examined on disk: in a tree, and in one directory.
const (
	maxExamined = 1_000_000
	maxInOne    = 100_000
)

var errTooMany = errors.New("listing: too many entries")

// Directory lists one directory by reading it.
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
	c.out.Closed = nil // the contents of no directory are listed
	return c.listing(ctx, s)
}

// read reads at most most entries of a directory, in no order. more reports whether there are more.
func read(ctx context.Context, dir *os.File, most int) (entries []fs.DirEntry, more bool, err error) {
	again, err := walk.OpenDir(dir, ".") // a new descriptor, to read from the beginning
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

// Tree lists a directory and everything below it by reading the disk. The Closed option of w must be [Closed].
func Tree(ctx context.Context, s walk.Start, w walk.Options, o Options, skipped *walk.Skipped) (*Listing, error) {
	c := collection{o: o}
	if err := c.walk(ctx, s, w, skipped); err != nil {
		return nil, err
	}
	return c.listing(ctx, s)
}

// Indexed lists a tree from a snapshot of its index, which must have been taken for the options w. The result does not
// refer to the snapshot. [Pending.Listing] completes it.
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

// Pending is a listing whose entries still lack sizes and times.
type Pending struct{ collection }

// Listing looks up the entries to return and returns the listing.
func (p *Pending) Listing(ctx context.Context, s walk.Start) (*Listing, error) {
	return p.listing(ctx, s)
}

// collection collects entries, in any order.
type collection struct {
	o       Options
	mu      sync.Mutex
	seen    int
	entries []Entry
	// last is the last entry that may be returned, once it is known.
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

// keep adds an entry, unless enough others sort before it.
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

// listing sorts the entries and looks up those to return.
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
		if !at.complete(&e) { // removed meanwhile
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

// looker looks up entries. It keeps the directory of the last entry open.
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

// complete looks up what is unknown of an entry. It reports whether the entry exists.
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

// gone reports whether an error means that nothing exists at a path. The directory of the path may be a file or a link
// meanwhile.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
