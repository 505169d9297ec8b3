package finder

import (
	"fmt"
	"strings"

	"toolhost.dev/plugins/grep/pattern"
	"toolhost.dev/plugins/grep/query"
)

// otherSyntax returns a note if the pattern has another number of matches in the syntax that the caller may have meant:
// that of ripgrep for a pattern in grep's basic syntax, which a command such as grep 'a|b' has, and the basic syntax
// for a pattern without a match that escapes operators as there. It also returns one if the pattern only matches
// without the \r of CRLF. The function "search" searches for the other pattern.
func otherSyntax(in *grepArgs, total int, search func(*pattern.Pattern) (*query.Answer, error)) ([]string, error) {
	to, expr, is := pattern.Rust, in.Pattern, ""
	switch {
	case in.InvertMatch || in.FilesWithoutMatch:
		return nil, nil
	case pattern.Dialect(in.Dialect) == pattern.Basic && strings.ContainsAny(in.Pattern, `\+?(){}|`):
		is = `in this syntax, that of grep without -E (dialect=bre), + ? | ( ) { } are literal and \+ \? \| \( \) \{ \} are operators. In ripgrep's syntax (dialect=rust)`
	case pattern.Dialect(in.Dialect) == pattern.Rust && total == 0 && escapesOperators(in.Pattern):
		to, is = pattern.Basic, `in this syntax, that of ripgrep (dialect=rust), \| \( \) \{ \} \+ \? are literal. In the syntax of grep (dialect=bre)`
	case pattern.Dialect(in.Dialect) == pattern.Rust && total == 0 && lineEnds(in.Pattern):
		expr, is = strings.ReplaceAll(in.Pattern, "$", `\r?$`), `$ does not match before the \r of files with lines that end in \r\n. With \r?$`
	default:
		return nil, nil
	}
	compiled, err := pattern.Compile(expr, pattern.Options{
		Dialect: to, IgnoreCase: in.IgnoreCase, Multiline: in.Multiline,
	})
	if err != nil || in.check(compiled.Crossing()) != nil {
		return nil, nil //nolint:nilerr // the pattern has no meaning in the other syntax
	}
	a, err := search(compiled)
	if err != nil || a.Total == total {
		return nil, err
	}
	return []string{fmt.Sprintf("%s, the pattern has %s", is, count(a.Total, "match"))}, nil
}

// escapesOperators reports whether a pattern contains an escaped operator of grep's basic syntax.
func escapesOperators(pattern string) bool {
	for _, op := range []string{`\|`, `\(`, `\{`, `\+`, `\?`} {
		if strings.Contains(pattern, op) {
			return true
		}
	}
	return false
}

// lineEnds reports whether a pattern contains "$" outside of a class and without a backslash before it.
func lineEnds(pattern string) bool {
	return strings.Contains(pattern, "$") && !strings.Contains(pattern, `\$`) && !strings.Contains(pattern, "[")
}
