// Package bytepair searches for two bytes at a fixed distance from each other. Such a pair occurs far less often in text
// than a single byte.
package bytepair

import "bytes"

// Pair is a pair of bytes. The second byte is Distance bytes after the first.
type Pair struct {
	Distance      int
	First, Second byte
	// FirstOr and SecondOr are ORed to the bytes of the text before the comparison. With the value 0x20, a lower-case
	// letter also matches its upper case.
	FirstOr, SecondOr byte
}

// Index returns the first position i in buf such that the pair begins at buf[i]. It returns -1 if the pair does not
// occur.
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

// block is the number of positions examined in one step.
const block = 32
