package pattern

import (
	"bytes"
	"unicode/utf8"

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
		l.pair = bytepair.Pair{Distance: second - l.first, First: r.text[l.first], Second: r.text[second], FirstOr: r.caseBit(l.first), SecondOr: r.caseBit(second)}
	}
	return l
}

// caseBit returns the bit in which what may stand at a place differs.
func (r *requirement) caseBit(at int) byte {
	if b := r.text[at]; r.folded && 'a' <= b && b <= 'z' {
		return 0x20
	}
	return 0
}

// same returns how many bytes a text of the same length begins with that are the required ones.
func (r *requirement) same(text []byte) int {
	if !r.folded {
		if string(text) == string(r.text) {
			return len(text)
		}
		return 0
	}
	for i, b := range text {
		if lowered(b) != r.text[i] {
			return i
		}
	}
	return len(text)
}

// index returns where in buf the text is, with what stands around it in a match, or -1, and how many places were
// looked at without success. After so many it returns a place before which there is none.
func (l *needle) index(buf []byte, places int) (at, wrong int) {
	for at := 0; ; at++ {
		i, missed, there := l.seek(buf[at:], places-wrong)
		wrong += missed
		if i < 0 {
			return -1, wrong
		}
		if at += i; !there {
			return boundary(buf, at), wrong
		}
		if wrong >= places || l.fits(buf, at) {
			return at, wrong
		}
		wrong++
	}
}

// boundary returns where the character begins, or the byte that is none, that a position is in.
func boundary(buf []byte, at int) int {
	for i := at; i >= 0 && i > at-utf8.UTFMax; i-- {
		if utf8.RuneStart(buf[i]) {
			return i
		}
	}
	return at
}

// count returns how often buf has the text, about; of one that takes longer to look for than it is worth, a large
// number.
func (l *needle) count(buf []byte) (n int) {
	places := len(buf) / bytesPerPlace
	for at := 0; places >= 0; at++ {
		i, wrong := l.index(buf[at:], places)
		if i < 0 {
			return n
		}
		n++
		at += i
		places -= wrong
	}
	return len(buf)
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

// bytesPerPlace is how much of a text there is for each place in it that may be looked at without success, or for each so
// many bytes that are compared there.
const bytesPerPlace = 16

// next returns where in buf the text is, or -1. In a text that has too much of what only looks like it, it gives
// a place before which there is none.
func (l *needle) next(buf []byte) int {
	at, _, _ := l.seek(buf, len(buf)/bytesPerPlace+bytesPerPlace)
	return at
}

// seek returns where in buf the text is, or -1, and how many places were looked at without success. After more than so
// many of a folded text, it returns the next one without a look: then it is not known to be there.
func (l *needle) seek(buf []byte, places int) (at, wrong int, there bool) {
	n := len(l.text)
	misses := 0
	for at := 0; at+n <= len(buf); {
		i := l.candidate(buf[at:])
		if i < 0 {
			break
		}
		at += i
		if l.folded && wrong > places {
			return at, wrong, false
		}
		same := l.same(buf[at : at+n])
		if same == n {
			return at, wrong, true
		}
		at++
		if l.folded {
			wrong += 1 + same/bytesPerPlace
			continue
		}
		if misses++; misses > 8 && misses*32 > at { // the bytes are not so rare here
			if i = bytes.Index(buf[at:], l.text); i < 0 {
				break
			}
			return at + i, wrong, true
		}
	}
	return -1, wrong, false
}

// candidate returns the first place in buf where the text can be by its rarest bytes, or -1. buf is at least
// as long as the text.
func (l *needle) candidate(buf []byte) int {
	last := len(buf) - len(l.text)
	if l.pair.Distance > 0 && (bytepair.Fast || l.folded) {
		return l.pair.Index(buf[l.first : last+l.first+l.pair.Distance+1])
	}
	return bytes.IndexByte(buf[l.rare:last+l.rare+1], l.text[l.rare])
}
