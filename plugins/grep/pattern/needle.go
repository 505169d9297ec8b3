package pattern

import (
	"bytes"
	"unicode/utf8"

	"toolhost.dev/plugins/grep/bytepair"
)

// needle searches for a text by the two rarest bytes of the text. Both bytes occur together less often than one byte
// alone.
type needle struct {
	requirement
	rare  int // index of the rarest byte in the text
	first int // index of the earlier of the two rarest bytes
	// pair holds the two rarest bytes. If the text is a single byte, the distance of the pair is 0.
	pair bytepair.Pair
}

// This string contains bytes ordered by their frequency in source code, the most frequent byte first.
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
		l.pair = bytepair.Pair{Distance: second - l.first, First: r.text[l.first], Second: r.text[second],
			FirstOr: r.caseBit(l.first), SecondOr: r.caseBit(second)}
	}
	return l
}

// caseBit returns the bit in which the upper and lower case of a byte differ. The byte is given by its index. The
// result is 0 if the case must match.
func (r *requirement) caseBit(at int) byte {
	if b := r.text[at]; r.folded && 'a' <= b && b <= 'z' {
		return 0x20
	}
	return 0
}

// same returns the number of leading bytes of a text that equal the required text. The two texts must have the
// same length. If the case must match, the result is 0 for any difference.
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

// index returns the first position in buf at which the text occurs and the bytes around it are possible in a match, or
// -1. It also returns the number of false candidates. If this number exceeds the argument "places", the returned
// position is only a lower bound: no match begins before it.
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

// boundary returns the beginning of the character that contains a position. In invalid UTF-8, it returns the position
// itself.
func boundary(buf []byte, at int) int {
	for i := at; i >= 0 && i > at-utf8.UTFMax; i-- {
		if utf8.RuneStart(buf[i]) {
			return i
		}
	}
	return at
}

// count returns the approximate number of occurrences of the text in buf. If the search finds too many false
// candidates, it returns a large number.
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

// fits reports whether the bytes before and after the text at a position are possible in a match.
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

// bytesPerPlace determines the limit of false candidates: about one for each bytesPerPlace bytes of the buffer. A long
// comparison counts as one false candidate for each bytesPerPlace bytes that it reads.
const bytesPerPlace = 16

// next returns the position of the text in buf, or -1. If there are too many false candidates, the returned
// position is only a lower bound: the text does not occur before it.
func (l *needle) next(buf []byte) int {
	at, _, _ := l.seek(buf, len(buf)/bytesPerPlace+bytesPerPlace)
	return at
}

// seek returns the position of the text in buf, or -1, and the number of false candidates. If a folded text has more
// false candidates than the argument "places" allows, seek returns the next candidate unchecked, and the result "there"
// is false.
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
		if misses++; misses > 8 && misses*32 > at { // give up, because the two bytes are not rare in this buffer
			if i = bytes.Index(buf[at:], l.text); i < 0 {
				break
			}
			return at + i, wrong, true
		}
	}
	return -1, wrong, false
}

// candidate returns the first position in buf at which the two rarest bytes match, or -1. The buffer must be at least
// as long as the text.
func (l *needle) candidate(buf []byte) int {
	last := len(buf) - len(l.text)
	if l.pair.Distance > 0 && (bytepair.Fast || l.folded) {
		return l.pair.Index(buf[l.first : last+l.first+l.pair.Distance+1])
	}
	return bytes.IndexByte(buf[l.rare:last+l.rare+1], l.text[l.rare])
}
