package syntax

import (
	"cmp"
	"slices"
	"unicode"
)

// RawByte is the first of the symbols that represent single bytes. The symbol of a byte b above 0x7F is RawByte+b.
// These symbols occur in text that is not UTF-8 and in classes under (?-u).
const RawByte rune = unicode.MaxRune + 1

// Range contains the symbols from Lo to Hi, including both.
type Range struct{ Lo, Hi rune }

// Class is a set of symbols, stored as sorted ranges with gaps between them.
type Class []Range

var (
	anyRune = Class{{0, unicode.MaxRune}}
	anyByte = Class{{0, 0x7F}, {RawByte + 0x80, RawByte + 0xFF}}
)

// normalize sorts ranges and merges ranges that overlap or are adjacent.
func normalize(c Class) Class {
	slices.SortFunc(c, func(a, b Range) int { return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi)) })
	out := c[:0]
	for _, r := range c {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

func (c Class) union(d Class) Class { return normalize(slices.Concat(c, d)) }

// minus returns the symbols of c that are not in d.
func (c Class) minus(d Class) Class {
	var out Class
	i := 0
	for _, r := range c {
		for i < len(d) && d[i].Hi < r.Lo {
			i++
		}
		for j := i; j < len(d) && d[j].Lo <= r.Hi; j++ {
			if d[j].Lo > r.Lo {
				out = append(out, Range{r.Lo, d[j].Lo - 1})
			}
			r.Lo = d[j].Hi + 1
		}
		if r.Lo <= r.Hi {
			out = append(out, r)
		}
	}
	return out
}

func (c Class) intersect(d Class) Class { return c.minus(c.minus(d)) }

// Without returns the class without the symbol r.
func (c Class) Without(r rune) Class { return c.minus(Class{{r, r}}) }

// Has reports whether the class contains the symbol.
func (c Class) Has(r rune) bool {
	_, ok := slices.BinarySearchFunc(c, r, func(x Range, r rune) int {
		switch {
		case x.Hi < r:
			return -1
		case x.Lo > r:
			return 1
		}
		return 0
	})
	return ok
}

// Single returns the only symbol of the class. If the class does not have exactly one symbol, the bool is false.
func (c Class) Single() (rune, bool) {
	if len(c) == 1 && c[0].Lo == c[0].Hi {
		return c[0].Lo, true
	}
	return 0, false
}

// fold adds all other cases of the symbols to the class.
func (c Class) fold() Class { return c.foldIf(func(_, _ rune) bool { return true }) }

// foldUpper works like fold, but uses the rule of the C library: two symbols match if their upper case is equal.
func (c Class) foldUpper() Class {
	return c.foldIf(func(a, b rune) bool { return unicode.ToUpper(a) == unicode.ToUpper(b) })
}

func (c Class) foldIf(same func(a, b rune) bool) Class {
	out := slices.Clone(c)
	for _, r := range c {
		hi := min(r.Hi, unicode.MaxRune)
		for x := r.Lo; x <= hi; x++ {
			if x > lastFolding {
				break
			}
			for f := unicode.SimpleFold(x); f != x; f = unicode.SimpleFold(f) {
				if (f < r.Lo || f > r.Hi) && same(x, f) {
					out = append(out, Range{f, f})
				}
			}
		}
	}
	return normalize(out)
}

// lastFolding is the last character that has a different upper or lower case.
const lastFolding = 0x1E943

// foldASCII works like fold, but adds only the other cases of ASCII letters.
func (c Class) foldASCII() Class {
	out := slices.Clone(c)
	for _, r := range c {
		for x := max(r.Lo, 'A'); x <= min(r.Hi, 'Z'); x++ {
			out = append(out, Range{x + 32, x + 32})
		}
		for x := max(r.Lo, 'a'); x <= min(r.Hi, 'z'); x++ {
			out = append(out, Range{x - 32, x - 32})
		}
	}
	return normalize(out)
}

// runes returns a class that consists of ranges. Each pair of arguments is a range.
func runes(pairs ...rune) Class {
	var c Class
	for i := 0; i+1 < len(pairs); i += 2 {
		c = append(c, Range{pairs[i], pairs[i+1]})
	}
	return normalize(c)
}
