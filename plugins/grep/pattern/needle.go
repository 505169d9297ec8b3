package pattern

import "bytes"

// needle looks for a text by its rarest byte, which is met less often than its first.
type needle struct {
	text []byte
	rare int // where the rarest byte is
}

// common are bytes in falling order of how often they are met in source code.
const common = " etaoinsrlcdpumf_0gh\tb.y,x1v()wk2;-3*=\n/4586q>79\"zj&#[]{}:+'IESTACRNDLPOMFUBGHVWXYKZQJ<|!%\\$@?~^`"

var rank = func() (r [256]int) {
	for i := range len(common) {
		r[common[i]] = len(common) - i
	}
	return r
}()

func newNeedle(text []byte) needle {
	l := needle{text: text}
	for i, b := range text {
		if rank[b] < rank[text[l.rare]] {
			l.rare = i
		}
	}
	return l
}

// index gives where the text is in buf, or -1.
func (l *needle) index(buf []byte) int {
	n := len(l.text)
	misses := 0
	for at := 0; at+n <= len(buf); {
		i := bytes.IndexByte(buf[at+l.rare:len(buf)-n+l.rare+1], l.text[l.rare])
		if i < 0 {
			return -1
		}
		at += i
		if string(buf[at:at+n]) == string(l.text) {
			return at
		}
		at++
		if misses++; misses > 8 && misses*32 > at { // the byte is not so rare here
			if i = bytes.Index(buf[at:], l.text); i >= 0 {
				i += at
			}
			return i
		}
	}
	return -1
}
