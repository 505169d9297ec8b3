// Package bytepair finds where two bytes stand at a given distance from each other. Where a text is
// looked for by two of its bytes instead of by one, there are few places at which it is not.
package bytepair

import "bytes"

// Index gives the first i with buf[i] == first and buf[i+distance] == second, or -1. distance is 0 or more.
func Index(buf []byte, distance int, first, second byte) int {
	places := len(buf) - distance
	if Fast && places >= block {
		return index(buf, distance, first, second)
	}
	for at := 0; at < places; at++ {
		i := bytes.IndexByte(buf[at:places], first)
		if i < 0 {
			return -1
		}
		if at += i; buf[at+distance] == second {
			return at
		}
	}
	return -1
}

// block is how many places are looked at in one step.
const block = 32
