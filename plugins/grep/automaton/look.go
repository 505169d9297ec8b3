package automaton

import (
	"unicode/utf8"

	"toolhost.dev/plugins/grep/syntax"
)

// side is a set of flags that describe the text on one side of a position. Conditions such as \b test these flags.
type side uint8

const (
	edge      side = 1 << iota // the beginning or end of the text
	lineFeed                   // "\n"
	carriage                   // "\r"
	word                       // a word character
	wordASCII                  // an ASCII word character
	invalid                    // bytes that are not UTF-8

	allSides = invalid << 1 // greater than every combination of flags
)

// seen returns the flags that a condition tests. All other flags are irrelevant to the condition.
func seen(l syntax.Look) side {
	switch l {
	case syntax.StartText, syntax.EndText:
		return edge
	case syntax.StartLine, syntax.EndLine:
		return edge | lineFeed
	case syntax.StartCRLF, syntax.EndCRLF:
		return edge | lineFeed | carriage
	case syntax.NotWord, syntax.WordStartHalf, syntax.WordEndHalf:
		return word | invalid
	}
	if l < syntax.WordASCII {
		return word
	}
	return wordASCII
}

// holds reports whether a condition is true at a position. The arguments "before" and "after" are the flags on
// the two sides of the position.
func holds(l syntax.Look, before, after side) bool {
	switch l {
	case syntax.StartText:
		return before&edge != 0
	case syntax.EndText:
		return after&edge != 0
	case syntax.StartLine:
		return before&(edge|lineFeed) != 0
	case syntax.EndLine:
		return after&(edge|lineFeed) != 0
	case syntax.StartCRLF:
		return before&(edge|lineFeed) != 0 || before&carriage != 0 && after&lineFeed == 0
	case syntax.EndCRLF:
		return after&(edge|carriage) != 0 || after&lineFeed != 0 && before&carriage == 0
	// Between bytes that are not UTF-8, it is unknown whether the position is inside a word. At such a position, the
	// condition is false.
	case syntax.NotWord:
		return before&word == after&word && (before|after)&invalid == 0
	case syntax.WordStartHalf:
		return before&(word|invalid) == 0
	case syntax.WordEndHalf:
		return after&(word|invalid) == 0
	}
	is := word
	if l >= syntax.WordASCII {
		is, l = wordASCII, l-syntax.WordASCII+syntax.Word
	}
	b, a := before&is != 0, after&is != 0
	switch l {
	case syntax.Word:
		return b != a
	case syntax.NotWord:
		return b == a
	case syntax.WordStart:
		return !b && a
	case syntax.WordEnd:
		return b && !a
	case syntax.WordStartHalf:
		return !b
	}
	return !a // the remaining case is WordEndHalf
}

var words = syntax.Words()

// sideOf returns the flags that describe a symbol.
func sideOf(r rune) side {
	switch {
	case r == '\n':
		return lineFeed
	case r == '\r':
		return carriage
	case r >= syntax.RawByte:
		return invalid
	case r < utf8.RuneSelf:
		if r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return word | wordASCII
		}
		return 0
	case words.Has(r):
		return word
	}
	return 0
}

// sides returns the flags of the text before a position and the flags of the text after the position.
func sides(text []byte, pos int) (before, after side) {
	return sideBefore(text, pos), sideAfter(text, pos)
}

func sideBefore(text []byte, pos int) side {
	if pos == 0 {
		return edge
	}
	return sideOf(symbol(utf8.DecodeLastRune(text[:pos])))
}

func sideAfter(text []byte, pos int) side {
	if pos == len(text) {
		return edge
	}
	return sideOf(symbol(utf8.DecodeRune(text[pos:])))
}

// symbol returns the symbol of a decoded character. It returns the same symbol for all bytes that are not UTF-8,
// because conditions do not distinguish them.
func symbol(r rune, n int) rune {
	if r == utf8.RuneError && n <= 1 {
		return syntax.RawByte
	}
	return r
}
