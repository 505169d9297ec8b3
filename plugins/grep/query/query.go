// Package query implements the search of a tree. It walks the tree, searches several files at a
// time, and puts the results in the order of the paths.
package query

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/pattern"
	"toolhost.dev/plugins/grep/search"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

// Query is what to search for and how much to return.
type Query struct {
	Pattern *pattern.Pattern
	Search  search.Options
	// Offset is the number of results to skip, and Limit the number to return. Results are matches, or files if only
	// files were requested. A Limit of 0 returns all.
	Offset, Limit int
	// Searched counts the files searched so far. It may be nil.
	Searched *atomic.Int64
	// Time limits the duration of the search; 0 means no limit. After it, the answer contains what was found so far.
	Time time.Duration
}

// Answer is the result of a query.
type Answer struct {
	// Files are the files with something to show, in order.
	Files []File
	// Total is the number of matches, or of files if only files were requested.
	Total int
	// Matched is the number of files with a match, and Searched the number of all searched files.
	Matched, Searched int
	// Given is the number of results in Files. It is less than requested if they would take too much memory.
	Given   int
	Skipped Skipped
	// Stopped means that the time was over. StoppedAt is approximately the last file searched, because files are
	// searched concurrently.
	Stopped   bool
	StoppedAt string
}

// File is a file with matches.
type File struct {
	Path    string
	Matches int
	// Groups are the matches to show.
	Groups []Group
	// Binary is the offset of a NUL byte, or negative if there is none. Hidden means that the matches are not shown
	// because of it.
	Binary int64
	Hidden bool
}

// Skipped counts the files and directories that were not searched, by reason.
type Skipped struct {
	Ignored    int `json:"ignored"`    // by an ignore rule; a directory counts as one
	Hidden     int `json:"hidden"`     // by a name that begins with a dot
	Binary     int `json:"binary"`     // not text: searched up to a NUL byte at most
	TooLarge   int `json:"too_large"`  // too large to search across lines, or with a line that is too long
	Permission int `json:"permission"` // no permission to read
	Special    int `json:"special"`    // FIFOs, sockets and devices
	Symlink    int `json:"symlink"`    // symbolic links are not followed
	Failed     int `json:"failed"`     // reading failed
}

// run is one pass over the files of a query.
type run struct {
	q         *Query
	ctx       context.Context
	searchers []*search.Searcher
	// windows returns the window of matches wanted from a file.
	windows   func(path string) search.Window
	collected collection
	searched  atomic.Int64
	reached   atomic.Int64 // indexed texts that were searched
	walked    walk.Skipped
	// at is the last file of each worker.
	at []spot

	binary, tooLarge, permission, special, symlink, failed atomic.Int64
}

func newRun(ctx context.Context, q *Query, workers int) *run {
	return &run{q: q, ctx: ctx, searchers: make([]*search.Searcher, workers), at: make([]spot, workers)}
}

// end returns the number after that of the last requested result.
func (q *Query) end() int {
	if q.Limit <= 0 {
		return math.MaxInt
	}
	return q.Offset + q.Limit
}

// Tree searches the files of a tree on disk.
func (q *Query) Tree(ctx context.Context, start walk.Start, o walk.Options) (*Answer, error) {
	return q.tree(ctx, func(r *run, only map[string]search.Window) error { return r.walk(start, o, only) })
}

// Indexed searches the files of an indexed tree. The snapshot must have been taken for the options o.
func (q *Query) Indexed(ctx context.Context, s *index.Snapshot, o walk.Options) (*Answer, error) {
	return q.tree(ctx, func(r *run, only map[string]search.Window) error { return r.indexed(s, o, only) })
}

// tree searches a tree in one or two passes. pass searches the files, or only those in only if it is not nil.
func (q *Query) tree(ctx context.Context, pass func(r *run, only map[string]search.Window) error) (*Answer, error) {
	twice := q.Search.Mode == search.Lines && q.Offset > 0
	wanted := func(string) search.Window { return search.Window{To: q.end()} }
	if twice {
		// There can be any number of matches before the page. The first pass only counts matches, and the second pass
		// searches the files of the page again.
		wanted = func(string) search.Window { return search.Window{} }
	}
	r, stopped, err := q.pass(ctx, wanted, q.end(), nil, pass)
	if err != nil {
		return nil, err
	}
	a := r.answer()
	if a.Stopped = stopped; stopped {
		a.StoppedAt = r.last()
	}
	if twice {
		only := r.collected.windows(q.Offset, q.end())
		if r, _, err = q.pass(ctx, func(path string) search.Window { return only[path] }, math.MaxInt, only, pass); err != nil {
			return nil, err
		}
	}
	r.page(a)
	return a, nil
}

// pass searches the files once. stopped reports whether the time was over before the end.
func (q *Query) pass(ctx context.Context, windows func(string) search.Window, limit int, only map[string]search.Window,
	do func(*run, map[string]search.Window) error,
) (r *run, stopped bool, err error) {
	within := ctx
	if q.Time > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, q.Time)
		defer cancel()
	}
	r = newRun(within, q, workers.Number())
	r.windows, r.collected.limit = windows, limit
	if err = do(r, only); err != nil && within.Err() != nil && ctx.Err() == nil {
		return r, true, nil
	}
	return r, false, err
}

// last returns the last file, in the order of paths, that was being searched.
func (r *run) last() string { return slices.MaxFunc(r.at, spot.compare).path }

// walk searches the files of a tree on disk. If only is not nil, it searches only the files in it.
func (r *run) walk(start walk.Start, o walk.Options, only map[string]search.Window) error {
	return walk.Walk(r.ctx, start, o, &r.walked, func(worker int, d *walk.Dir, e walk.Entry) {
		switch {
		case e.Type.IsRegular():
			if _, ok := only[d.Shown(e.Name)]; ok || only == nil {
				r.open(worker, d, e.Name)
			}
		case e.Type&fs.ModeSymlink != 0:
			r.symlink.Add(1)
		case !e.Type.IsDir():
			r.special.Add(1)
		}
	})
}

// File searches a single file that the caller has named and opened.
func (q *Query) File(ctx context.Context, f io.Reader, size int64, shown string) (*Answer, error) {
	r := newRun(ctx, q, 1)
	r.windows = func(string) search.Window { return search.Window{From: q.Offset, To: q.end()} }
	r.collected.limit = math.MaxInt
	r.search(0, search.File{Reader: f, Size: size, Explicit: true}, spot{path: shown})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := r.answer()
	r.page(a)
	return a, nil
}

// page adds the requested results to an answer.
func (r *run) page(a *Answer) {
	if r.q.Search.Mode == search.Lines {
		r.collected.lines(a, r.q.Limit, r.q.Search)
	} else {
		r.collected.numbers(a, r.q.Offset, r.q.end())
	}
}

func (r *run) open(worker int, d *walk.Dir, name string) {
	f, err := d.Open(name)
	r.opened(worker, f, err, spot{path: d.Shown(name)})
}

// opened searches an opened file, or counts why it could not be opened.
func (r *run) opened(worker int, f *walk.File, err error, at spot) {
	if err != nil {
		r.fail(err)
		return
	}
	defer func() { _ = f.Close() }()
	r.search(worker, search.File{Reader: f, Size: f.Size()}, at)
}

func (r *run) fail(err error) {
	switch {
	case errors.Is(err, os.ErrNotExist): // it was removed meanwhile, so it does not count
	case errors.Is(err, os.ErrPermission):
		r.permission.Add(1)
	case errors.Is(err, os.ErrInvalid): // it was replaced by something that is not a regular file
		r.special.Add(1)
	case errors.Is(err, search.ErrTooLarge), errors.Is(err, search.ErrLongLine):
		r.tooLarge.Add(1)
	case r.ctx.Err() == nil:
		r.failed.Add(1)
	}
}

func (r *run) search(worker int, f search.File, at spot) {
	w, keep := r.window(at)
	r.at[worker] = at
	res, err := r.searcher(worker).Search(f, keep)
	if err != nil {
		r.fail(err)
	} else {
		r.searched.Add(1)
	}
	if r.q.Searched != nil {
		r.q.Searched.Add(1)
	}
	r.found(worker, at, res, w, f.Explicit)
}

func (r *run) searcher(worker int) *search.Searcher {
	s := r.searchers[worker]
	if s == nil {
		s = search.New(r.ctx, r.q.Pattern, r.q.Search)
		r.searchers[worker] = s
	}
	return s
}

// window returns the matches wanted from a file, and those whose lines to keep. It keeps none if files before it have
// enough.
func (r *run) window(at spot) (wanted, keep search.Window) {
	wanted = r.windows(at.path)
	if r.collected.beyond(at) {
		return wanted, search.Window{}
	}
	return wanted, wanted
}

// found adds the result of a file.
func (r *run) found(worker int, at spot, res search.Result, w search.Window, explicit bool) {
	matched := res.Matches > 0 || res.BinaryMatch
	if res.Binary >= 0 && (!explicit || matched && r.q.Search.Mode == search.Lines) {
		r.binary.Add(1)
	}
	if matched {
		r.collected.add(worker, found{spot: at, Result: res, wanted: max(0, min(res.Matches, w.To)-w.From)})
	}
}

func (r *run) answer() *Answer {
	r.collected.sort()
	a := &Answer{Searched: int(r.searched.Load()), Matched: len(r.collected.files)}
	a.Total = a.Matched
	if r.q.Search.Mode != search.First {
		a.Total = r.collected.matches()
	}
	count := func(n ...*atomic.Int64) (sum int) {
		for _, x := range n {
			sum += int(x.Load())
		}
		return sum
	}
	a.Skipped = Skipped{
		Ignored: count(&r.walked.Ignored), Hidden: count(&r.walked.Hidden), Binary: count(&r.binary), TooLarge: count(&r.tooLarge),
		Permission: count(&r.permission, &r.walked.Permission), Special: count(&r.special), Symlink: count(&r.symlink),
		Failed: count(&r.failed, &r.walked.Failed),
	}
	return a
}
