package strategy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBlankRun is the maximum length of a run of blanks in the file that matches a single blank in old_string.
const maxBlankRun = 12

func findNormalised(s *search) (match, error) {
	sites := s.equalLines(s.edit.Old, normalKey)
	if len(sites) == 0 && !s.edit.WholeLines {
		sites = s.insideLines(s.edit.Old)
	}
	return s.match(sites), nil
}

// insideLines finds the text "old" inside lines of the file. The text contains no line feed. A site must not begin or
// end in the middle of a word.
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

// maxInside is the maximum length of a line in which insideLines searches, in bytes.
const maxInside = 1 << 20

func isWord(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// flattened is a normalized line: short runs of blanks become one blank, and typographic characters become ASCII.
// Offsets in the normalized line can be converted to offsets in the original line.
type flattened struct {
	text  string
	begin []int32 // for each byte of text, the start offset in the original line
	end   []int32 // for each byte of text, the end offset in the original line
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

// span converts a range of the normalized text to a range of the original line. The result "ok" is false if the range
// would split a character.
func (f *flattened) span(from, to int) (begin, end int, ok bool) {
	cut := from > 0 && f.begin[from] == f.begin[from-1] || to < len(f.begin) && f.begin[to] == f.begin[to-1]
	return int(f.begin[from]), int(f.end[to-1]), !cut
}
