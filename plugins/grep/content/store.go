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

// Budget is a memory limit shared by stores.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns the number of bytes taken.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit returns the number of bytes that may be taken.
func (b *Budget) Limit() int64 { return b.limit }

// Take takes memory from the budget and reports whether there was enough.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give returns memory to the budget.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Text is a text in a store. Owner is a number that the caller chooses.
type Text struct {
	Owner uint32
	seg   *segment
	off   int
	n     int
	index int // in the texts of the segment
	// first and last are the indices of its first and last block.
	first, last int
}

// Len returns the length of the text in bytes.
func (t *Text) Len() int { return t.n }

// Bytes returns the text. ok is false if only its index is kept. The result is valid until the text is removed or the
// store is compacted.
func (t *Text) Bytes() (text []byte, ok bool) {
	if t.seg.data == nil {
		return nil, false
	}
	return t.seg.data[t.off : t.off+t.n : t.off+t.n], true
}

// Store holds the texts of a tree. Several appenders may add texts at the same time, and several goroutines may read at
// the same time. Any other concurrent use is unsafe.
type Store struct {
	budget    *Budget
	appenders []*Appender
	making    bool
}

// NewStore returns a store with n appenders.
func NewStore(b *Budget, n int) *Store {
	s := &Store{budget: b}
	for range n {
		s.appenders = append(s.appenders, &Appender{store: s})
	}
	return s
}

// Making sets whether the store is under construction and nobody reads its texts. Only then the store may drop texts to
// keep the index of others when memory is short.
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
	Text  int64 `json:"text"`  // live text
	Dead  int64 `json:"dead"`  // removed text that is not yet freed
	Index int64 `json:"index"` // the filters
	Known int64 `json:"known"` // text that was dropped, of which only filters are kept
}

// Usage returns the memory usage of the store.
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
	// open and bare are the segments being filled: open with text, bare with the index only.
	open, bare *segment
}

// Add adds a text. It returns nil if there is no memory even for its index.
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

// strip releases the text of one segment and keeps its index. It reports whether there was such a segment.
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

// room returns the open segment if the text fits, or a new one. It returns nil if there is no memory.
func (a *Appender) room(open **segment, n int, keep bool) *segment {
	if g := *open; g != nil && g.fits(n) && g.take(a.store.budget, n) {
		return g
	}
	// A text larger than a segment gets its own.
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

// Remove removes a text.
func (s *Store) Remove(t *Text) {
	t.seg.dead += t.n + 1
	t.seg.texts[t.index] = nil
}

// Compact copies the remaining texts out of segments that are half dead, and frees these segments. It calls moved with
// each text and its copy. The copy is nil if there was no memory for it.
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
