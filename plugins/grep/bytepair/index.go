// Package bytepair searches for two bytes at a fixed distance from each other. Such a pair occurs far less often in
// text than a single byte.
package bytepair

import "bytes"

// Pair is a pair of bytes. The second byte is Distance bytes after the first.
type Pair struct {
	Distance      int
	First, Second byte
	// FirstOr and SecondOr are bit masks. Before the comparison, Index ORs the bytes of the text with these masks. The
	// mask 0x20 makes a lower-case letter match its upper case too.
	FirstOr, SecondOr byte
}

// Index returns the position of the first occurrence of the pair in buf. It returns -1 if the pair does not occur.
func (p *Pair) Index(buf []byte) int {
	places := len(buf) - p.Distance
	if Fast && places >= block {
		return index(buf, p.Distance, p.First, p.Second, p.FirstOr, p.SecondOr)
	}
	for at := 0; at < places; at++ {
		if p.FirstOr == 0 {
			i := bytes.IndexByte(buf[at:places], p.First)
			if i < 0 {
				return -1
			}
			at += i
		}
		if buf[at]|p.FirstOr == p.First && buf[at+p.Distance]|p.SecondOr == p.Second {
			return at
		}
	}
	return -1
}

// block is the number of positions that the search examines at once.
const block = 32
