// Package bytepair implements the search for two bytes at a given distance from each other. Two
// bytes of a text occur together at far fewer places than one.
package bytepair

import "bytes"

// Pair is two bytes, the second Distance (0 or more) behind the first.
type Pair struct {
	Distance      int
	First, Second byte
	// FirstOr and SecondOr are bits that are set in what is compared with the bytes: with 0x20, which First
	// must have, it may be a small or a capital letter.
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

// block is how many places are looked at in one step.
const block = 32
