// Package locate implements the search for files of a tree by their names.
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
	// dirs means that only directories match, because the glob ends in a slash.
	dirs   bool
	dotted []*glob.Glob // elements of the glob that begin with a dot
	// elements is the text of these elements.
	elements string
}

// Parse parses a glob such as "*.go", "src/**/*.{ts,tsx}" or "**/testdata/". The error is a [*glob.Error].
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

// Dotted reports whether an element of the pattern that begins with a dot matches the name. Such names match although
// they are hidden.
func (p *Pattern) Dotted(name string) bool {
	return slices.ContainsFunc(p.dotted, func(g *glob.Glob) bool { return g.Match(name) })
}

// DottedElements returns the elements of the pattern that begin with a dot. Patterns with equal elements have the same
// [Pattern.Dotted].
func (p *Pattern) DottedElements() string { return p.elements }

// Split splits a glob into the literal directory it begins with and the remaining glob. The directory may be "".
func Split(text string) (dir, rest string) {
	end := strings.IndexAny(text, `*?[{\`)
	if end < 0 { // not a glob: the last element is the pattern
		end = len(strings.TrimSuffix(text, "/"))
	}
	end = strings.LastIndexByte(text[:end], '/') + 1
	return text[:end], text[end:]
}

// File is a file that was found.
type File struct {
	Path     string // absolute
	Shown    string
	Type     string // file, directory, symlink, fifo, socket or device
	Size     int64
	Modified time.Time
}

// Found is the list of files with a matching path, the newest first.
type Found struct {
	Files []File
	// Total is the number of all matching files, and Seen the number of all examined files.
	Total, Seen int
}

// Find searches a tree for files. It skips the first offset files and returns at most limit; a limit of 0 returns all.
// The error is that of [walk.Walk].
func (p *Pattern) Find(ctx context.Context, start walk.Start, o walk.Options, skipped *walk.Skipped, offset, limit int) (*Found, error) {
	c := newCollection(offset, limit)
	if err := p.walk(ctx, c, start, o, skipped); err != nil {
		return nil, err
	}
	return c.page(offset), nil
}

// FindIndexed is Find for an indexed tree. The snapshot must have been taken for the options o with [Pattern.Dotted] as
// Dotted.
func (p *Pattern) FindIndexed(ctx context.Context, s *index.Snapshot, o walk.Options, skipped *walk.Skipped, offset, limit int) (*Found, error) {
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
		c.add(File{Path: i.Path(), Shown: i.Shown(), Type: workspace.TypeName(i.Type()), Size: info.Size, Modified: info.Modified})
	})
	err := s.Trees(func(start walk.Start) error { return p.walk(ctx, c, start, o, skipped) }, skipped.Count)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	return c.page(offset), nil
}

func (p *Pattern) walk(ctx context.Context, c *collection, start walk.Start, o walk.Options, skipped *walk.Skipped) error {
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
		c.add(File{Path: d.Path(e.Name), Shown: d.Shown(e.Name), Type: workspace.TypeName(e.Type), Size: info.Size, Modified: info.Modified})
	})
}

// collection collects files and keeps the newest.
type collection struct {
	most  int // how many to keep; 0 keeps all
	mu    sync.Mutex
	found Found
	// full means that there are enough files, so files older than oldest are dropped.
	full   bool
	oldest time.Time
}

func newCollection(offset, limit int) *collection {
	if limit <= 0 {
		return &collection{}
	}
	return &collection{most: offset + limit}
}

// page returns the files after the first offset ones.
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
