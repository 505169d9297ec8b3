// Package content implements a store of the text of files in memory, outside of the
// garbage-collected heap. Its index tells which files may contain a literal.
//
// Text lies in segments, which are cut into blocks of whole lines of about 2 KB. Small files share
// a block. Each block has a Bloom filter of its trigrams. A literal that a matching line must
// contain is therefore in one block, and several such literals are in the same block.
//
// Text that is replaced stays where it is until half of a segment is dead.
package content

import (
	"slices"
	"sync/atomic"
)

const (
	blockSize   = 2 << 10
	segmentSize = groupSize * blockSize
)

// Budget is the memory that stores may take together.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes a budget of that many bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns the bytes taken.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit returns the bytes that may be taken.
func (b *Budget) Limit() int64 { return b.limit }

// Take takes memory, and reports whether there was enough.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give gives memory back.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Text is a text that a store knows. Its owner is a number of the caller's.
type Text struct {
	Owner uint32
	seg   *segment
	off   int
	n     int
	index int // among the texts of the segment
	// first and last are the blocks it is in.
	first, last int
}

// Len returns the length of the text in bytes.
func (t *Text) Len() int { return t.n }

// Bytes returns the text; ok is false if only the index of it is kept. It is valid until
// the text is removed or its store compacted.
func (t *Text) Bytes() (text []byte, ok bool) {
	if t.seg.data == nil {
		return nil, false
	}
	return t.seg.data[t.off : t.off+t.n : t.off+t.n], true
}

// Store is the texts of a tree. Texts are added by appenders, which may do so at the same
// time; otherwise it is not safe for concurrent use, but reading is beside reading.
type Store struct {
	budget    *Budget
	appenders []*Appender
	making    bool
}

// NewStore makes a store with n appenders.
func NewStore(b *Budget, n int) *Store {
	s := &Store{budget: b}
	for range n {
		s.appenders = append(s.appenders, &Appender{store: s})
	}
	return s
}

// Making says whether the store is being made, so that no text in it is looked at. Then
// texts are given up for the index of others when memory is short.
func (s *Store) Making(yes bool) { s.making = yes }

// Appender returns appender number i.
func (s *Store) Appender(i int) *Appender { return s.appenders[i] }

func (s *Store) segments(do func(*segment)) {
	for _, a := range s.appenders {
		for _, g := range a.segments {
			do(g)
		}
	}
}

// Close frees the memory. The store and its texts must not be used any more.
func (s *Store) Close() {
	s.segments(func(g *segment) { g.free(s.budget) })
	for _, a := range s.appenders {
		*a = Appender{store: s}
	}
}

// Usage is the memory of a store in bytes.
type Usage struct {
	Text  int64 `json:"text"`  // kept
	Dead  int64 `json:"dead"`  // replaced and not yet freed
	Index int64 `json:"index"` // filters
	Known int64 `json:"known"` // text of which only filters are kept
}

// Usage says what the store takes.
func (s *Store) Usage() (u Usage) {
	s.segments(func(g *segment) {
		u.Index += int64(len(g.rows)) * rowBytes
		if g.data == nil {
			u.Known += int64(g.used - g.dead)
			return
		}
		u.Text += int64(g.used - g.dead)
		u.Dead += int64(g.dead)
	})
	return u
}

// Appender adds texts to a store.
type Appender struct {
	store    *Store
	segments []*segment
	// open and bare are the segments being filled: with text and without.
	open, bare *segment
}

// Add adds a text. It gives nil when there is no memory left even for its index.
func (a *Appender) Add(owner uint32, text []byte) *Text {
	if g := a.room(&a.open, len(text), true); g != nil {
		return g.add(owner, text)
	}
	for {
		if g := a.room(&a.bare, len(text), false); g != nil {
			return g.add(owner, text)
		}
		if !a.store.making || !a.strip() {
			return nil
		}
	}
}

// strip releases the text of a segment and keeps its index.
func (a *Appender) strip() bool {
	for _, g := range a.segments {
		if g.data != nil {
			if a.open == g {
				a.open = nil
			}
			g.strip(a.store.budget)
			return true
		}
	}
	return false
}

// room returns the segment being filled if a text fits in, or a new one.
func (a *Appender) room(open **segment, n int, keep bool) *segment {
	if g := *open; g != nil && g.fits(n) && g.take(a.store.budget, n) {
		return g
	}
	// A text that is larger than a segment gets one of its own.
	g, err := newSegment(n, keep, a.store.budget)
	if err != nil {
		return nil
	}
	if !g.take(a.store.budget, n) {
		g.free(a.store.budget)
		return nil
	}
	a.segments = append(a.segments, g)
	*open = g
	return g
}

// Remove gives up a text.
func (s *Store) Remove(t *Text) {
	t.seg.dead += t.n + 1
	t.seg.texts[t.index] = nil
}

// Compact moves what is left in segments that are half dead, and frees these. moved is
// told of each text that has another place now, nil: there was no memory for it.
func (s *Store) Compact(moved func(old, now *Text)) {
	for _, a := range s.appenders {
		for _, g := range slices.Clone(a.segments) {
			if g.dead*2 < g.used || g.dead < segmentSize/4 && g.dead < g.used {
				continue
			}
			a.segments = slices.DeleteFunc(a.segments, func(o *segment) bool { return o == g })
			if a.open == g {
				a.open = nil
			}
			if a.bare == g {
				a.bare = nil
			}
			for _, t := range g.texts {
				if t == nil {
					continue
				}
				var now *Text
				if text, ok := t.Bytes(); ok {
					now = a.Add(t.Owner, text)
				}
				moved(t, now)
			}
			g.free(s.budget)
		}
	}
}
