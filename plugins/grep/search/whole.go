package search

import (
	"bytes"
	"io"
)

// lookAhead is the number of bytes after the lines of a match that are also searched. The search counts the matches
// in these lines.
const lookAhead = 128

// whole searches a file as one text. The argument "size" only sets the initial capacity and can be wrong.
func (f *finding) whole(src io.Reader, size int64) error {
	var all bytes.Buffer
	all.Grow(int(size) + bytes.MinRead) // ReadFrom detects the end of the file only with free space in the buffer
	if _, err := all.ReadFrom(io.LimitReader(src, MaxWhole+1)); err != nil {
		return err
	}
	if all.Len() > MaxWhole {
		return ErrTooLarge
	}
	buf := all.Bytes()
	if !f.decoded {
		if decoded, ok := legacy(buf); ok {
			buf = decoded
		}
	}
	if f.binary == asText {
		return f.across(buf)
	}
	if f.result.Binary = int64(bytes.IndexByte(buf[:min(len(buf), capacity)], 0)); f.result.Binary >= 0 &&
		f.binary == quit {
		return nil
	}
	return f.across(buf)
}

// across searches a text in which a match can span lines.
func (f *finding) across(buf []byte) error {
	var b block
	for f.pos < len(buf) && !f.full() {
		// Each search treats the rest of the buffer as a new text, so the pattern cannot test the text before it.
		start, end, ok, err := f.s.m.Find(buf[f.pos:], 0)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		start, end = start+f.pos, end+f.pos
		if f.pos = end; start == end {
			f.pos++
		}
		f.hits++
		if b.add(buf, start, end) {
			continue
		}
		if more, err := f.block(buf, b); !more || err != nil {
			return err
		}
		b = block{}
		b.add(buf, start, end)
	}
	f.pos = len(buf)
	if len(b.marks) > 0 {
		if _, err := f.block(buf, b); err != nil {
			return err
		}
	}
	f.afterContext(buf, len(buf))
	return nil
}

// block is a sequence of consecutive lines that contain matches.
type block struct {
	start, end int
	marks      []mark
}

// add adds a match to the block. It returns false if the block and the match are separated by other lines.
func (b *block) add(buf []byte, start, end int) bool {
	from := bytes.LastIndexByte(buf[:start], '\n') + 1
	to := end
	if end <= from || buf[end-1] != '\n' {
		to = lineEnd(buf, end)
	}
	if len(b.marks) > 0 && b.end < from {
		return false
	}
	if len(b.marks) == 0 {
		b.start = from
	}
	if len(b.marks) == 0 || from >= b.end {
		b.marks = append(b.marks, mark{from, start - from})
	}
	b.end = to
	return true
}

// block adds the lines of a block to the result. It reports whether the search continues.
func (f *finding) block(buf []byte, b block) (more bool, err error) {
	if b.start == b.end { // an empty match after the last line break is in no line
		return false, nil
	}
	if !f.context(buf, b.start) {
		return false, nil
	}
	if n := len(b.marks); b.marks[n-1].line == len(buf) {
		b.marks = b.marks[:n-1]
	}
	if f.s.opts.Mode == Count {
		n, err := f.countIn(buf[:min(len(buf), b.end+lookAhead)], b.start, b.end)
		if err != nil {
			return false, err
		}
		b.marks = make([]mark, max(1, n))
	}
	return f.match(buf, b.start, b.end, b.marks), nil
}

// countIn returns the number of matches that begin in the range [from,to) of a text.
func (f *finding) countIn(text []byte, from, to int) (n int, err error) {
	err = f.eachIn(text, from, to, func(int, int) { n++ })
	return n, err
}

// eachIn calls the function "do" for each match that begins in the range [from,to) of a text.
func (f *finding) eachIn(text []byte, from, to int, do func(start, end int)) error {
	last := -1 // end of the previous match; -1 before the first match
	for pos := from; pos <= len(text); {
		start, end, ok, err := f.s.m.Find(text, pos)
		if err != nil || !ok {
			return err
		}
		if start == end && end == last {
			if pos++; pos > len(text) {
				return nil
			}
			if start, end, ok, err = f.s.m.Find(text, pos); err != nil || !ok {
				return err
			}
		}
		if start >= to {
			return nil
		}
		do(start, end)
		pos, last = end, end
	}
	return nil
}
