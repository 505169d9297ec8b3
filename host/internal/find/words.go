package find

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// camel finds the borders between the words of an identifier in camel case. It is compiled on first use, because most hosts
// never search.
var camel = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(\p{Ll}|[0-9])(\p{Lu})|(\p{Lu}+)(\p{Lu}\p{Ll})`)
})

// words returns the words of a text in lower case. It splits identifiers and omits words that most descriptions contain.
func words(text string) []string {
	omit := frequent()
	text = strings.ToLower(camel().ReplaceAllString(text, "$1$3 $2$4"))
	return slices.DeleteFunc(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), func(w string) bool {
		return len(w) < 2 || omit[w]
	})
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
able currently current specific specified thing things one two make sure`) {
		out[w] = true
	}
	return out
})
