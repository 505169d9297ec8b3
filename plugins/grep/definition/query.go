// Package definition implements the search for declarations of a name in a tree. It parses the
// files that may declare the name, and caches their declarations for the next query.
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

// Query is what to look for and how much of it to give.
type Query struct {
	Names    *symbol.Query
	Group    symbol.Group
	Language outline.Language // "": any
	// Offset matches are left out, then Limit are given; 0 means all.
	Offset, Limit int
	// Context is the number of lines to give before and after the one with the name.
	Context int
	// Time is how long to take at most; 0: without a limit. What was found until then is given.
	Time time.Duration
	// Parsed counts the files parsed for the query.
	Parsed atomic.Int64
}

// Source has what is kept from query to query.
type Source struct {
	Outliner *outline.Outliner
	Cache    *Cache
}

// Match is a symbol or a file that was found.
type Match struct {
	File   string // as it is shown
	Symbol symbol.Symbol
	Rank   symbol.Rank
	Parser symbol.Parser // "" of a file
	// Code is the line with the name, Context that with the lines around it. They are empty for
	// a file.
	Code, Context string

	item index.Item // to get these from, in a snapshot
}

// Answer is what was found: the best first, then by kind, path and line.
type Answer struct {
	Matches []Match
	// Total is the number of all, Files that of the files they are in.
	Total, Files int
	// Ranks are the numbers by rank.
	Ranks [symbol.Matched + 1]int
	// Looked is the number of files in a language that is known.
	Looked int
	// NotParsed are files that may declare more, and were not parsed because the time was over.
	NotParsed int
	// Problems are files for which no parser could be used to the end, with the reasons; at
	// most MaxProblems of them. HasProblems is the number of all.
	Problems    []Problem
	HasProblems int
	// Broken counts files with syntax errors that might declare the name.
	Broken  int
	Skipped Skipped
}

// Problem is a file that a parser failed at.
type Problem struct{ File, Why string }

// MaxProblems is the number of problems that are told.
const MaxProblems = 10

// Skipped counts what was not looked at, by reason.
type Skipped struct {
	Ignored    int `json:"ignored"`
	Hidden     int `json:"hidden"`
	Binary     int `json:"binary"`
	TooLarge   int `json:"too_large"`
	Permission int `json:"permission"`
	Failed     int `json:"failed"`
}

// run is one query.
type run struct {
	q    *Query
	from *Source
	ctx  context.Context // the caller's
	// parsing ends earlier, when the time is over.
	parsing context.Context
	// later: texts that are not known are not parsed at once, but after the pass.
	later bool
	pass  *pass

	mu sync.Mutex
	// tables are those of the query, whatever the cache keeps.
	tables map[key]*symbol.Table
	held   int64
	// unparsed are the texts to be parsed after the pass, gathered their size.
	unparsed map[key]text
	gathered int
}

// text is a copy of a file's text.
type text struct {
	file  string
	bytes []byte
}

// pass is one way through all files.
type pass struct {
	found    collection
	matchers []*symbol.Matcher
	walked   walk.Skipped
	more     atomic.Bool // there are texts to be parsed

	looked, notParsed, broken, binary, tooLarge, permission, failed atomic.Int64

	mu       sync.Mutex
	problems []Problem
	lost     int // files with problems
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

// answering makes a run for a query.
func (q *Query) answering(ctx context.Context, from *Source) (r *run, end func()) {
	r = &run{q: q, from: from, ctx: ctx, parsing: ctx, tables: make(map[key]*symbol.Table)}
	if q.Time <= 0 {
		return r, func() {}
	}
	var cancel context.CancelFunc
	r.parsing, cancel = context.WithTimeout(ctx, q.Time)
	return r, cancel
}

// Tree looks in the files of a tree on the disk.
func (q *Query) Tree(ctx context.Context, from *Source, start walk.Start, o walk.Options) (*Answer, error) {
	r, end := q.answering(ctx, from)
	defer end()
	r.begin()
	if err := r.walk(start, o); err != nil {
		return nil, err
	}
	return r.answer(), ctx.Err()
}

// File looks in a single file, whatever its name; f reads it.
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

// wants reports whether a file is to be parsed.
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

// file adds a file, if its name matches, which is the end of a path. shown gives all of that.
func (r *run) file(worker int, path string, shown func() string) {
	if !r.q.Group.Has(symbol.File) || r.q.Language != "" && !r.q.Language.Is(path) || r.q.Group == symbol.All && !r.q.Names.Plain() {
		return // an expression is one of names in files, unless files are asked for
	}
	m := r.matcher(worker)
	if m.NeedsPath() {
		path = shown()
	}
	if rank, ok := m.Path(path); ok {
		path = shown()
		name := path[strings.LastIndexByte(path, '/')+1:]
		r.pass.found.add([]Match{{File: path, Symbol: symbol.Symbol{Name: name, Kind: symbol.File, Line: 1, Column: 1, EndLine: 1}, Rank: rank}})
	}
}

func (r *run) fail(err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist): // it vanished
	case errors.Is(err, fs.ErrPermission):
		r.pass.permission.Add(1)
	default:
		r.pass.failed.Add(1)
	}
}

// read looks in a file that is open.
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

// table returns what a text declares, or nil if there is no time left to find out.
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

// parse finds out what a text declares, and keeps it; nil: there is no time left.
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

// matches adds what a table has of the query, in parts of the text. at says of each what is around it.
func (r *run) matches(worker int, t *symbol.Table, shown string, parts func() []content.Part, at func(*Match)) {
	if t.Problem != "" {
		r.problem(shown, t.Problem)
	}
	if t.Broken {
		r.pass.broken.Add(1)
	}
	found := r.pass.found.room(worker)
	_ = r.matcher(worker).Table(t, r.q.Group, shown, parts, func(i int, rank symbol.Rank) { // its error is the end of the call
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
		Looked: int(p.looked.Load()), NotParsed: int(p.notParsed.Load()), Problems: p.problems, HasProblems: p.lost, Broken: int(p.broken.Load()),
		Skipped: Skipped{
			Ignored: int(p.walked.Ignored.Load()), Hidden: int(p.walked.Hidden.Load()), Binary: int(p.binary.Load()), TooLarge: int(p.tooLarge.Load()),
			Permission: int(p.permission.Load() + p.walked.Permission.Load()), Failed: int(p.failed.Load() + p.walked.Failed.Load()),
		},
	}
	p.found.page(a)
	return a
}

// need is what a text must have to declare what is looked for.
func (q *Query) need() content.Need {
	l := q.Names.Literals()
	return content.Need{Sets: l.Sets, Special: l.Special}
}
