// Package listing lists the entries of a directory or a tree in order, including directories.
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

// Pattern is a glob that selects entries. A glob with a slash matches paths relative to the listed directory. A glob
// without a slash matches names. A glob that begins with "!" omits matching entries and all entries below them.
type Pattern struct {
	glob  *glob.Glob
	paths bool
	not   bool
}

// Parse parses a glob. If text is empty, Parse returns a nil Pattern, which matches all entries. Every error is a
// [*glob.Error].
func Parse(text string) (*Pattern, error) {
	if text == "" {
		return nil, nil
	}
	text, not := strings.CutPrefix(text, "!")
	g, err := glob.Parse(text, glob.Options{Shell: true})
	return &Pattern{not: not, glob: g, paths: strings.Contains(text, "/")}, err
}

// Deep reports whether the pattern matches paths instead of names.
func (p *Pattern) Deep() bool { return p != nil && p.paths && !p.not }

func (p *Pattern) matches(rel string) bool {
	switch {
	case p == nil:
		return true
	case p.not:
		for ; rel != "." && rel != "/"; rel = path.Dir(rel) {
			if p.glob.Match(path.Base(rel)) || p.paths && p.glob.Match(rel) {
				return false
			}
		}
		return true
	case p.paths:
		return p.glob.Match(rel)
	}
	return p.glob.Match(path.Base(rel))
}

// This list contains the directories of version control systems. A listing contains such a directory without its
// contents, unless the caller lists the directory itself.
var metadata = []string{".git", ".hg", ".svn", ".jj"}

// Closed reports whether a listing contains a directory with the given name without its contents.
func Closed(name string) bool { return slices.Contains(metadata, name) }

// Order is the sort order of the entries.
type Order string

// The values of [Order].
const (
	// ByPath sorts by path, directories first. The contents of a directory directly follow the directory.
	ByPath Order = "path"
	// Newest sorts by modification time, the newest entry first.
	Newest Order = "modified"
)

// Options select and order the entries of a listing.
type Options struct {
	Pattern *Pattern
	Order   Order
	Limit   int // maximum number of returned entries, at least one
}

// Entry is one listed file, directory, link or special file.
type Entry struct {
	Rel      string      // path of the entry, relative to the listed directory
	Type     fs.FileMode // type bits of the file mode
	Size     int64
	Modified time.Time
	Target   string // target of a symbolic link
	known    bool   // true if Size and Modified are set
}

// Line formats an entry as one line for a language model.
func (e *Entry) Line() string {
	return workspace.Entry{Name: e.Rel, Mode: e.Type, Size: e.Size, Modified: e.Modified, Target: e.Target}.Line()
}

// Listing is the result of listing a directory.
type Listing struct {
	Entries []Entry
	// Total is the number of all matching entries, including entries beyond the limit.
	Total int
	// GivenUp is true if the directory has too many entries to examine all of them. In this case, Total counts only
	// matches among the examined entries.
	GivenUp bool
	// Closed lists the directories whose contents were omitted; see the function [Closed].
	Closed []string
}

// The following limits are the maximum numbers of entries that are examined on disk, in a tree and in one directory.
const (
	maxExamined = 1_000_000
	maxInOne    = 100_000
)

var errTooMany = errors.New("listing: too many entries")

// Directory lists the entries of one directory, which it reads from disk.
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
	c.out.Closed = nil // subdirectories are never listed here, so the field Closed is not useful
	return c.listing(ctx, s)
}

// read reads a limited number of entries of a directory, unsorted. The result "more" is true if the directory has
// further entries.
func read(ctx context.Context, dir *os.File, most int) (entries []fs.DirEntry, more bool, err error) {
	again, err := walk.OpenDir(dir, ".") // a new file descriptor starts reading at the first entry
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

// Tree lists all entries below a directory, which it reads from disk. The field Closed of w must be the function
// [Closed].
func Tree(ctx context.Context, s walk.Start, w walk.Options, o Options, skipped *walk.Skipped) (*Listing, error) {
	c := collection{o: o}
	if err := c.walk(ctx, s, w, skipped); err != nil {
		return nil, err
	}
	return c.listing(ctx, s)
}

// Indexed lists a tree from a snapshot of its index. The snapshot must match the options w. The result does not
// refer to the snapshot. Call [Pending.Listing] to get sizes and times.
func Indexed(ctx context.Context, s *index.Snapshot, w walk.Options, o Options,
	skipped *walk.Skipped) (*Pending, error) {
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

// Pending is a listing of entries whose sizes and times are not known yet.
type Pending struct{ collection }

// Listing looks up sizes and times of the entries within the limit and returns the completed listing.
func (p *Pending) Listing(ctx context.Context, s walk.Start) (*Listing, error) {
	return p.listing(ctx, s)
}

// collection collects entries that are added in any order.
type collection struct {
	o       Options
	mu      sync.Mutex
	seen    int
	entries []Entry
	// last is the last entry within the limit. Entries that sort after last are dropped. The field is valid only if
	// hasLast is true.
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

// keep adds an entry to the collection. It drops the entry if the limit is reached and all kept entries sort before
// the entry.
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

// listing sorts the entries. It looks up the sizes and times of the entries within the limit.
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
		if !at.complete(&e) { // another process removed the entry
			c.out.Total--
			continue
		}
		c.out.Entries = append(c.out.Entries, e)
	}
	return &c.out, ctx.Err()
}

// comparePaths compares paths element by element. Directories precede files.
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

// looker looks up the metadata of entries. It keeps the directory of the last entry open, because the next entry is
// often in the same directory.
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

// complete adds missing metadata to an entry. It reports whether the entry still exists.
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

// gone reports whether an error means that a path does not exist. This includes the error for a path whose
// directory was replaced by a file or a link.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}
