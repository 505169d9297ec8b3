package definition

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/outline"
	"toolhost.dev/plugins/grep/symbol"
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/plugins/grep/workers"
)

const (
	// maxGathered limits the size in bytes of the texts that are parsed between two passes.
	maxGathered = 8 << 20
	// maxHeld limits the memory of a query's tables in bytes. If the tables exceed it, the query parses the remaining
	// texts during the pass.
	maxHeld = 64 << 20
)

// Indexed searches the files of an indexed tree. The parameter "with" is a function that takes a callback. It gets a
// snapshot for the options o, passes the snapshot to the callback, and returns the error of the callback. If no
// snapshot exists, its result "used" is false. All results come from one snapshot.
//
// Texts without a cached table are copied during a pass. They are parsed after the snapshot is released, because
// parsing must not block other calls. Then another pass uses a new snapshot. The passes end when no text is left to
// parse.
func (q *Query) Indexed(ctx context.Context, from *Source, o walk.Options,
	with func(func(*index.Snapshot) error) (used bool, err error)) (a *Answer, used bool, err error) {
	r, end := q.answering(ctx, from)
	defer end()
	for {
		more := false
		used, err = with(func(s *index.Snapshot) error {
			r.begin()
			r.later = r.held < maxHeld && r.parsing.Err() == nil
			if err := r.snapshot(s, o); err != nil {
				return err
			}
			if more = r.pass.more.Load(); !more {
				a = r.answer()
				for i := range a.Matches {
					r.show(&a.Matches[i])
				}
			}
			return ctx.Err()
		})
		if err != nil || !used || !more {
			return a, used, err
		}
		r.parseGathered()
	}
}

// gather copies a text. The copy is parsed after the pass.
func (r *run) gather(k key, file string, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.unparsed[k]; known || r.gathered > maxGathered {
		return
	}
	if r.unparsed == nil {
		r.unparsed = make(map[key]text)
	}
	r.unparsed[k] = text{file: file, bytes: bytes.Clone(b)}
	r.gathered += len(b)
}

// parseGathered parses the gathered texts concurrently.
func (r *run) parseGathered() {
	keys := slices.Collect(maps.Keys(r.unparsed))
	var next atomic.Int64
	workers.Run(min(workers.Number(), len(keys)), func(int) {
		for i := next.Add(1) - 1; i < int64(len(keys)); i = next.Add(1) - 1 {
			k := keys[i]
			if table := r.parse(k, r.unparsed[k].file, r.unparsed[k].bytes); table != nil {
				r.mu.Lock()
				r.tables[k] = table
				r.held += table.Size()
				r.mu.Unlock()
			}
		}
	})
	r.unparsed, r.gathered = nil, 0
}

// enough reports whether the pass must end because enough texts are gathered for parsing.
func (r *run) enough() bool {
	if !r.pass.more.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gathered > maxGathered
}

// snapshot searches the files of a snapshot. It returns early if enough texts are gathered for parsing.
func (r *run) snapshot(s *index.Snapshot, o walk.Options) error {
	c := s.Counts()
	r.pass.walked.Add(c.NotWanted)
	if r.q.Group.Has(symbol.File) {
		s.Each(func(worker int, i index.Item) {
			if !i.Type().IsDir() {
				r.file(worker, i.Path(), i.Shown)
			}
		})
	}
	if r.q.Group != symbol.Files {
		s.Candidates(r.q.need(), func(worker int, t index.Text) bool {
			r.item(worker, t)
			return r.going()
		}, func(worker int, i index.Item) bool {
			if !r.wants(i.Path()) {
				return true
			}
			r.pass.looked.Add(1)
			r.open(worker, i)
			return r.going()
		})
	}
	if r.pass.more.Load() {
		return nil
	}
	r.later = false // do not postpone parsing, because each further pass would read these files from disk again
	return s.Trees(func(start walk.Start) error { return r.walk(start, o) }, r.pass.walked.Count)
}

func (r *run) going() bool { return r.ctx.Err() == nil && !r.enough() }

// item searches an indexed file whose text is in memory.
func (r *run) item(worker int, known index.Text) {
	i := known.Item
	if e, ok := i.Kept().(*entry); ok {
		if t := e.get(); t != nil {
			r.pass.looked.Add(1)
			if (r.q.Language == "" || r.wants(i.Path())) && r.matcher(worker).MayHave(t) {
				r.matches(worker, t, i.Shown(), known.Parts, func(m *Match) { m.item = i })
			}
			return
		}
	}
	if !r.wants(i.Path()) {
		return
	}
	r.pass.looked.Add(1)
	text, shown := known.Bytes, i.Shown()
	if len(text) > outline.MaxText {
		r.pass.tooLarge.Add(1)
		r.problem(shown, "it is too large")
		return
	}
	sum, length := i.Sum()
	k := key{sum: sum, length: length, way: outline.Way(shown)}
	e := r.from.Cache.find(k)
	t := e.get()
	if t == nil {
		if !r.matcher(worker).MayDeclare(text) {
			return
		}
		if t = r.table(shown, k, func() []byte { return text }); t == nil {
			return
		}
		e = r.from.Cache.find(k)
	}
	if e != nil {
		i.Keep(e)
	}
	r.matches(worker, t, shown, known.Parts, func(m *Match) { m.item = i })
}

// open searches an indexed file whose text is not in memory. The cache can still contain the file's table.
func (r *run) open(worker int, i index.Item) {
	if r.parsing.Err() != nil && !i.Known() {
		r.pass.notParsed.Add(1)
		return
	}
	f, err := i.Open()
	if err != nil {
		r.fail(err)
		return
	}
	defer func() { _ = f.Close() }()
	r.read(worker, f, f.Size(), i.Shown())
}

// show adds the source lines of a match to the match.
func (r *run) show(m *Match) {
	if m.Parser == "" || m.Code != "" {
		return
	}
	if text, ok := m.item.Text(); ok {
		m.Code, m.Context = around(text, m.Symbol, r.q.Context)
	}
}

// fillTurn limits the size in bytes of the texts that are parsed between two calls of wait.
const fillTurn = 128 << 10

// Fill parses all files of a tree that are not in the cache, some files at a time. It stops if all files are parsed,
// the cache is full, or ctx ends. The parameter "with" has the same meaning as in [Query.Indexed]. Fill calls the
// function "wait" before each group of files. If no snapshot exists, the result "done" is false.
func Fill(ctx context.Context, from *Source, with func(func(*index.Snapshot) error) (used bool, err error),
	wait func()) (done bool) {
	tried := make(map[key]bool)
	for {
		wait()
		if ctx.Err() != nil || from.Cache.full() {
			return true
		}
		unparsed, gathered := make(map[key]text), 0
		used, err := with(func(s *index.Snapshot) error {
			s.Texts(func(t index.Text) bool {
				if e, ok := t.Kept().(*entry); ok && e.table.Load() != nil {
					return true
				}
				name := t.Path()
				if outline.Of(name) == "" || len(t.Bytes) > outline.MaxText {
					return true
				}
				sum, length := t.Sum()
				k := key{sum: sum, length: length, way: outline.Way(name)}
				if e := from.Cache.find(k); e != nil {
					t.Keep(e)
					return true
				}
				if !tried[k] {
					tried[k] = true
					unparsed[k] = text{file: name, bytes: bytes.Clone(t.Bytes)}
					gathered += length
				}
				return gathered < fillTurn
			})
			return nil
		})
		if err != nil || !used {
			return false
		}
		if len(unparsed) == 0 {
			return true
		}
		for k, t := range unparsed {
			if table, err := from.Outliner.Table(ctx, t.file, t.bytes); err == nil {
				from.Cache.put(k, table)
			}
		}
	}
}
