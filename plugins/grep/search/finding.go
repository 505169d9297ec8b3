package search

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// finding is the state of the search in one file. Positions are offsets in the buffer. During a line-by-line search,
// the buffer moves forward in the file.
type finding struct {
	s      *Searcher
	binary binary
	window Window
	result Result

	base    int64 // offset of the buffer in the file
	line    int   // line number at the offset in the field "counted"
	counted int
	visited int  // end of the last line in the result
	pos     int  // offset at which the search continues
	after   int  // number of context lines that are still missing after the last match
	kept    int  // memory of the lines in the result, in bytes
	hits    int  // number of matching lines
	decoded bool // true if the encoding of the text needs no detection
}

// lineCost is the memory of a line in bytes without its text.
const lineCost = 64

// byLine searches a file line by line.
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
		if !f.decoded && !utf8.Valid(b.bytes()) {
			return errLegacy
		}
		if more, err := f.lines(b.bytes()); !more || err != nil || f.full() && f.after == 0 {
			return err
		}
	}
}

// roll returns how many bytes at the start of the buffer are not needed as context of later lines.
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

// preceding returns the beginning of the line that is n lines before the last line of buf.
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

// lines searches the lines in the buffer. It reports whether the search continues.
func (f *finding) lines(buf []byte) (more bool, err error) {
	if more, err := f.linesBelow(buf, len(buf)); !more || err != nil {
		return false, err
	}
	return f.afterContext(buf, len(buf)), nil
}

// linesBelow searches the lines in buf[:to], which must end with a whole line.
func (f *finding) linesBelow(buf []byte, to int) (more bool, err error) {
	next := f.s.m.NextLine
	if f.s.opts.Invert {
		next = f.others()
	}
	for f.pos < to && !f.full() {
		start, end, ok, err := next(buf[:to], f.pos)
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
		if f.wanted() && !f.s.opts.Invert {
			if column, err = f.s.m.InLine(buf, start, end); err != nil {
				return false, err
			}
		}
		marks, err := f.marks(buf, start, end, column)
		if err != nil {
			return false, err
		}
		if !f.match(buf, start, end, marks) {
			return false, nil
		}
	}
	f.pos = to
	return true, nil
}

// full reports whether the file has its maximum number of matching lines.
func (f *finding) full() bool { return f.s.opts.MaxCount > 0 && f.hits >= f.s.opts.MaxCount }

// marks returns the matches in a matching line. Most options need only the first match.
func (f *finding) marks(buf []byte, start, end, column int) ([]mark, error) {
	f.hits++
	if !f.s.opts.Each || f.s.opts.Mode != Count || f.s.opts.Invert {
		return []mark{{start, column}}, nil
	}
	line := bytes.TrimSuffix(buf[start:end], []byte("\n"))
	n, err := f.countIn(line, 0, end-start)
	return make([]mark, max(1, n)), err
}

// others returns a function that finds the first line without a match. The function has the same form as
// NextLine, which finds the first line with a match.
func (f *finding) others() func(buf []byte, pos int) (start, end int, ok bool, err error) {
	from, to := -1, -1 // the next matching line; unknown before the first search
	return func(buf []byte, pos int) (int, int, bool, error) {
		for pos < len(buf) {
			if pos >= to {
				start, end, ok, err := f.s.m.NextLine(buf, pos)
				if err != nil {
					return 0, 0, false, err
				}
				if from, to = start, end; !ok {
					from, to = len(buf), len(buf)
				}
			}
			if pos < from {
				return pos, lineEnd(buf, pos), true, nil
			}
			pos = to
		}
		return 0, 0, false, nil
	}
}

// parts returns the single matches in a line.
func (f *finding) parts(line []byte) []Match {
	out := []Match{}
	text := bytes.TrimSuffix(line, []byte("\n"))
	_ = f.eachIn(text, 0, len(line), func(start, end int) { // the line was already searched, so an error would have ended the search
		part := cut(text[start:end], 0, f.s.opts.MaxLine)
		out = append(out, Match{Text: part.Text, Column: start + 1, Cut: part.CutAfter})
	})
	return out
}

// wanted reports whether the lines of the next match belong to the result.
func (f *finding) wanted() bool {
	return f.s.opts.Mode == Lines && f.window.From <= f.result.Matches && f.result.Matches < f.window.To
}

// context adds the context lines between the last line in the result and a match. It reports whether the search
// continues.
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

// afterContext adds the missing context lines of the last match. It stops at the offset "upto".
func (f *finding) afterContext(buf []byte, upto int) bool {
	for f.after > 0 && f.visited < upto {
		if !f.takeContext(buf, f.visited, lineEnd(buf, f.visited)) {
			return false
		}
		f.after--
	}
	return true
}

// lineEnd returns the end of the line that contains a position. The end is after the line break.
func lineEnd(buf []byte, pos int) int {
	if i := bytes.IndexByte(buf[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(buf)
}

// mark is the start of a match within a block of matching lines.
type mark struct {
	line   int // offset of the match's first line
	column int // column of the match, from 0
}

// match adds the lines of a match, or of several matches in consecutive lines. It reports whether the search
// continues.
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
		return f.s.opts.Mode == Count || f.s.opts.Invert // ripgrep also reads an inverted file to its end
	}
	first := min(len(marks), max(0, f.window.From-f.result.Matches))
	last := max(first, min(len(marks), f.window.To-f.result.Matches))
	f.result.Matches += len(marks)
	if first == last { // no match is wanted, but the lines can be context of the last match
		return f.afterContext(buf, end)
	}
	if first > 0 { // lines of skipped matches can be context of the first match in the window
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

// takeContext adds context lines. It reports whether the search continues.
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

// take adds lines to the result of the search.
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
		if match && f.s.opts.Only {
			line.Parts = f.parts(buf[start:next])
		}
		f.result.Lines = append(f.result.Lines, line)
		f.kept += len(line.Text) + lineCost
		start = next
	}
	if f.kept > MaxKept {
		f.window = Window{}
	}
}

// ends checks matching lines for a NUL byte if the lines are not yet checked. It reports whether the search ends
// at these lines.
func (f *finding) ends(buf []byte, start, end int) bool {
	if f.binary == convert || f.binary == asText || f.binary == quit && !f.s.m.Crossing() {
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

// hides reports whether matching lines are omitted because the file contains a NUL byte.
func (f *finding) hides() bool { return f.binary != quit && f.binary != asText && f.result.Binary >= 0 }

// count advances the line number to the line at an offset.
func (f *finding) count(buf []byte, upto int) {
	if upto > f.counted {
		f.line += bytes.Count(buf[f.counted:upto], []byte("\n"))
		f.counted = upto
	}
}
