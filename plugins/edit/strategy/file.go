package strategy

import (
	"bytes"
	"slices"

	"toolhost.dev/sdk/workspace/text"
)

// file is a text with normalized line endings, in which every line ends with a line feed. The normalized form is
// called LF space. Offsets and lines refer to LF space unless noted otherwise. Lines count from 0.
type file struct {
	text []byte // the original text
	lf   []byte // the normalized text
	cr   bool   // true if the original lines end with a single carriage return
	// big is the most frequent line ending of a text that is too large to convert. In that case, the field "lf"
	// contains the original text, and searched texts must use this line ending. For other texts, big is empty.
	big string

	samples []int32 // offset in the original text, for every 256th offset; nil if both texts have the same offsets
	starts  []int32 // offset of each line, followed by the offset of the end of the text

	unit int  // number of spaces of an indentation level; see the method indentation
	char byte // indentation character; 0 until the method indentation is called
}

// sampleStep is the distance between two stored offsets. A larger step saves memory but lengthens each search.
const sampleStep = 256

func newFile(content []byte) *file {
	f := &file{text: content, lf: content}
	switch {
	case len(content) > MaxFuzzy:
		f.big = text.CountLineEndings(content).Main().Bytes()
	case bytes.IndexByte(content, '\r') < 0:
	case bytes.IndexByte(content, '\n') < 0:
		f.cr, f.lf = true, bytes.ReplaceAll(content, []byte{'\r'}, []byte{'\n'})
	case bytes.Contains(content, []byte("\r\n")):
		f.lf = make([]byte, 0, len(content))
		for i := 0; i < len(content); i++ {
			if len(f.lf)%sampleStep == 0 && len(f.lf)/sampleStep == len(f.samples) {
				f.samples = append(f.samples, int32(i))
			}
			if content[i] == '\r' && i+1 < len(content) && content[i+1] == '\n' {
				i++
			}
			f.lf = append(f.lf, content[i])
		}
		if len(f.lf)/sampleStep == len(f.samples) {
			f.samples = append(f.samples, int32(len(content)))
		}
	}
	return f
}

// original converts an offset to an offset in the original text. For a line feed that was a CR LF in the original text,
// it returns the offset of the CR.
func (f *file) original(offset int) int {
	if f.samples == nil {
		return offset
	}
	at := offset / sampleStep * sampleStep
	o := int(f.samples[offset/sampleStep])
	for ; at < offset; at++ {
		if f.text[o] == '\r' && o+1 < len(f.text) && f.text[o+1] == '\n' {
			o++
		}
		o++
	}
	return o
}

// split computes the offsets of the lines. A line feed at the end of the text does not begin another line.
func (f *file) split() {
	if f.starts != nil {
		return
	}
	f.starts = make([]int32, 1, bytes.Count(f.lf, []byte{'\n'})+2)
	for at := 0; at < len(f.lf); {
		i := bytes.IndexByte(f.lf[at:], '\n')
		if i < 0 {
			i = len(f.lf) - at - 1
		}
		at += i + 1
		f.starts = append(f.starts, int32(at))
	}
}

// lines returns the number of lines.
func (f *file) lines() int {
	f.split()
	return len(f.starts) - 1
}

// line returns a line without its ending.
func (f *file) line(i int) []byte {
	return bytes.TrimSuffix(f.lf[f.starts[i]:f.starts[i+1]], []byte{'\n'})
}

// start returns the offset of a line. For the line after the last line, it returns the length of the text.
func (f *file) start(i int) int { return int(f.starts[i]) }

// lineOf returns the line that begins at the offset start.
func (f *file) lineOf(start int) int {
	i, _ := slices.BinarySearch(f.starts, int32(start))
	return i
}

// lineAt returns the 1-based number of the line that contains an offset.
func (f *file) lineAt(offset int) int { return bytes.Count(f.lf[:offset], []byte{'\n'}) + 1 }

// ending returns the original line ending of the line at an offset. If the last line has no line ending, the
// result is the ending of the previous line.
func (f *file) ending(offset int) string {
	if f.cr {
		return "\r"
	}
	if f.big != "" {
		return f.big
	}
	if f.samples == nil {
		return "\n"
	}
	i := bytes.IndexByte(f.lf[offset:], '\n')
	if i >= 0 {
		i += offset
	} else if i = bytes.LastIndexByte(f.lf[:offset], '\n'); i < 0 {
		return "\n"
	}
	if f.text[f.original(i)] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// endsLine reports whether a range ends at the end of a line.
func (f *file) endsLine(from, to int) bool { return to > from && f.lf[to-1] == '\n' }

// lineBreak returns the last byte of the file's original line endings.
func (f *file) lineBreak() []byte {
	if f.cr {
		return []byte{'\r'}
	}
	return []byte{'\n'}
}

// terminated reports whether the last line has a line ending.
func (f *file) terminated() bool {
	if f.big != "" { // the last line ending can differ from the most frequent line ending
		return bytes.HasSuffix(f.text, []byte(f.big[len(f.big)-1:]))
	}
	return len(f.lf) > 0 && f.lf[len(f.lf)-1] == '\n'
}

// fuzzy reports whether the file is small enough for all strategies. Large files allow only the exact strategy.
func (f *file) fuzzy() bool { return f.big == "" && f.lines() <= maxFuzzyLines }
