// Package excerpt implements excerpts of a text for a model: a limited number of lines from a line
// on, numbered on request, and never more than fits a model's context.
package excerpt

import "bytes"

// The limits of one excerpt. It ends at the first limit reached.
const (
	MaxLines     = 2000
	MaxLineChars = 2000
	MaxBytes     = 50 << 10
)

// Window selects lines.
type Window struct {
	// Start is the first line, counted from 1.
	Start int
	// Lines is the number of lines; 0 means to the end.
	Lines int
	// Numbers adds "%{width}d| " before each line.
	Numbers bool
}

// Cap is the limit that ended an excerpt early.
type Cap string

// The caps.
const (
	NotCapped Cap = ""
	ByLines   Cap = "lines"
	ByBytes   Cap = "bytes"
)

// Excerpt is a part of a text.
type Excerpt struct {
	// Text contains the lines, joined by line feeds. It ends with a line feed if the text does, the window reaches the
	// end, and Numbers is not set.
	Text string
	// Start and End are the first and last line shown. Both are 0 if no line is shown.
	Start, End int
	// Total is the number of lines in the text. A final newline does not begin another line.
	Total int
	// Counted is false if the scan stopped early, so that Total counts only a part.
	Counted bool
	// Capped is the limit that excluded wanted lines.
	Capped Cap
	// CutLines is the number of lines that are shown only in part.
	CutLines int
}

// Whole reports whether the excerpt shows the whole text.
func (e *Excerpt) Whole() bool {
	return e.Counted && e.Start <= 1 && e.End == e.Total && e.CutLines == 0
}

// Of returns the window of a text in memory. The excerpt is empty if the text has fewer than Start lines.
func Of(content []byte, w Window) Excerpt {
	total := CountLines(content)
	w.Start = max(w.Start, 1)
	if w.Start > total {
		return Excerpt{Total: total, Counted: true}
	}
	if w == (Window{Start: 1}) && total <= MaxLines && len(content) <= MaxBytes && short(content) && bytes.IndexByte(content, '\r') < 0 {
		// Most reads are of a whole file that needs no changes.
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

// short reports whether every line has at most MaxLineChars bytes. It jumps to the last line ending within that
// distance, so it examines few line endings.
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
