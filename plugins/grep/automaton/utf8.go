package automaton

import (
	"unicode/utf8"

	"toolhost.dev/plugins/grep/syntax"
)

// utf8Sequences converts a class to sequences of byte ranges. A text that matches one of the sequences is the encoding
// of one symbol of the class.
func utf8Sequences(set syntax.Class) [][]syntax.Range {
	var out [][]syntax.Range
	for _, r := range set {
		if r.Lo >= syntax.RawByte {
			out = append(out, []syntax.Range{{Lo: r.Lo - syntax.RawByte, Hi: r.Hi - syntax.RawByte}})
			continue
		}
		// Split the characters by the length of their encoding. The surrogates are excluded.
		for _, part := range [...]syntax.Range{{Lo: 0, Hi: 0x7F}, {Lo: 0x80, Hi: 0x7FF}, {Lo: 0x800, Hi: 0xD7FF},
			{Lo: 0xE000, Hi: 0xFFFF}, {Lo: 0x10000, Hi: utf8.MaxRune}} {
			if lo, hi := max(r.Lo, part.Lo), min(r.Hi, part.Hi); lo <= hi {
				var a, b [utf8.UTFMax]byte
				n := utf8.EncodeRune(a[:], lo)
				utf8.EncodeRune(b[:], hi)
				out = sequences(out, nil, a[:n], b[:n])
			}
		}
	}
	return out
}

// sequences appends the byte ranges that encode all characters from lo to hi. Each sequence begins with the ranges in
// "prefix". The encodings "lo" and "hi" have the same length.
func sequences(out [][]syntax.Range, prefix []syntax.Range, lo, hi []byte) [][]syntax.Range {
	if len(lo) == 0 {
		return append(out, prefix)
	}
	with := func(a, b byte) []syntax.Range {
		return append(prefix[:len(prefix):len(prefix)], syntax.Range{Lo: rune(a), Hi: rune(b)})
	}
	if lo[0] == hi[0] {
		return sequences(out, with(lo[0], lo[0]), lo[1:], hi[1:])
	}
	lowest, highest := []byte{0x80, 0x80, 0x80}[:len(lo)-1], []byte{0xBF, 0xBF, 0xBF}[:len(lo)-1]
	first, last := lo[0], hi[0]
	if string(lo[1:]) != string(lowest) {
		out = sequences(out, with(first, first), lo[1:], highest)
		first++
	}
	partial := string(hi[1:]) != string(highest)
	if partial {
		last--
	}
	if first <= last {
		out = sequences(out, with(first, last), lowest, highest)
	}
	if partial {
		out = sequences(out, with(hi[0], hi[0]), lowest, hi[1:])
	}
	return out
}
