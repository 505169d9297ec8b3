// Package excerpt returns excerpts of a text for a language model. An excerpt is a limited number of consecutive
// lines, optionally with line numbers. Its size is limited, because a model's context is limited.
package excerpt

import "bytes"

// The following constants limit an excerpt. The first limit that is reached ends the excerpt.
const (
	MaxLines     = 2000
	MaxLineChars = 2000
	MaxBytes     = 50 << 10
)

// Window selects the lines of an excerpt.
type Window struct {
	// Start is the number of the first line, counted from 1.
	Start int
	// Lines is the maximum number of lines. 0 means all lines to the end of the text.
	Lines int
	// Numbers adds the line number in the form "%{width}d  " before each line.
	Numbers bool
}

// Cap is the limit that ended an excerpt before the end of its window.
type Cap string

// The values of [Cap].
const (
	NotCapped Cap = ""
	ByLines   Cap = "lines"
	ByBytes   Cap = "bytes"
)

// Excerpt is a part of a text, with the position of the part and the reason for its end.
type Excerpt struct {
	// Text contains the lines, joined by line feeds. It ends with a line feed only if three conditions hold: the
	// whole text ends with a line feed, the excerpt reaches the end of the text, and Numbers is false.
	Text string
	// Start and End are the numbers of the first and the last line in Text. If Text has no lines, Start and End are
	// 0.
	Start, End int
	// Total is the number of lines in the whole text. A line feed at the end of the text does not begin another
	// line.
	Total int
	// Counted is false if reading stopped before the end of the text. In this case, Total is the number of lines
	// that were read.
	Counted bool
	// Capped is the limit that ended the excerpt before the end of the window. It is empty if no lines of the window
	// are missing.
	Capped Cap
	// CutLines is the number of lines that are shortened in Text.
	CutLines int
}

// Whole reports whether the excerpt contains the whole text.
func (e *Excerpt) Whole() bool {
	return e.Counted && e.Start <= 1 && e.End == e.Total && e.CutLines == 0
}

// Of returns the excerpt that w selects from a text in memory. If the text has fewer than w.Start lines, the excerpt is
// empty.
func Of(content []byte, w Window) Excerpt {
	total := CountLines(content)
	w.Start = max(w.Start, 1)
	if w.Start > total {
		return Excerpt{Total: total, Counted: true}
	}
	if w == (Window{Start: 1}) && total <= MaxLines && len(content) <= MaxBytes && short(content) &&
		bytes.IndexByte(content, '\r') < 0 {
		// Most calls read a whole file whose lines need no change. In this case, return the text without a loop over
		// its lines.
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

// short reports whether every line has at most MaxLineChars bytes. From the start of a line, it jumps to the last line
// ending in the next MaxLineChars bytes. Therefore it examines only a few line endings.
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

// CountLines returns the number of lines in a text.
func CountLines(content []byte) int {
	n := bytes.Count(content, []byte{'\n'})
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return n
}
