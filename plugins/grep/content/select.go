package content

import "math/bits"

// Need describes which literals a matching text contains: at least one literal of each set. The case of ASCII
// letters is ignored.
type Need struct {
	Sets [][]string
	// Special is true if U+017F must match the letter s and U+212A the letter k.
	Special bool
	// Apart is true if the literals can be in different lines. Otherwise one line must contain a literal of each
	// set.
	Apart bool
}

// Part is a range of a text that consists of whole lines.
type Part struct{ From, To int }

// Selection is the set of texts that can match a [Need].
type Selection struct {
	all   bool // the need excludes no text, so every text can match
	apart bool
	// groups maps each segment to bit sets of its blocks. If the field "apart" is true, there is one bit set for each
	// set of literals. Otherwise there is only one bit set.
	groups map[*segment][][]uint64
}

// shortest is the minimal length of a literal. The filters cannot exclude blocks by a shorter literal.
const shortest = 3

// Select returns the texts that can match the need.
func (s *Store) Select(n Need) *Selection {
	var sets [][][]uint32
	for _, set := range n.Sets {
		var hs [][]uint32
		for _, literal := range set {
			if len(literal) < shortest {
				hs = nil
				break
			}
			hs = append(hs, hashes(literal))
		}
		if len(hs) > 0 {
			sets = append(sets, hs)
		}
	}
	if len(sets) == 0 {
		return &Selection{all: true}
	}
	sel := &Selection{apart: n.Apart, groups: make(map[*segment][][]uint64)}
	s.segments(func(g *segment) { sel.groups[g] = g.blocks(sets, n) })
	return sel
}

// blocks returns bitmaps of the blocks that can contain a literal of every set. If n.Apart is true, it returns a bitmap
// for each set of literals. Otherwise it returns one bitmap.
func (g *segment) blocks(sets [][][]uint32, n Need) [][]uint64 {
	var out [][]uint64
	for i, set := range sets {
		these := g.blocksOf(set, n.Special)
		if i == 0 || n.Apart {
			g.spread(these)
			out = append(out, these)
			continue
		}
		for k, word := range these {
			out[0][k] &= word | g.partial[k]
		}
	}
	return out
}

// blocksOf returns the blocks that can contain at least one literal of a set.
func (g *segment) blocksOf(set [][]uint32, special bool) []uint64 {
	out := make([]uint64, len(g.special))
	for at := 0; at < len(out); at += rowWords {
		for _, hs := range set {
			for k, word := range having(g.rows[at/rowWords*rows:][:rows], hs) {
				out[at+k] |= word
			}
		}
	}
	if special {
		for k, word := range g.special {
			out[k] |= word
		}
	}
	return out
}

// spread extends a set of blocks by the rest of each long line. If the set contains one block of a long line, the
// other literals can be in any block of the line.
func (g *segment) spread(set []uint64) {
	has := func(bits []uint64, b int) bool { return bits[b/64]>>(b%64)&1 != 0 }
	for w, word := range g.partial {
		for ; word != 0; word &= word - 1 {
			b := w*64 + bits.TrailingZeros64(word)
			if b > 0 && has(g.partial, b-1) && has(set, b-1) {
				set[w] |= 1 << (b % 64)
			}
			if has(set, b) { // also add the previous blocks of the same line
				for a := b - 1; a >= 0 && has(g.partial, a) && !has(set, a); a-- {
					set[a/64] |= 1 << (a % 64)
				}
			}
		}
	}
}

// All reports whether the selection excludes no text.
func (s *Selection) All() bool { return s.all }

// Each calls the function "do" for each text of the selection, in any order. It must not be called if All returns true.
func (s *Selection) Each(do func(*Text)) {
	for g, sets := range s.groups {
		done := 0 // number of texts at the start of the segment that are already examined
		for w, word := range sets[0] {
			for ; word != 0; word &= word - 1 {
				block := w*64 + bits.TrailingZeros64(word)
				if block >= len(g.first) {
					break
				}
				for i := max(g.first[block], done); i < len(g.texts); i++ {
					t := g.texts[i]
					if t == nil {
						continue
					}
					if t.first > block {
						break
					}
					done = i + 1
					if s.has(t, sets) {
						do(t)
					}
				}
			}
		}
	}
}

// Has reports whether the selection contains a text.
func (s *Selection) Has(t *Text) bool { return s.all || s.has(t, s.groups[t.seg]) }

// has reports whether every bit set contains at least one block of the text.
func (s *Selection) has(t *Text, sets [][]uint64) bool {
	for _, set := range sets {
		found := false
		for b := t.first; b <= t.last && !found; b++ {
			found = set[b/64]>>(b%64)&1 != 0
		}
		if !found {
			return false
		}
	}
	return true
}

// Parts returns the parts of a text that can contain a match. A nil result means that a match can be anywhere in the
// text.
func (s *Selection) Parts(t *Text) []Part {
	if s.all || s.apart || t.first == t.last {
		return nil
	}
	set := s.groups[t.seg][0]
	var out []Part
	for b := t.first; b <= t.last; b++ {
		if set[b/64]>>(b%64)&1 == 0 {
			continue
		}
		from, to := max(0, t.seg.start(b)-t.off), min(t.n, t.seg.ends[b]-t.off)
		if n := len(out); n > 0 && out[n-1].To == from {
			out[n-1].To = to
		} else {
			out = append(out, Part{from, to})
		}
	}
	return out
}
