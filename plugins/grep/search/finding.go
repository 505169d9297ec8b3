package search

import (
	"bytes"
	"io"
)

// finding is the search of one file. Positions are offsets in the current buffer, which a search by line rolls forward.
type finding struct {
	s      *Searcher
	binary binary
	window Window
	result Result

	base    int64 // offset of the buffer in the file
	line    int   // line number at counted
	counted int
	visited int // end of the last line taken
	pos     int // where the search continues
	after   int // lines of context after a match still to take
	kept    int // memory of the lines taken, in bytes
}

// lineCost is the memory of a line besides its text.
const lineCost = 64

// byLine searches line by line.
func (f *finding) byLine(src io.Reader) error {
	b := &f.s.buf
	b.reset(src, f.binary)
	for {
		if err := f.s.ctx.Err(); err != nil {
			return err
		}
		old := len(b.bytes())
		consumed := f.roll(b.bytes())
		b.consume(consumed)
		ok, err := b.fill()
		if b.nul >= 0 && f.result.Binary < 0 {
			f.result.Binary = b.nul
		}
		if err != nil {
			return err
		}
		if !ok || f.binary == quit && b.nul >= 0 || consumed == 0 && old > 0 && old == len(b.bytes()) {
			return nil
		}
		f.base = b.offset
		if more, err := f.lines(b.bytes()); !more || err != nil {
			return err
		}
	}
}

// roll returns the length of the part of the buffer that is not needed as context of a later line.
func (f *finding) roll(buf []byte) (consumed int) {
	consumed = len(buf)
	if f.s.opts.Before > 0 || f.s.opts.After > 0 {
		consumed = max(f.visited, preceding(buf, f.s.opts.Before))
	}
	f.count(buf, consumed)
	f.counted, f.visited = 0, 0
	f.pos = len(buf) - consumed
	return consumed
}

// preceding returns the beginning of the line that is n lines before the last one.
func preceding(buf []byte, n int) int {
	end := len(bytes.TrimSuffix(buf, []byte("\n")))
	for {
		i := bytes.LastIndexByte(buf[:end], '\n')
		if i < 0 || n == 0 {
			return i + 1
		}
		end = i
		n--
	}
}

// lines searches the current lines. It reports whether to continue.
func (f *finding) lines(buf []byte) (more bool, err error) {
	if more, err := f.linesBelow(buf, len(buf)); !more || err != nil {
		return false, err
	}
	return f.afterContext(buf, len(buf)), nil
}

// linesBelow searches the lines before a position at the end of a line.
func (f *finding) linesBelow(buf []byte, to int) (more bool, err error) {
	for f.pos < to {
		start, end, ok, err := f.s.m.NextLine(buf[:to], f.pos)
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		if !f.context(buf, start) {
			return false, nil
		}
		f.pos = end
		column := 0
		if f.wanted() {
			if column, err = f.s.m.InLine(buf, start, end); err != nil {
				return false, err
			}
		}
		if !f.match(buf, start, end, []mark{{start, column}}) {
			return false, nil
		}
	}
	f.pos = to
	return true, nil
}

// wanted reports whether to keep the lines of the next match.
func (f *finding) wanted() bool {
	return f.s.opts.Mode == Lines && f.window.From <= f.result.Matches && f.result.Matches < f.window.To
}

// context takes the context lines between the last line taken and a match. It reports whether to continue.
func (f *finding) context(buf []byte, upto int) bool {
	if !f.afterContext(buf, upto) {
		return false
	}
	return !f.wanted() || f.beforeContext(buf, upto)
}

func (f *finding) beforeContext(buf []byte, upto int) bool {
	if f.s.opts.Before == 0 || f.visited >= upto {
		return true
	}
	from := f.visited + preceding(buf[f.visited:upto], f.s.opts.Before-1)
	return f.takeContext(buf, from, upto)
}

// afterContext takes the remaining context lines after the previous match.
func (f *finding) afterContext(buf []byte, upto int) bool {
	for f.after > 0 && f.visited < upto {
		if !f.takeContext(buf, f.visited, lineEnd(buf, f.visited)) {
			return false
		}
		f.after--
	}
	return true
}

// lineEnd returns the end of the line that contains a position.
func lineEnd(buf []byte, pos int) int {
	if i := bytes.IndexByte(buf[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(buf)
}

// mark is the beginning of a match within a block of matched lines.
type mark struct {
	line   int // beginning of its first line
	column int // from 0
}

// match takes the lines of a match, or of several matches in consecutive lines. It reports whether to continue.
func (f *finding) match(buf []byte, start, end int, marks []mark) bool {
	if f.ends(buf, start, end) {
		return false
	}
	switch {
	case f.s.opts.Mode == Lines && f.hides():
		f.result.BinaryMatch = true
		return false
	case f.s.opts.Mode != Lines:
		f.result.Matches += len(marks)
		return f.s.opts.Mode == Count
	}
	first := min(len(marks), max(0, f.window.From-f.result.Matches))
	last := max(first, min(len(marks), f.window.To-f.result.Matches))
	f.result.Matches += len(marks)
	if first == last { // the lines may still be context after the previous match
		return f.afterContext(buf, end)
	}
	if first > 0 { // the lines before may be context of the first match wanted
		start = marks[first].line
		if !f.beforeContext(buf, start) {
			return false
		}
	}
	if last < len(marks) {
		end = marks[last].line
	}
	f.take(buf, start, end, marks[first:last], true)
	f.after = f.s.opts.After
	return true
}

// takeContext takes context lines. It reports whether to continue.
func (f *finding) takeContext(buf []byte, start, end int) bool {
	if f.ends(buf, start, end) {
		return false
	}
	if !f.hides() {
		f.take(buf, start, end, nil, false)
	}
	f.visited = end
	return true
}

// take adds lines to the result.
func (f *finding) take(buf []byte, start, end int, marks []mark, match bool) {
	f.visited = end
	for start < end {
		next := lineEnd(buf, start)
		f.count(buf, start)
		column := 0
		if len(marks) > 0 && marks[0].line == start {
			column, marks = marks[0].column+1, marks[1:]
		}
		line := cut(bytes.TrimSuffix(buf[start:next], []byte("\n")), max(0, column-1), f.s.opts.MaxLine)
		line.Number, line.Match, line.Column = f.line, match, column
		f.result.Lines = append(f.result.Lines, line)
		f.kept += len(line.Text) + lineCost
		start = next
	}
	if f.kept > MaxKept {
		f.window = Window{}
	}
}

// ends checks found lines for a NUL byte if the search does not check all bytes. It reports whether the search ends
// there.
func (f *finding) ends(buf []byte, start, end int) bool {
	if f.binary == convert || f.binary == quit && !f.s.m.Crossing() {
		return false
	}
	if f.result.Binary < 0 {
		i := bytes.IndexByte(buf[start:end], 0)
		if i < 0 {
			return false
		}
		f.result.Binary = f.base + int64(start+i)
	}
	return f.binary == quit
}

// hides reports whether lines are not shown because the file contains a NUL byte.
func (f *finding) hides() bool { return f.binary != quit && f.result.Binary >= 0 }

// count counts the lines before a position.
func (f *finding) count(buf []byte, upto int) {
	if upto > f.counted {
		f.line += bytes.Count(buf[f.counted:upto], []byte("\n"))
		f.counted = upto
	}
}
