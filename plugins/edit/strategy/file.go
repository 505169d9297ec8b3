package strategy

import (
	"bytes"
	"slices"

	"toolhost.dev/sdk/workspace/text"
)

// file is a text in LF space. Offsets and lines are those of LF space unless it is said
// otherwise; lines count from 0.
type file struct {
	text []byte // as it is
	lf   []byte // its lines end with a line feed
	cr   bool   // its lines end with a carriage return alone
	// big: the text is too large for another form of it. LF space is the text itself, and
	// what is looked for in it has the line endings that most lines have.
	big string

	samples []int32 // the offset in text of each sampleStep-th offset in LF space; nil: they are the same
	starts  []int32 // where each line begins, and the end

	unit int  // of indentation; see there
	char byte // 0: not looked at yet
}

// sampleStep bounds the walk to an offset, and the memory for walking.
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

// original turns an offset into one of the file's own bytes. That of a line feed is
// where its carriage return stands.
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

// split finds the lines. A final line feed begins no further line.
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

// start returns where a line begins; that of the line after the last is the end.
func (f *file) start(i int) int { return int(f.starts[i]) }

// lineOf returns the line that begins at an offset.
func (f *file) lineOf(start int) int {
	i, _ := slices.BinarySearch(f.starts, int32(start))
	return i
}

// lineAt returns the number, from 1, of the line that holds an offset.
func (f *file) lineAt(offset int) int { return bytes.Count(f.lf[:offset], []byte{'\n'}) + 1 }

// ending returns how the line at an offset ends in the file; for the last line without an
// ending, how the one before it does.
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

// endsLine reports whether a range ends where a line does.
func (f *file) endsLine(from, to int) bool { return to > from && f.lf[to-1] == '\n' }

// lineBreak is what each line of the file has at its end, whatever is before it.
func (f *file) lineBreak() []byte {
	if f.cr {
		return []byte{'\r'}
	}
	return []byte{'\n'}
}

// terminated reports whether the last line has an ending.
func (f *file) terminated() bool {
	if f.big != "" { // a line may end otherwise than most do
		return bytes.HasSuffix(f.text, []byte(f.big[len(f.big)-1:]))
	}
	return len(f.lf) > 0 && f.lf[len(f.lf)-1] == '\n'
}

// fuzzy reports whether more than an exact match may be looked for.
func (f *file) fuzzy() bool { return f.big == "" && f.lines() <= maxFuzzyLines }
