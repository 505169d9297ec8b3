package audit

import (
	"slices"
	"strings"
	"sync"
)

// needles is a set of texts that have at least two bytes each. It finds in one pass whether a text contains any of
// them.
type needles struct {
	begins [1 << 16 / 64]uint64 // the first two bytes of all texts, one bit each
	texts  map[uint16][]string  // texts by their first two bytes
}

func newNeedles(texts []string) *needles {
	n := &needles{texts: make(map[uint16][]string)}
	for _, t := range texts {
		k := pair(t, 0)
		n.begins[k/64] |= 1 << (k % 64)
		n.texts[k] = append(n.texts[k], t)
	}
	return n
}

// occurIn reports whether s contains at least one of the texts.
func (n *needles) occurIn(s string) bool {
	for i := range len(s) - 1 {
		k := pair(s, i)
		if n.begins[k/64]&(1<<(k%64)) != 0 &&
			slices.ContainsFunc(n.texts[k], func(t string) bool { return strings.HasPrefix(s[i:], t) }) {
			return true
		}
	}
	return false
}

func pair(s string, i int) uint16 { return uint16(s[i])<<8 | uint16(s[i+1]) }

// secretHints finds lower-case texts. A text that contains none of them contains no secret of any form.
var secretHints = sync.OnceValue(func() *needles {
	texts := slices.Clone(nameNeeds)
	for _, f := range forms() {
		texts = append(texts, f.needs...)
	}
	return newNeedles(texts)
})

// commandHints finds lower-case texts. The syntax of a command that contains none of them reveals no secret.
var commandHints = sync.OnceValue(func() *needles { return newNeedles(slices.Concat(nameNeeds, programNames())) })

// scriptKeys finds JSON names of parameters that contain commands.
var scriptKeys = sync.OnceValue(func() *needles {
	quoted := make([]string, len(scripts))
	for i, name := range scripts {
		quoted[i] = `"` + name + `"`
	}
	return newNeedles(quoted)
})
