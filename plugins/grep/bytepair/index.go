// Package bytepair implements the search for two bytes at a given distance from each other. Two
// bytes of a text occur together at far fewer places than one.
package bytepair

import "bytes"

// Pair is two bytes. The second is Distance bytes after the first.
type Pair struct {
	Distance      int
	First, Second byte
	// FirstOr and SecondOr are ORed to the bytes of the text before the comparison. With 0x20, a lower-case letter in
	// First or Second also matches its upper case.
	FirstOr, SecondOr byte
}

// Index returns the first i such that the pair begins at buf[i], or -1.
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
