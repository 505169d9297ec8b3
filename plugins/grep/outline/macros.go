package outline

import (
	"bytes"
	"regexp"
)

// macroUses match uses of macros that a parser without a preprocessor would treat as names. The group of each
// expression matches the macro, which must consist of capital letters.
var macroUses = []*regexp.Regexp{
	// Example: class API_EXPORT Widget {
	regexp.MustCompile(`\b(?:class|struct|union|enum)\s+([A-Z_][A-Z0-9_]{2,}(?:\([^()\n]*\))?)\s+[A-Za-z_]\w*\s*(?:final\s*)?[:{]`),
	// Example: namespace std VISIBILITY(default) {
	regexp.MustCompile(`\bnamespace\s+[\w:]+\s+([A-Z_][A-Z0-9_]{2,}(?:\([^()\n]*\))?)\s*\{`),
	// Example: int size() const NOEXCEPT {
	regexp.MustCompile(`\)\s*(?:const\s*)?([A-Z_][A-Z0-9_]{2,}(?:\([^()\n]*\))?)\s*[;{:]`),
	// Example: API_EXPORT void f();
	regexp.MustCompile(`(?m)^[ \t]*([A-Z_][A-Z0-9_]{2,}(?:\([^()\n]*\))?)[ \t]+(?:static|inline|extern|const|constexpr|virtual|explicit|void|int|char|bool|unsigned|struct|class)\b`),
}

// macroLine matches a line that contains only a macro, such as BEGIN_NAMESPACE.
var macroLine = regexp.MustCompile(`(?m)^[ \t]*([A-Z_][A-Z0-9_]{3,})[ \t]*$`)

// withoutMacros overwrites macros with blanks if a C or C++ grammar cannot parse these macros. All other
// text keeps its position. If the text contains no such macros, the result is nil.
func withoutMacros(text []byte) []byte {
	var out []byte
	blank := func(from, to int) {
		if out == nil {
			out = bytes.Clone(text)
		}
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for _, use := range macroUses {
		for _, m := range use.FindAllSubmatchIndex(text, -1) {
			blank(m[2], m[3])
		}
	}
	for _, m := range macroLine.FindAllSubmatchIndex(text, -1) {
		if standsAlone(text[:m[0]], text[m[1]:]) {
			blank(m[2], m[3])
		}
	}
	return out
}

// standsAlone reports whether a text can be a separate declaration between the texts before and after. It returns
// false for the value of an enum and for part of an expression.
func standsAlone(before, after []byte) bool {
	before, after = bytes.TrimSpace(before), bytes.TrimSpace(after)
	if len(after) > 0 && bytes.IndexByte([]byte("},=.)?&|+-<("), after[0]) >= 0 {
		return false
	}
	if len(before) == 0 || bytes.IndexByte([]byte("};{:/"), before[len(before)-1]) >= 0 {
		return true
	}
	line := bytes.TrimSpace(before[bytes.LastIndexByte(before, '\n')+1:])
	return bytes.HasPrefix(line, []byte("#")) && !bytes.HasSuffix(line, []byte(`\`)) ||
		bytes.HasPrefix(line, []byte("//")) || macroLine.Match(line)
}
