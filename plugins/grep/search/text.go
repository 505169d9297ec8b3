package search

import "bytes"

// Part is a range of a text that consists of whole lines.
type Part struct{ From, To int }

// Text searches a text in memory. The text must not contain a byte order mark or a NUL byte. Every match must lie in
// one of the parts. If parts is nil, the whole text is searched. The result is the same as the result of
// [Searcher.Search] for a file with this text if the file's field Explicit is false.
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

// Decoded converts the content of a file to a text for [Searcher.Text]. If the content cannot be decoded or contains a
// NUL byte, ok is false. The result "nul" is the offset of the first NUL byte, or -1.
func Decoded(content []byte) (text []byte, nul int, ok bool) {
	if decoded, ok := legacy(content); ok {
		content = decoded
	}
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

// SureBinary reports whether it is certain that no pattern matches in a file, because each search ends at a NUL byte
// before any match. The argument "nul" is the offset of the first NUL byte. The result is valid only for files whose
// field Explicit is false.
func SureBinary(content []byte, nul int) bool {
	for _, m := range marks {
		if bytes.HasPrefix(content, m.bytes) {
			return false
		}
	}
	return nul >= 0 && nul < capacity
}
