// Package definition searches a tree for declarations of a name. It parses the files that can declare the name and
// caches their declarations for later queries.
package definition

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/outline"
	"toolhost.dev/plugins/grep/search"
	"toolhost.dev/plugins/grep/symbol"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

// Query describes a search for declarations and the range of results to return.
type Query struct {
	Names    *symbol.Query
	Group    symbol.Group
	Language outline.Language // "" means any
	// Offset is the number of matches to skip. Limit is the maximum number of matches to return; 0 means no limit.
	Offset, Limit int
	// Context is the number of lines to return before and after the line that contains the name.
	Context int
	// Time limits the duration of the search; 0 means no limit. After the limit, the search returns the matches
	// found so far.
	Time time.Duration
	// Parsed counts the files that the query parsed.
	Parsed atomic.Int64
}

// Source holds the resources that all queries share.
type Source struct {
	Outliner *outline.Outliner
	Cache    *Cache
}

// Match is a matching symbol or a matching file.
type Match struct {
	File   string // path as displayed in results
	Symbol symbol.Symbol
	Rank   symbol.Rank
	Parser symbol.Parser // empty if the match is a file
	// Code is the line that contains the name. Context is the same line with the requested number of lines before
	// and after it. Both fields are empty if the match is a file.
	Code, Context string

	item index.Item // the file in the snapshot from which Code and Context are read
}

// Answer is the result of a query. The matches are sorted by rank, then kind, path and line.
type Answer struct {
	Matches []Match
	// Total is the number of all matches. Files is the number of files with matches.
	Total, Files int
	// Ranks holds the number of matches of each rank.
	Ranks [symbol.Matched + 1]int
	// Looked is the number of files in supported languages.
	Looked int
	// NotParsed is the number of files that were not parsed within the time limit although they can declare the
	// name.
	NotParsed int
	// Problems lists files that were not parsed completely, with the reasons. It has at most MaxProblems elements.
	// HasProblems is the number of all files that were not parsed completely.
	Problems    []Problem
	HasProblems int
	// Broken is the number of files that can declare the name but have syntax errors.
	Broken  int
	Skipped Skipped
}

// Problem is a file that was not parsed completely, with the reason.
type Problem struct{ File, Why string }

// MaxProblems is the maximum number of reported problems.
const MaxProblems = 10

// Skipped counts the files and directories that were not searched, for each reason.
type Skipped struct {
	Ignored    int `json:"ignored"`
	Hidden     int `json:"hidden"`
	Binary     int `json:"binary"`
	TooLarge   int `json:"too_large"`
	Permission int `json:"permission"`
	Failed     int `json:"failed"`
}

// run holds the state of one query.
type run struct {
	q    *Query
	from *Source
	ctx  context.Context // context of the caller
	// parsing is a context that ends after Query.Time or when ctx ends.
	parsing context.Context
	// If the field "later" is true, texts without a cached table are only collected while the files are read, and are
	// parsed after that.
	later bool
	pass  *pass

	mu sync.Mutex
	// tables holds the tables that the query has parsed, even those that the cache dropped.
	tables map[key]*symbol.Table
	held   int64
	// unparsed holds the texts to parse after the pass. The field "gathered" is the total size of these
	// texts in bytes.
	unparsed map[key]text
	gathered int
}

// text is a copy of a file's text.
type text struct {
	file  string
	bytes []byte
}

// pass holds the state of one iteration over all files.
type pass struct {
	found    collection
	matchers []*symbol.Matcher
	walked   walk.Skipped
	more     atomic.Bool // true if texts must be parsed after the pass

	looked, notParsed, broken, binary, tooLarge, permission, failed atomic.Int64

	mu       sync.Mutex
	problems []Problem
	lost     int // number of files that were not parsed completely
}

func (r *run) begin() {
	r.pass = &pass{found: collection{query: r.q}, matchers: make([]*symbol.Matcher, workers.Number())}
	r.pass.found.rooms = make([][]Match, workers.Number())
}

func (r *run) matcher(worker int) *symbol.Matcher {
	m := r.pass.matchers[worker]
	if m == nil {
		m = r.q.Names.Matcher(r.ctx)
		r.pass.matchers[worker] = m
	}
	return m
}

// answering creates the run that answers a query. The caller must call the function "end" after the run.
func (q *Query) answering(ctx context.Context, from *Source) (r *run, end func()) {
	r = &run{q: q, from: from, ctx: ctx, parsing: ctx, tables: make(map[key]*symbol.Table)}
	if q.Time <= 0 {
		return r, func() {}
	}
	var cancel context.CancelFunc
	r.parsing, cancel = context.WithTimeout(ctx, q.Time)
	return r, cancel
}

// Tree searches the files of a tree, which it reads from disk.
func (q *Query) Tree(ctx context.Context, from *Source, start walk.Start, o walk.Options) (*Answer, error) {
	r, end := q.answering(ctx, from)
	defer end()
	r.begin()
	if err := r.walk(start, o); err != nil {
		return nil, err
	}
	return r.answer(), ctx.Err()
}

// File searches a single file with any name. It reads the content from f.
func (q *Query) File(ctx context.Context, from *Source, f io.Reader, size int64, shown string) (*Answer, error) {
	r, end := q.answering(ctx, from)
	defer end()
	r.begin()
	r.file(0, shown, func() string { return shown })
	if q.Group != symbol.Files {
		r.pass.looked.Add(1)
		r.read(0, f, size, shown)
	}
	return r.answer(), ctx.Err()
}

// wants reports whether a file with that name must be parsed.
func (r *run) wants(name string) bool {
	l := outline.Of(name)
	return l != "" && r.q.Group != symbol.Files && (r.q.Language == "" || r.q.Language.Is(name))
}

func (r *run) walk(start walk.Start, o walk.Options) error {
	return walk.Walk(r.ctx, start, o, &r.pass.walked, func(worker int, d *walk.Dir, e walk.Entry) {
		if !e.Type.IsDir() {
			r.file(worker, e.Name, func() string { return d.Shown(e.Name) })
		}
		if !e.Type.IsRegular() || !r.wants(e.Name) {
			return
		}
		r.pass.looked.Add(1)
		if r.parsing.Err() != nil {
			r.pass.notParsed.Add(1)
			return
		}
		f, err := d.Open(e.Name)
		if err != nil {
			r.fail(err)
			return
		}
		defer func() { _ = f.Close() }()
		r.read(worker, f, f.Size(), d.Shown(e.Name))
	})
}

// file adds the file to the matches if its name matches. The parameter "path" is the end of the file's path. The
// function "shown" returns the path as displayed in results.
func (r *run) file(worker int, path string, shown func() string) {
	if !r.q.Group.Has(symbol.File) || r.q.Language != "" && !r.q.Language.Is(path) ||
		r.q.Group == symbol.All && !r.q.Names.Plain() {
		return // regular expressions match file names only if the query asks for files
	}
	m := r.matcher(worker)
	if m.NeedsPath() {
		path = shown()
	}
	if rank, ok := m.Path(path); ok {
		path = shown()
		name := path[strings.LastIndexByte(path, '/')+1:]
		r.pass.found.add([]Match{
			{File: path, Symbol: symbol.Symbol{Name: name, Kind: symbol.File, Line: 1, Column: 1, EndLine: 1},
				Rank: rank},
		})
	}
}

func (r *run) fail(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist): // another process removed the file during the search
	case errors.Is(err, fs.ErrPermission):
		r.pass.permission.Add(1)
	default:
		r.pass.failed.Add(1)
	}
}

// read searches an opened file.
func (r *run) read(worker int, f io.Reader, size int64, shown string) {
	if size > outline.MaxText {
		r.pass.tooLarge.Add(1)
		r.problem(shown, "it is too large")
		return
	}
	raw, err := io.ReadAll(io.LimitReader(f, outline.MaxText+1))
	if err != nil {
		r.fail(err)
		return
	}
	text, nul, ok := search.Decoded(raw)
	switch {
	case !ok && nul >= 0:
		r.pass.binary.Add(1)
		return
	case !ok:
		r.pass.failed.Add(1)
		return
	}
	if !r.matcher(worker).MayDeclare(text) {
		return
	}
	t := r.table(shown, keyOf(shown, text), func() []byte { return text })
	if t == nil {
		return
	}
	r.matches(worker, t, shown, nil, func(m *Match) { m.Code, m.Context = around(text, m.Symbol, r.q.Context) })
}

// table returns the table of a text. It returns nil if the time limit is exceeded or if the run parses the text
// after the pass.
func (r *run) table(shown string, k key, text func() []byte) *symbol.Table {
	r.mu.Lock()
	t := r.tables[k]
	r.mu.Unlock()
	if t != nil {
		return t
	}
	if t = r.from.Cache.find(k).get(); t != nil {
		return t
	}
	if r.parsing.Err() != nil {
		r.pass.notParsed.Add(1)
		return nil
	}
	if r.later {
		r.pass.more.Store(true)
		r.gather(k, shown, text())
		return nil
	}
	return r.parse(k, shown, text())
}

// parse parses a text and caches the resulting table. It returns nil if the time limit is exceeded.
func (r *run) parse(k key, shown string, text []byte) *symbol.Table {
	t, err := r.from.Outliner.Table(r.parsing, shown, text)
	if err != nil {
		r.pass.notParsed.Add(1)
		return nil
	}
	r.q.Parsed.Add(1)
	r.from.Cache.put(k, t)
	return t
}

// matches adds the matching symbols in the given parts of a text. The function "at" fills in the remaining fields of
// each match.
func (r *run) matches(worker int, t *symbol.Table, shown string, parts func() []content.Part, at func(*Match)) {
	if t.Problem != "" {
		r.problem(shown, t.Problem)
	}
	if t.Broken {
		r.pass.broken.Add(1)
	}
	found := r.pass.found.room(worker)
	_ = r.matcher(worker).Table(t, r.q.Group, shown, parts, func(i int, rank symbol.Rank) { // the error is ignored, because it can only be the error of the call's context
		*found = append(*found, Match{File: shown, Symbol: t.Symbols[i], Rank: rank, Parser: t.Parser})
		at(&(*found)[len(*found)-1])
	})
	r.pass.found.add(*found)
}

func (r *run) problem(file, why string) {
	r.pass.mu.Lock()
	defer r.pass.mu.Unlock()
	r.pass.lost++
	if len(r.pass.problems) < MaxProblems {
		r.pass.problems = append(r.pass.problems, Problem{File: file, Why: why})
	}
}

func (r *run) answer() *Answer {
	p := r.pass
	a := &Answer{
		Looked: int(p.looked.Load()), NotParsed: int(p.notParsed.Load()), Problems: p.problems, HasProblems: p.lost,
		Broken: int(p.broken.Load()),
		Skipped: Skipped{
			Ignored: int(p.walked.Ignored.Load()), Hidden: int(p.walked.Hidden.Load()), Binary: int(p.binary.Load()),
			TooLarge:   int(p.tooLarge.Load()),
			Permission: int(p.permission.Load() + p.walked.Permission.Load()),
			Failed:     int(p.failed.Load() + p.walked.Failed.Load()),
		},
	}
	p.found.page(a)
	return a
}

// need returns the literals that a text must contain to declare a matching name.
func (q *Query) need() content.Need {
	l := q.Names.Literals()
	return content.Need{Sets: l.Sets, Special: l.Special}
}
