package help

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/kljensen/snowball/english"
)

// stem removes the ending of an English word.
func stem(word string) string { return english.Stem(word, true) }

// stems returns the different stems of words, sorted.
func stems(ws []string) (out []string) {
	for _, w := range ws {
		out = append(out, stem(w))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// words returns the words of a text in lower case. It splits identifiers and omits words that most descriptions
// contain.
func words(text string) (out []string) {
	each(text, func(parts []string) { out = append(out, parts...) })
	return keep(out)
}

// prose is like words, but also returns a name in camel case as one word. GitHub is then found as github, and the other
// way around.
func prose(text string) []string { return keep(every(text)) }

// every is like prose, but does not omit words.
func every(text string) (out []string) {
	each(text, func(parts []string) {
		if out = append(out, parts...); len(parts) > 1 {
			out = append(out, strings.Join(parts, ""))
		}
	})
	return slices.DeleteFunc(out, func(w string) bool { return len(w) < 2 })
}

func keep(ws []string) []string {
	omit := frequent()
	return slices.DeleteFunc(ws, func(w string) bool { return len(w) < 2 || omit[w] })
}

// each calls f with the parts of each sequence of letters and digits, in lower case.
func each(text string, f func(parts []string)) {
	for _, word := range strings.FieldsFunc(text,
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		f(camelParts(word))
	}
}

// camelParts splits a word in camel case, such as listPullRequests. A part can be an abbreviation in capitals, also in
// the plural: HTTPServer, userIDs.
func camelParts(word string) (parts []string) {
	rs, start := []rune(word), 0
	at := func(i int, class func(rune) bool) bool { return i >= 0 && i < len(rs) && class(rs[i]) }
	for i := 1; i < len(rs); i++ {
		if !unicode.IsUpper(rs[i]) {
			continue
		}
		plural := at(i+1, func(r rune) bool { return r == 's' }) && !at(i+2, unicode.IsLower)
		if !unicode.IsUpper(rs[i-1]) || at(i+1, unicode.IsLower) && !plural {
			parts = append(parts, strings.ToLower(string(rs[start:i])))
			start = i
		}
	}
	return append(parts, strings.ToLower(string(rs[start:])))
}

// frequent contains words that do not help to distinguish tools. A query without these words is several times faster.
var frequent = sync.OnceValue(func() map[string]bool {
	out := make(map[string]bool)
	for _, w := range strings.Fields(`a an the this that these those of to in on at by for from with without into onto as is are was were be been being am
i me my mine we us our you your he she it its they them their what which who whom whose when where why how
do does did done doing can could may might must shall should will would have has had having not no nor or and but if then else than so
please help want need like let just some any each every all both few more most other such only own same too very also
here there about over under again once now using use used uses via tool tools function functions api given based following
eg ie etc optional required parameter parameters returns return value values provide provides provided allow allows
able currently current specific specified thing things sure`) {
		out[w] = true
	}
	return out
})
