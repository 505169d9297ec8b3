package pattern

import (
	"bytes"
	"math"

	"toolhost.dev/plugins/grep/bytepair"
)

// needle looks for a text by its two rarest bytes, which are met less often than its first.
type needle struct {
	requirement
	rare  int // where the rarest byte is
	first int // of the two rarest, the one that comes first
	// pair is the two rarest; without distance the text is a single byte.
	pair bytepair.Pair
}

// common are bytes in falling order of how often they are met in source code.
const common = " etaoinsrlcdpumf_0gh\tb.y,x1v()wk2;-3*=\n/4586q>79\"zj&#[]{}:+'IESTACRNDLPOMFUBGHVWXYKZQJ<|!%\\$@?~^`"

var rank = func() (r [256]int) {
	for i := range len(common) {
		r[common[i]] = len(common) - i
	}
	return r
}()

func newNeedle(r requirement) needle {
	l := needle{requirement: r}
	other := -1
	for i, b := range r.text {
		switch {
		case i == 0:
		case rank[b] < rank[r.text[l.rare]]:
			l.rare, other = i, l.rare
		case other < 0 || rank[b] < rank[r.text[other]]:
			other = i
		}
	}
	if other >= 0 {
		l.first = min(l.rare, other)
		second := max(l.rare, other)
		l.pair = bytepair.Pair{Distance: second - l.first, First: r.text[l.first], Second: r.text[second], FirstOr: r.either(l.first), SecondOr: r.either(second)}
	}
	return l
}

// either gives the bit in which what may stand at a place differs.
func (r *requirement) either(at int) byte {
	if b := r.text[at]; r.folded && 'a' <= b && b <= 'z' {
		return 0x20
	}
	return 0
}

// is reports whether a text of the same length is the required one.
func (r *requirement) is(text []byte) bool {
	if !r.folded {
		return string(text) == string(r.text)
	}
	for i, b := range text {
		if lowered(b) != r.text[i] {
			return false
		}
	}
	return true
}

// index gives where in buf the text is, with what stands around it in a match, or -1, and at how many places
// something else stood around it. After so many places it gives any.
func (l *needle) index(buf []byte, places int) (at, wrong int) {
	for at := 0; ; at++ {
		i := l.next(buf[at:])
		if i < 0 {
			return -1, wrong
		}
		if at += i; wrong >= places || l.fits(buf, at) {
			return at, wrong
		}
		wrong++
	}
}

// count gives how often buf has the text, with what stands around it in a match.
func (l *needle) count(buf []byte) (n int) {
	for {
		i, _ := l.index(buf, math.MaxInt)
		if i < 0 {
			return n
		}
		n++
		buf = buf[i+1:]
	}
}

// fits reports whether around the text at a place there is what is in a match.
func (l *needle) fits(buf []byte, at int) bool {
	end := at + len(l.text)
	if at < len(l.before) || len(buf)-end < len(l.after) {
		return false
	}
	for i, set := range l.before {
		if !set[buf[at-1-i]] {
			return false
		}
	}
	for i, set := range l.after {
		if !set[buf[end+i]] {
			return false
		}
	}
	return true
}

// next gives where in buf the text is, or -1.
func (l *needle) next(buf []byte) int {
	n := len(l.text)
	misses := 0
	for at := 0; at+n <= len(buf); {
		i := l.candidate(buf[at:])
		if i < 0 {
			return -1
		}
		at += i
		if l.is(buf[at : at+n]) {
			return at
		}
		at++
		if misses++; misses > 8 && misses*32 > at && !l.folded { // the bytes are not so rare here
			if i = bytes.Index(buf[at:], l.text); i >= 0 {
				i += at
			}
			return i
		}
	}
	return -1
}

// candidate gives the first place in buf where the text can be by its rarest bytes, or -1. buf is at least
// as long as the text.
func (l *needle) candidate(buf []byte) int {
	last := len(buf) - len(l.text)
	if l.pair.Distance > 0 && (bytepair.Fast || l.folded) {
		return l.pair.Index(buf[l.first : last+l.first+l.pair.Distance+1])
	}
	return bytes.IndexByte(buf[l.rare:last+l.rare+1], l.text[l.rare])
}
