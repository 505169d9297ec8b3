package excerpt

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// region is a sequence of lines from which an excerpt is made.
type region struct {
	data  []byte
	first int // number of the first line of the region
	// This map contains the number of missing bytes of each line whose end is not in data. The key is the number of the
	// line.
	hidden map[int]int64
}

// next splits data after its first line. It returns the line without its ending and the rest of data. If
// data contains no line feed, rest is nil.
func next(data []byte) (line, rest []byte) {
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		return data, nil
	}
	line, rest = data[:i], data[i+1:]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, rest
}

// shown returns the part of a line that the excerpt contains, and the number of omitted bytes.
func (r *region) shown(number int, line []byte) ([]byte, int64) {
	hidden := r.hidden[number]
	if len(line) <= MaxLineChars {
		return line, hidden
	}
	n := 0
	for range MaxLineChars {
		if n == len(line) {
			return line, hidden
		}
		_, size := utf8.DecodeRune(line[n:])
		n += size
	}
	return line[:n], int64(len(line)-n) + hidden
}

// render returns the excerpt for a window. The argument "last" is the number of the last existing line.
func (r *region) render(w Window, last int) Excerpt {
	e := Excerpt{Start: r.first, End: last}
	if w.Lines > 0 {
		e.End = min(e.End, r.first+w.Lines-1)
	}
	if limit := r.first + MaxLines - 1; limit < e.End {
		e.End, e.Capped = limit, ByLines
	}
	size, plain := r.measure(&e, w.Numbers)
	toEnd := e.Capped == NotCapped && (w.Lines == 0 || w.Lines > e.End-e.Start+1)
	if !plain || w.Numbers {
		e.Text = r.format(&e, w.Numbers, toEnd)
		return e
	}
	// In most cases, the excerpt contains every line unchanged. Then one copy of the whole text is enough.
	text := r.data[:size]
	if !toEnd {
		text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	e.Text = string(text)
	return e
}

// measure reduces e.End if the excerpt exceeds the byte limit, and counts the shortened lines. The result "size" is the
// length of the remaining lines in data. The result "plain" is true if all lines can be returned unchanged.
func (r *region) measure(e *Excerpt, numbers bool) (size int, plain bool) {
	prefix := 0
	if numbers {
		prefix = len(strconv.Itoa(e.End)) + len("| ")
	}
	rest, used, plain := r.data, 0, true
	for number := r.first; number <= e.End; number++ {
		whole, after := next(rest)
		line, cut := whole, int64(0)
		if len(whole) > MaxLineChars || r.hidden != nil {
			line, cut = r.shown(number, whole)
		}
		used += prefix + len(line) + len("\n")
		if cut > 0 {
			used += len(cutNote(cut))
		}
		if used > MaxBytes && number > r.first {
			e.End, e.Capped = number-1, ByBytes
			break
		}
		step := len(rest) - len(after)
		ending := step - len(whole)
		plain = plain && cut == 0 && ending < len("\r\n")
		if cut > 0 {
			e.CutLines++
		}
		size += step
		rest = after
	}
	return size, plain
}

// format formats the lines of an excerpt one by one.
func (r *region) format(e *Excerpt, numbers, toEnd bool) string {
	var b strings.Builder
	b.Grow(min(len(r.data)+8*(e.End-e.Start+1), MaxBytes))
	width := len(strconv.Itoa(e.End))
	rest := r.data
	var digits [20]byte
	for number := e.Start; number <= e.End; number++ {
		line, after := next(rest)
		line, cut := r.shown(number, line)
		if numbers {
			n := strconv.AppendInt(digits[:0], int64(number), 10)
			for range width - len(n) {
				b.WriteByte(' ')
			}
			b.Write(n)
			b.WriteString("| ")
		}
		b.Write(line)
		if cut > 0 {
			b.WriteString(cutNote(cut))
		}
		if number < e.End || toEnd && !numbers && after != nil {
			b.WriteByte('\n')
		}
		rest = after
	}
	return b.String()
}

func cutNote(bytes int64) string {
	return "… [line cut here: " + strconv.FormatInt(bytes, 10) + " more bytes]"
}
