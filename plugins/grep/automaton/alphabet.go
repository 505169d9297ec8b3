package automaton

import (
	"slices"
	"unicode/utf8"

	"toolhost.dev/plugins/grep/syntax"
)

// alphabet maps each symbol of a program to its kind. Two symbols have the same kind if no instruction of the
// program distinguishes them.
type alphabet struct {
	ascii [utf8.RuneSelf]uint16 // the kinds of the symbols below 0x80, indexed by symbol
	from  []rune                // the first symbol of each run of symbols of one kind, sorted; from[0] is 0
	kinds []uint16              // kinds[i] is the kind of the run that starts at from[i]
	// sides holds, for each kind, the flags that conditions test. The last kind means the end of the text. The
	// second to last kind means a byte that is not UTF-8.
	sides []side
	// member[class][kind] is true if the class contains the symbols of the kind.
	member [][]bool
}

func (a *alphabet) end() uint16     { return uint16(len(a.sides) - 1) } // #nosec G115 -- see newAlphabet
func (a *alphabet) invalid() uint16 { return a.end() - 1 }

// kind returns the kind of a symbol. A symbol is a byte in a bytewise program, and otherwise a character.
func (a *alphabet) kind(r rune) uint16 {
	if r < utf8.RuneSelf {
		return a.ascii[r]
	}
	i, found := slices.BinarySearch(a.from, r)
	if !found {
		i--
	}
	return a.kinds[i]
}

// event marks the symbol at which one of the numbered symbol sets begins or ends.
type event struct {
	at  rune
	set int
}

func newAlphabet(classes []syntax.Class, seen side) *alphabet {
	sets := slices.Clone(classes)
	if seen&(lineFeed|carriage) != 0 {
		sets = append(sets, syntax.Class{{Lo: '\n', Hi: '\n'}}, syntax.Class{{Lo: '\r', Hi: '\r'}})
	}
	if seen&(word|wordASCII) != 0 {
		sets = append(sets, words, syntax.Class{{Lo: 0, Hi: utf8.RuneSelf - 1}})
	}
	var events []event
	for i, set := range sets {
		for _, r := range set {
			events = append(events, event{r.Lo, i}, event{r.Hi + 1, i})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.at) - int(b.at) })

	a := &alphabet{member: make([][]bool, len(classes))}
	byContent := make(map[[2]uint64]uint16) // maps a combination of sets to the kind of the symbols that are in exactly these sets
	in := make(map[int]bool)                // the sets that contain the current symbol
	var content [2]uint64                   // the combined hashes of the sets in the map "in"
	newKind := func(s side) uint16 {
		for i := range a.member {
			a.member[i] = append(a.member[i], in[i])
		}
		a.sides = append(a.sides, s&seen)
		return uint16(len(a.sides) - 1) // #nosec G115 -- characters have far fewer kinds than 65 536: see maxClasses
	}
	run := func(at rune) {
		k, ok := byContent[content]
		if !ok {
			s := sideOf(at)
			k = newKind(s)
			byContent[content] = k
		}
		a.from, a.kinds = append(a.from, at), append(a.kinds, k)
	}
	if len(events) == 0 || events[0].at > 0 {
		run(0)
	}
	for i := 0; i < len(events); {
		at := events[i].at
		for ; i < len(events) && events[i].at == at; i++ {
			set := events[i].set
			in[set] = !in[set]
			content[0] ^= scramble(uint64(set)*2 + 1) // #nosec G115 -- a count
			content[1] ^= scramble(uint64(set)*2 + 2) // #nosec G115 -- a count
		}
		if at <= utf8.MaxRune {
			run(at)
		}
	}
	clear(in)
	newKind(invalid)
	newKind(edge)
	for r := range rune(utf8.RuneSelf) {
		i, found := slices.BinarySearch(a.from, r)
		if !found {
			i--
		}
		a.ascii[r] = a.kinds[i]
	}
	return a
}

// scramble returns a hash of a number. It uses the final mixing function of splitmix64.
func scramble(x uint64) uint64 {
	x *= 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
