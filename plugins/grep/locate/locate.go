// Package locate finds the files of a tree whose paths match a glob.
package locate

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/plugins/grep/glob"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk/workspace"
)

// Pattern is a glob that matches paths below a directory.
type Pattern struct {
	glob *glob.Glob
	// dirs is true if the pattern matches only directories. The glob of such a pattern ends with a slash.
	dirs   bool
	dotted []*glob.Glob // the elements of the glob that begin with a dot
	// elements is the text of the elements in dotted.
	elements string
}

// Parse parses a glob such as "*.go", "src/**/*.{ts,tsx}" or "**/testdata/". Every error is a [*glob.Error].
func Parse(text string) (*Pattern, error) {
	p := &Pattern{}
	text, p.dirs = strings.CutSuffix(text, "/")
	var err error
	if p.glob, err = glob.Parse(text, glob.Options{Shell: true}); err != nil {
		return nil, err
	}
	for element := range strings.SplitSeq(text, "/") {
		if !strings.HasPrefix(element, ".") && !strings.Contains(element, "{.") && !strings.Contains(element, ",.") {
			continue
		}
		if g, err := glob.Parse(element, glob.Options{Shell: true}); err == nil {
			p.dotted = append(p.dotted, g)
			p.elements += element + "/"
		}
	}
	return p, nil
}

// Dotted reports whether a hidden name matches an element of the pattern that begins with a dot. The search includes
// such names.
func (p *Pattern) Dotted(name string) bool {
	return slices.ContainsFunc(p.dotted, func(g *glob.Glob) bool { return g.Match(name) })
}

// DottedElements returns the elements of the pattern that begin with a dot. If two patterns have equal elements, their
// methods [Pattern.Dotted] return the same results.
func (p *Pattern) DottedElements() string { return p.elements }

// Split splits a glob into a literal directory and the remaining glob. The directory is empty if the first element
// of the glob is not literal.
func Split(text string) (dir, rest string) {
	end := strings.IndexAny(text, `*?[{\`)
	if end < 0 { // the text is a plain path, so its last element becomes the glob
		end = len(strings.TrimSuffix(text, "/"))
	}
	end = strings.LastIndexByte(text[:end], '/') + 1
	return text[:end], text[end:]
}

// File is a file that was found. It can have any type.
type File struct {
	Path     string // absolute path
	Shown    string
	Type     string // one of "file", "directory", "symlink", "fifo", "socket" and "device"
	Size     int64
	Modified time.Time
}

// Found is the result of a search. The newest file comes first.
type Found struct {
	Files []File
	// Total is the number of all matching files. Seen is the number of all examined files.
	Total, Seen int
}

// Find searches a tree for matching files. It sorts them by time, the newest first. It skips the number of files in the
// argument "offset" and returns at most the number of files in the argument "limit". If the limit is 0, it returns all
// files. The error is the error of [walk.Walk].
func (p *Pattern) Find(ctx context.Context, start walk.Start, o walk.Options, skipped *walk.Skipped, offset,
	limit int) (*Found, error) {
	c := newCollection(offset, limit)
	if err := p.walk(ctx, c, start, o, skipped); err != nil {
		return nil, err
	}
	return c.page(offset), nil
}

// FindIndexed works like Find on an indexed tree. The snapshot must match the options o. The field Dotted of o must
// be [Pattern.Dotted].
func (p *Pattern) FindIndexed(ctx context.Context, s *index.Snapshot, o walk.Options, skipped *walk.Skipped, offset,
	limit int) (*Found, error) {
	c := newCollection(offset, limit)
	counts := s.Counts()
	skipped.Add(counts.NotWanted)
	c.found.Seen = counts.Files
	s.Each(func(_ int, i index.Item) {
		isDir := i.Type().IsDir()
		if isDir && p.dirs {
			c.saw()
		}
		if isDir != p.dirs || !p.glob.Match(i.Rel()) {
			return
		}
		info, err := i.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		c.add(File{
			Path: i.Path(), Shown: i.Shown(), Type: workspace.TypeName(i.Type()), Size: info.Size,
			Modified: info.Modified,
		})
	})
	err := s.Trees(func(start walk.Start) error { return p.walk(ctx, c, start, o, skipped) }, skipped.Count)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	return c.page(offset), nil
}

func (p *Pattern) walk(ctx context.Context, c *collection, start walk.Start, o walk.Options,
	skipped *walk.Skipped) error {
	o.Dotted = p.Dotted
	return walk.Walk(ctx, start, o, skipped, func(_ int, d *walk.Dir, e walk.Entry) {
		isDir := e.Type.IsDir()
		if !isDir || p.dirs {
			c.saw()
		}
		if isDir != p.dirs || !p.glob.Match(d.Rel(e.Name)) {
			return
		}
		info, err := d.Stat(e.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		c.add(File{
			Path: d.Path(e.Name), Shown: d.Shown(e.Name), Type: workspace.TypeName(e.Type), Size: info.Size,
			Modified: info.Modified,
		})
	})
}

// collection collects files in any order and keeps the newest files.
type collection struct {
	most  int // maximum number of files to keep; 0 means no limit
	mu    sync.Mutex
	found Found
	// full is true if the collection has reached its limit. If it is true, the collection drops each file
	// that was modified before the time "oldest".
	full   bool
	oldest time.Time
}

func newCollection(offset, limit int) *collection {
	if limit <= 0 {
		return &collection{}
	}
	return &collection{most: offset + limit}
}

// page returns the kept files, newest first, without the first "offset" files.
func (c *collection) page(offset int) *Found {
	c.sort()
	c.found.Files = c.found.Files[min(offset, len(c.found.Files)):]
	return &c.found
}

func (c *collection) saw() {
	c.mu.Lock()
	c.found.Seen++
	c.mu.Unlock()
}

func (c *collection) add(f File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found.Total++
	if c.full && f.Modified.Before(c.oldest) {
		return
	}
	c.found.Files = append(c.found.Files, f)
	const slack = 512
	if c.most > 0 && len(c.found.Files) > 2*c.most+slack {
		c.sort()
	}
}

func (c *collection) sort() {
	slices.SortFunc(c.found.Files, func(a, b File) int {
		return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(a.Path, b.Path))
	})
	if c.most > 0 && len(c.found.Files) > c.most {
		c.found.Files = c.found.Files[:c.most]
		c.full, c.oldest = true, c.found.Files[c.most-1].Modified
	}
}
