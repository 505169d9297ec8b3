// Package match finds where a text stands in a file and replaces it there. It works on
// ranges of the file's own bytes: everything outside of them stays as it is.
package match

import (
	"bytes"
	"slices"
)

// Range is a span of bytes, the end excluded.
type Range struct{ Start, End int }

// Source is a file's text, prepared for matching: lines are compared as if they
// ended with a line feed alone, however they end in the file.
type Source struct {
	text []byte
	lf   []byte
	// crs are the offsets in lf of the line feeds that a carriage return precedes in text.
	crs []int
}

// NewSource prepares a text.
func NewSource(text []byte) *Source {
	s := &Source{text: text, lf: text}
	if !bytes.Contains(text, []byte("\r\n")) {
		return s
	}
	s.lf = make([]byte, 0, len(text))
	for i, c := range text {
		if c == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			s.crs = append(s.crs, len(s.lf))
			continue
		}
		s.lf = append(s.lf, c)
	}
	return s
}

// original turns an offset in the compared text into one in the file's text.
func (s *Source) original(offset int) int {
	before, _ := slices.BinarySearch(s.crs, offset)
	return offset + before
}

// Exact gives every place where old stands literally, overlapping ones too.
func (s *Source) Exact(old string) []Range {
	needle := normalize(old)
	if len(needle) == 0 {
		return nil
	}
	var found []Range
	for at := 0; ; {
		i := bytes.Index(s.lf[at:], needle)
		if i < 0 {
			return found
		}
		start := at + i
		found = append(found, Range{s.original(start), s.original(start + len(needle))})
		at = start + 1
	}
}

// Disjoint leaves out each range that overlaps the one kept before it.
func Disjoint(ranges []Range) []Range {
	var kept []Range
	for _, r := range ranges {
		if len(kept) == 0 || r.Start >= kept[len(kept)-1].End {
			kept = append(kept, r)
		}
	}
	return kept
}

// Replace puts replacement, literally, in the place of each range. Its lines get the
// given ending. The ranges are disjoint and ascending.
func (s *Source) Replace(ranges []Range, replacement, ending string) []byte {
	with := bytes.ReplaceAll(normalize(replacement), []byte("\n"), []byte(ending))
	var out bytes.Buffer
	at := 0
	for _, r := range ranges {
		out.Write(s.text[at:r.Start])
		out.Write(with)
		at = r.End
	}
	out.Write(s.text[at:])
	return out.Bytes()
}

// Line gives the number, from 1, of the line that holds an offset of the file's text.
func (s *Source) Line(offset int) int {
	return bytes.Count(s.text[:offset], []byte("\n")) + 1
}

// LastLine gives the number of the last line that a range touches.
func (s *Source) LastLine(r Range) int {
	end := r.End
	if end > r.Start && s.text[end-1] == '\n' {
		end--
	}
	return s.Line(end)
}

func normalize(s string) []byte { return bytes.ReplaceAll([]byte(s), []byte("\r\n"), []byte("\n")) }
