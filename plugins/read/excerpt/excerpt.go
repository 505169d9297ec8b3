// Package excerpt implements excerpts of a text for a model: a limited number of lines from a line
// on, numbered on request, and never more than fits a model's context.
package excerpt

import "bytes"

// The limits of one excerpt. The first one that is reached ends it.
const (
	MaxLines     = 2000
	MaxLineChars = 2000
	MaxBytes     = 50 << 10
)

// Window says which lines are wanted.
type Window struct {
	// Start is the first line, counted from 1.
	Start int
	// Lines is how many; 0: up to the end.
	Lines int
	// Numbers puts "%{width}d| " before each line.
	Numbers bool
}

// Cap is what ended an excerpt early.
type Cap string

// The caps.
const (
	NotCapped Cap = ""
	ByLines   Cap = "lines"
	ByBytes   Cap = "bytes"
)

// Excerpt is a part of a text.
type Excerpt struct {
	// Text is the lines, joined by line feeds. It ends with one if the text does and
	// was wanted up to its end, without numbers.
	Text string
	// Start and End are the first and last line shown; both 0 if there is none.
	Start, End int
	// Total is the number of lines in the text. A final newline ends a line and begins none.
	Total int
	// Counted is false if Total is only what was seen before the scan was given up.
	Counted bool
	// Capped says which cap kept wanted lines out.
	Capped Cap
	// CutLines is the number of lines of which only the beginning is shown.
	CutLines int
}

// Whole reports whether everything in the text is shown.
func (e *Excerpt) Whole() bool {
	return e.Counted && e.Start <= 1 && e.End == e.Total && e.CutLines == 0
}

// Of takes the window out of a text that is in memory. An excerpt without lines
// means that the text has fewer than Start.
func Of(content []byte, w Window) Excerpt {
	total := CountLines(content)
	w.Start = max(w.Start, 1)
	if w.Start > total {
		return Excerpt{Total: total, Counted: true}
	}
	if w == (Window{Start: 1}) && total <= MaxLines && len(content) <= MaxBytes && short(content) && bytes.IndexByte(content, '\r') < 0 {
		// Most reads are of a whole file that needs nothing done to it.
		return Excerpt{Text: string(content), Start: 1, End: total, Total: total, Counted: true}
	}
	r := region{data: content, first: w.Start}
	for range w.Start - 1 {
		r.data = r.data[bytes.IndexByte(r.data, '\n')+1:]
	}
	e := r.render(w, total)
	e.Total, e.Counted = total, true
	return e
}

// short reports whether every line has at most MaxLineChars bytes. It looks for the
// last line ending that is near enough to the one before, so that it sees few of them.
func short(content []byte) bool {
	for len(content) > MaxLineChars {
		i := bytes.LastIndexByte(content[:MaxLineChars+1], '\n')
		if i < 0 {
			return false
		}
		content = content[i+1:]
	}
	return true
}

// CountLines counts the lines of a text.
func CountLines(content []byte) int {
	n := bytes.Count(content, []byte{'\n'})
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return n
}
