// Package content stores the text of files in memory outside of the garbage-collected heap. Its index finds the files
// that can contain a literal.
//
// The store divides text into segments, and segments into blocks of whole lines of about 2 KB. Small files share a
// block. Each block has a Bloom filter of its trigrams. A line is in one block unless it is very long. Therefore all
// literals that a matching line must contain are in the same block.
//
// Replaced text stays in memory until half of its segment is unused.
package content

import (
	"slices"
	"sync/atomic"
)

const (
	blockSize   = 2 << 10
	segmentSize = groupSize * blockSize
)

// Budget is a memory limit that several stores share.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget with a limit in bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns the number of bytes taken from the budget.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit returns the maximum number of bytes in use.
func (b *Budget) Limit() int64 { return b.limit }

// Take takes n bytes from the budget. If fewer bytes are left, it takes nothing and returns false.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give returns n bytes to the budget.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Text is a text in a store. Owner is a number that the caller chooses.
type Text struct {
	Owner uint32
	seg   *segment
	off   int
	n     int
	index int // index in the texts of the segment
	// first and last are the indices of the first and the last block of the text.
	first, last int
}

// Len returns the length of the text in bytes.
func (t *Text) Len() int { return t.n }

// Bytes returns the text. If the store keeps only the index of the text, ok is false. The result is valid until the
// text is removed or the store is compacted.
func (t *Text) Bytes() (text []byte, ok bool) {
	if t.seg.data == nil {
		return nil, false
	}
	return t.seg.data[t.off : t.off+t.n : t.off+t.n], true
}

// Store holds the texts of a tree. Different appenders can add texts at the same time. Several goroutines can read
// at the same time. All other concurrent use is unsafe.
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

// Making sets whether the store is under construction. During construction, no goroutine reads texts, so the store
// is allowed to drop texts to free memory for the index of other texts.
func (s *Store) Making(yes bool) { s.making = yes }

// Appender returns the appender with number i.
func (s *Store) Appender(i int) *Appender { return s.appenders[i] }

func (s *Store) segments(do func(*segment)) {
	for _, a := range s.appenders {
		for _, g := range a.segments {
			do(g)
		}
	}
}

// Close frees the memory. Afterwards, the store and its texts must not be used.
func (s *Store) Close() {
	s.segments(func(g *segment) { g.free(s.budget) })
	for _, a := range s.appenders {
		*a = Appender{store: s}
	}
}

// Usage is the memory usage of a store in bytes.
type Usage struct {
	Text  int64 `json:"text"`  // text in use
	Dead  int64 `json:"dead"`  // removed text that still takes memory
	Index int64 `json:"index"` // filters of all texts
	Known int64 `json:"known"` // dropped text whose filters are kept
}

// Usage returns the current memory usage of the store.
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

// Appender adds texts to a store. It is not safe for concurrent use.
type Appender struct {
	store    *Store
	segments []*segment
	// open is the segment to which new texts are added. The field "bare" is the segment that stores the
	// index of texts without the texts.
	open, bare *segment
}

// Add adds a text to the store. It returns nil if the memory is too small even for the index of the text.
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

// strip frees the texts of one segment but keeps their index. It returns false if no segment has texts.
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

// room returns the open segment if n bytes fit into it, and otherwise a new segment. It returns nil if there is no
// memory.
func (a *Appender) room(open **segment, n int, keep bool) *segment {
	if g := *open; g != nil && g.fits(n) && g.take(a.store.budget, n) {
		return g
	}
	// A text that is larger than a segment gets a segment of its own.
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

// Remove removes a text from the store.
func (s *Store) Remove(t *Text) {
	t.seg.dead += t.n + 1
	t.seg.texts[t.index] = nil
}

// Compact copies the remaining texts out of segments that are half unused, and frees these segments. It calls the
// function "moved" with each old text and the copy of the text. The copy is nil if there is no memory for it.
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
