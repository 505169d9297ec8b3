package strategy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBlankRun is how long a run of blanks in the file may be to stand for one in old.
const maxBlankRun = 12

func findNormalised(s *search) (match, error) {
	sites := s.equalLines(s.edit.Old, normalKey)
	if len(sites) == 0 && !s.edit.WholeLines {
		sites = s.insideLines(s.edit.Old)
	}
	return s.match(sites), nil
}

// insideLines returns every place inside a line that is equal to a single line of old.
// It must not begin or end in the middle of a word.
func (s *search) insideLines(old string) []site {
	if strings.Contains(old, "\n") || strings.TrimFunc(old, isBlank) != old {
		return nil
	}
	needle := string(normalKey(nil, []byte(old)))
	if needle == "" {
		return nil
	}
	first, _ := utf8.DecodeRuneInString(needle)
	last, _ := utf8.DecodeLastRuneInString(needle)
	f := s.file
	var sites []site
	var flat flattened
	for i := range f.lines() {
		line := f.line(i)
		if len(line) > maxInside {
			continue
		}
		flat.set(line)
		for at := 0; len(sites) < s.wanted(); {
			n := strings.Index(flat.text[at:], needle)
			if n < 0 {
				break
			}
			from, to := at+n, at+n+len(needle)
			at = from + 1
			before, _ := utf8.DecodeLastRuneInString(flat.text[:from])
			after, _ := utf8.DecodeRuneInString(flat.text[to:])
			if isWord(before) && isWord(first) || isWord(after) && isWord(last) {
				continue
			}
			begin, end, ok := flat.span(from, to)
			if !ok {
				continue
			}
			if s.edit.All {
				at = to
			}
			sites = append(sites, site{from: f.start(i) + begin, to: f.start(i) + end, kind: inLine})
		}
	}
	return sites
}

// maxInside is how long a line may be in bytes to be looked into.
const maxInside = 1 << 20

func isWord(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// flattened is a line with short runs of blanks as one, in characters of a keyboard,
// whose offsets lead back.
type flattened struct {
	text  string
	begin []int32 // for each byte of text, where what it stands for begins in the line
	end   []int32 // and ends
	buf   []byte
}

func (f *flattened) set(line []byte) {
	f.buf, f.begin, f.end = f.buf[:0], f.begin[:0], f.end[:0]
	put := func(s string, from, to int) {
		for range len(s) {
			f.begin, f.end = append(f.begin, int32(from)), append(f.end, int32(to))
		}
		f.buf = append(f.buf, s...)
	}
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		to, special := fold(r)
		switch {
		case isBlank(r):
			run := 0
			from := i
			for ; i < len(line); i += size {
				if r, size = utf8.DecodeRune(line[i:]); !isBlank(r) {
					break
				}
				run++
			}
			if run <= maxBlankRun {
				put(" ", from, i)
			} else {
				put(string(line[from:i]), from, i)
			}
			continue
		case special:
			put(to, i, i+size)
		default:
			put(string(line[i:i+size]), i, i+size)
		}
		i += size
	}
	f.text = string(f.buf)
}

// span returns the range of the line for one of the text; ok is false if a character of
// the line would be cut.
func (f *flattened) span(from, to int) (begin, end int, ok bool) {
	cut := from > 0 && f.begin[from] == f.begin[from-1] || to < len(f.begin) && f.begin[to] == f.begin[to-1]
	return int(f.begin[from]), int(f.end[to-1]), !cut
}
