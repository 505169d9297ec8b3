// Package query searches a tree for a pattern. It searches several files at a time and sorts the results by path.
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

// Query describes a search and the range of results to return.
type Query struct {
	Pattern *pattern.Pattern
	Search  search.Options
	// Offset is the number of results to skip. Limit is the maximum number of results to return; 0 means no limit. A
	// result is a match. If only files are requested, a result is a file.
	Offset, Limit int
	// Searched is incremented for each searched file. It can be nil.
	Searched *atomic.Int64
	// Time limits the duration of the search; 0 means no limit. After the limit, the answer contains the results
	// found so far.
	Time time.Duration
	// Without selects the files that contain no match.
	Without bool
	// Follow opens the target of the symbolic link with the given absolute path. If Follow is nil, links are not
	// followed.
	Follow func(link string) (*Target, error)
}

// Indexable reports whether an index can answer the query. An index finds only text files that can have a match.
func (q *Query) Indexable() bool {
	return !q.Without && q.Follow == nil && !q.Search.Invert && !q.Search.Text
}

// Answer is the result of a query.
type Answer struct {
	// Files lists the files with results in the requested range, in order.
	Files []File
	// Total is the number of all matches. If only files are requested, it is the number of all matching files.
	Total int
	// Matched is the number of files with a match. Searched is the number of all searched files.
	Matched, Searched int
	// Given is the number of results in Files. It is less than the requested number if the results are too large.
	Given   int
	Skipped Skipped
	// Stopped is true if the search reached its time limit before the end. StoppedAt is approximately the last
	// searched file. It is not exact, because files are searched concurrently.
	Stopped   bool
	StoppedAt string
}

// File is a matching file.
type File struct {
	Path    string
	Matches int
	// Groups contains the returned matches of the file.
	Groups []Group
	// Binary is the offset of a NUL byte in the file. It is negative if no NUL byte was found. Hidden is true if
	// matches are omitted because of the NUL byte.
	Binary int64
	Hidden bool
}

// Skipped counts the files and directories that were not searched, for each reason.
type Skipped struct {
	Ignored    int `json:"ignored"`    // excluded by an ignore rule; a directory counts as one
	Hidden     int `json:"hidden"`     // excluded because the name begins with a dot
	Binary     int `json:"binary"`     // binary files, which are searched at most up to the first NUL byte
	TooLarge   int `json:"too_large"`  // too large for a search across lines, or with a line that is too long
	Permission int `json:"permission"` // not readable because of missing permissions
	Special    int `json:"special"`    // FIFOs, sockets and devices
	Symlink    int `json:"symlink"`    // symbolic links, which are not followed
	Failed     int `json:"failed"`     // not readable for other reasons
}

// run holds the state of one pass over the files.
type run struct {
	q         *Query
	ctx       context.Context
	searchers []*search.Searcher
	// windows is a function that returns which matches of a file are requested.
	windows   func(path string) search.Window
	collected collection
	searched  atomic.Int64
	reached   atomic.Int64 // number of indexed files that were searched
	walked    walk.Skipped
	// The slice contains, for each worker, the file that the worker searched last.
	at []spot

	binary, tooLarge, permission, special, symlink, failed atomic.Int64
}

func newRun(ctx context.Context, q *Query, workers int) *run {
	return &run{q: q, ctx: ctx, searchers: make([]*search.Searcher, workers), at: make([]spot, workers)}
}

// end returns the number of the last requested result plus one.
func (q *Query) end() int {
	if q.Limit <= 0 {
		return math.MaxInt
	}
	return q.Offset + q.Limit
}

// Tree searches the files of a tree, which it reads from disk.
func (q *Query) Tree(ctx context.Context, start walk.Start, o walk.Options) (*Answer, error) {
	return q.tree(ctx, func(r *run, only map[string]search.Window) error { return r.walk(start, o, only) })
}

// Indexed searches the files of an indexed tree. The snapshot must match the options o.
func (q *Query) Indexed(ctx context.Context, s *index.Snapshot, o walk.Options) (*Answer, error) {
	return q.tree(ctx, func(r *run, only map[string]search.Window) error { return r.indexed(s, o, only) })
}

// tree searches a tree in one or two passes. A pass with a nil map searches all files. A pass with another map searches
// only the files in the map.
func (q *Query) tree(ctx context.Context, pass func(r *run, only map[string]search.Window) error) (*Answer, error) {
	twice := q.Search.Mode == search.Lines && q.Offset > 0
	wanted := func(string) search.Window { return search.Window{To: q.end()} }
	if twice {
		// The number of matches before the requested range is unknown. Therefore the first pass only counts matches.
		// The second pass searches the files with requested matches again.
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
		if r, _, err = q.pass(ctx, func(path string) search.Window { return only[path] }, math.MaxInt, only,
			pass); err != nil {
			return nil, err
		}
	}
	r.page(a)
	return a, nil
}

// pass searches the files once. The result "stopped" is true if the time limit was reached before the end.
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

// last returns the file that comes last in path order among the last files of all workers.
func (r *run) last() string { return slices.MaxFunc(r.at, spot.compare).path }

// walk searches the files of a tree, which it reads from disk. If only is nil, it searches all files. Otherwise it
// searches the files in the map.
func (r *run) walk(start walk.Start, o walk.Options, only map[string]search.Window) error {
	links := &links{}
	if err := r.walkOne(start, o, only, links); err != nil || r.q.Follow == nil {
		return err
	}
	return r.follow(o, only, links)
}

// walkOne searches the files of a tree. It does not follow symbolic links, but adds the links to the argument "links".
func (r *run) walkOne(start walk.Start, o walk.Options, only map[string]search.Window, links *links) error {
	return walk.Walk(r.ctx, start, o, &r.walked, func(worker int, d *walk.Dir, e walk.Entry) {
		switch {
		case e.Type.IsRegular():
			if _, ok := only[d.Shown(e.Name)]; ok || only == nil {
				r.open(worker, d, e.Name)
			}
		case e.Type&fs.ModeSymlink != 0 && r.q.Follow != nil:
			links.add(link{path: d.Path(e.Name), shown: d.Shown(e.Name), within: start.Path})
		case e.Type&fs.ModeSymlink != 0:
			r.symlink.Add(1)
		case !e.Type.IsDir():
			r.special.Add(1)
		}
	})
}

// File searches a single file, which the caller has named and opened.
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

// page adds the requested range of results to an answer.
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

// opened searches an opened file. If the file could not be opened, the method counts the reason.
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
	case errors.Is(err, os.ErrNotExist): // ignore a file that was removed during the search
	case errors.Is(err, os.ErrPermission):
		r.permission.Add(1)
	case errors.Is(err, os.ErrInvalid): // the file was replaced by an entry that is not a regular file
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
	if r.q.Without {
		res = res.Inverted(err)
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

// window returns the range of the requested matches of a file and the range of the matches whose lines must be kept. If
// earlier files have enough matches, the second range is empty.
func (r *run) window(at spot) (wanted, keep search.Window) {
	wanted = r.windows(at.path)
	if r.collected.beyond(at) {
		return wanted, search.Window{}
	}
	return wanted, wanted
}

// found adds the search result of one file.
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
		Ignored: count(&r.walked.Ignored), Hidden: count(&r.walked.Hidden), Binary: count(&r.binary),
		TooLarge:   count(&r.tooLarge),
		Permission: count(&r.permission, &r.walked.Permission), Special: count(&r.special), Symlink: count(&r.symlink),
		Failed: count(&r.failed, &r.walked.Failed),
	}
	return a
}
