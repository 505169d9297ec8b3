package execgate

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// quote returns a command line that a shell splits into the given arguments.
func quote(argv []string) string {
	var b strings.Builder
	for i, a := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		q, err := syntax.Quote(a, syntax.LangBash)
		if err != nil { // cannot happen for an argument, which contains no NUL
			q = a
		}
		b.WriteString(q)
	}
	return b.String()
}
