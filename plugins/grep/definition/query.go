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

// Query is what to search for and how much to return.
type Query struct {
	Names    *symbol.Query
	Group    symbol.Group
	Language outline.Language // "" means any
	// Offset is the number of matches to skip, and Limit the number to return. A Limit of 0 returns all.
	Offset, Limit int
	// Context is the number of lines to return before and after the line with the name.
	Context int
	// Time limits the duration of the search; 0 means no limit. After it, the answer contains what was found so far.
	Time time.Duration
	// Parsed counts the files that the query parsed.
	Parsed atomic.Int64
}

// Source holds what queries share.
type Source struct {
	Outliner *outline.Outliner
	Cache    *Cache
}

// Match is a symbol or a file.
type Match struct {
	File   string // as shown in results
	Symbol symbol.Symbol
	Rank   symbol.Rank
	Parser symbol.Parser // "" for a file
	// Code is the line with the name. Context is that line with the lines around it. Both are empty for a file.
	Code, Context string

	item index.Item // the file to read Code and Context from, in a snapshot
}

// Answer is the result of a query. The matches are sorted by rank, then kind, path and line.
type Answer struct {
	Matches []Match
	// Total is the number of all matches, and Files the number of files that contain them.
	Total, Files int
	// Ranks are the numbers of matches by rank.
	Ranks [symbol.Matched + 1]int
	// Looked is the number of files in a supported language.
	Looked int
	// NotParsed is the number of files that may declare more but were not parsed in time.
	NotParsed int
	// Problems are files that no parser parsed completely, with the reasons, at most MaxProblems. HasProblems is the
	// number of all such files.
	Problems    []Problem
	HasProblems int
	// Broken is the number of files with syntax errors that might declare the name.
	Broken  int
	Skipped Skipped
}

// Problem is a file that a parser failed to parse.
type Problem struct{ File, Why string }

// MaxProblems is the maximal number of reported problems.
const MaxProblems = 10

// Skipped counts the files and directories that were not searched, by reason.
type Skipped struct {
	Ignored    int `json:"ignored"`
	Hidden     int `json:"hidden"`
	Binary     int `json:"binary"`
	TooLarge   int `json:"too_large"`
	Permission int `json:"permission"`
	Failed     int `json:"failed"`
}

// run is the execution of one query.
type run struct {
	q    *Query
	from *Source
	ctx  context.Context // the caller's
	// parsing ends when Query.Time is over, or with ctx.
	parsing context.Context
	// later means that unknown texts are parsed after the pass.
	later bool
	pass  *pass

	mu sync.Mutex
	// tables are the tables that the query has parsed, even if the cache dropped them.
	tables map[key]*symbol.Table
	held   int64
	// unparsed are the texts to parse after the pass, and gathered is their size.
	unparsed map[key]text
	gathered int
}

// text is a copy of a file's text.
type text struct {
	file  string
	bytes []byte
}

// pass is one iteration over all files.
type pass struct {
	found    collection
	matchers []*symbol.Matcher
	walked   walk.Skipped
	more     atomic.Bool // there are texts to parse

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

// answering returns a run of the query. The caller must call end.
func (q *Query) answering(ctx context.Context, from *Source) (r *run, end func()) {
	r = &run{q: q, from: from, ctx: ctx, parsing: ctx, tables: make(map[key]*symbol.Table)}
	if q.Time <= 0 {
		return r, func() {}
	}
	var cancel context.CancelFunc
	r.parsing, cancel = context.WithTimeout(ctx, q.Time)
	return r, cancel
}

// Tree searches the files of a tree on disk.
func (q *Query) Tree(ctx context.Context, from *Source, start walk.Start, o walk.Options) (*Answer, error) {
	r, end := q.answering(ctx, from)
	defer end()
	r.begin()
	if err := r.walk(start, o); err != nil {
		return nil, err
	}
	return r.answer(), ctx.Err()
}

// File searches a single file, whatever its name. f reads its content.
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

// wants reports whether to parse a file of that name.
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

// file adds a file if its name matches. path is the end of the file's path, and shown returns the whole path.
func (r *run) file(worker int, path string, shown func() string) {
	if !r.q.Group.Has(symbol.File) || r.q.Language != "" && !r.q.Language.Is(path) || r.q.Group == symbol.All && !r.q.Names.Plain() {
		return // an expression matches file names only if the query asks for files
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
	case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
	case errors.Is(err, fs.ErrPermission):
		r.pass.permission.Add(1)
	default:
		r.pass.failed.Add(1)
	}
}

// read searches an open file.
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

// table returns the table of a text. It returns nil if the time is over or the text will be parsed after the pass.
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

// parse parses a text and caches its table. It returns nil if the time is over.
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

// matches adds the matches in the given parts of a table's text. at completes each match.
func (r *run) matches(worker int, t *symbol.Table, shown string, parts func() []content.Part, at func(*Match)) {
	if t.Problem != "" {
		r.problem(shown, t.Problem)
	}
	if t.Broken {
		r.pass.broken.Add(1)
	}
	found := r.pass.found.room(worker)
	_ = r.matcher(worker).Table(t, r.q.Group, shown, parts, func(i int, rank symbol.Rank) { // the error is that of the call's context
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

// need returns what a text must contain to declare a matching name.
func (q *Query) need() content.Need {
	l := q.Names.Literals()
	return content.Need{Sets: l.Sets, Special: l.Special}
}
