package search

import "bytes"

// Part is a stretch of a text, of whole lines.
type Part struct{ From, To int }

// Text searches a text that is in memory, without a mark of its encoding. It must have
// no NUL byte. With parts, there is no match outside of them; nil: anywhere. It finds
// what [Searcher.Search] finds in a file that was not named by the caller.
func (s *Searcher) Text(text []byte, parts []Part, w Window) (Result, error) {
	f := &finding{s: s, binary: quit, window: w, result: Result{Binary: -1}, line: 1}
	if s.m.Crossing() {
		err := f.across(text)
		return f.result, err
	}
	if parts == nil {
		parts = []Part{{To: len(text)}}
	}
	for _, p := range parts {
		f.pos = max(f.pos, p.From)
		if more, err := f.linesBelow(text, p.To); !more || err != nil {
			return f.result, err
		}
	}
	f.afterContext(text, len(text))
	return f.result, nil
}

// Decoded returns the content of a file as a text for [Searcher.Text]. ok is false if it
// has a NUL byte, which is at nul.
func Decoded(content []byte) (text []byte, nul int, ok bool) {
	src, encoded, err := sniff(bytes.NewReader(content), make([]byte, min(len(content)+1, capacity)))
	text = content
	if err == nil && encoded {
		var all bytes.Buffer
		all.Grow(len(content) + bytes.MinRead)
		_, err = all.ReadFrom(src)
		text = all.Bytes()
	}
	if err != nil {
		return nil, -1, false
	}
	nul = bytes.IndexByte(text, 0)
	return text, nul, nul < 0
}

// SureBinary reports whether nothing is found in a file that was not named by the
// caller and has its first NUL byte at a place, whatever is searched for.
func SureBinary(content []byte, nul int) bool {
	for _, m := range marks {
		if bytes.HasPrefix(content, m.bytes) {
			return false
		}
	}
	return nul >= 0 && nul < capacity
}
