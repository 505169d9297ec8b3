package strategy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// escaping is an escape syntax that a model can use in old_string by mistake.
type escaping struct {
	what string
	// undo removes the escapes from a text. The result "ok" is false if the text is not consistently escaped.
	undo func(string) (plain string, ok bool)
	// in reports whether a text contains an escape of this syntax. The function "plain" reports whether a
	// text contains a character that an escaped text cannot contain.
	in, plain func(string) bool
	// numbered means that the syntax is a line number before each line.
	numbered bool
}

var escapings = []escaping{
	{
		"written as JSON", unescapeJSON,
		func(s string) bool { return strings.Contains(s, `\`) },
		func(s string) bool { return !validJSON(s) }, false,
	},
	{"with escaped quotes", unescapeQuotes, hasEscapedQuote, hasBareQuote, false},
	{"with escaped line feeds", unescapeBreaks, hasBreakEscape, func(s string) bool { return strings.ContainsAny(s, "\n\t") }, false},
	{
		"with entities", func(s string) (string, bool) { return entities.Replace(s), hasEntity(s) && !hasMarkup(s) },
		hasEntity, hasMarkup, false,
	},
	{"with line numbers", withoutNumbers, hasNumbers,
		func(s string) bool { _, ok := withoutNumbers(s); return !ok }, true},
}

// findUnescaped searches for old_string without its escapes. It also removes the escapes from new_string if
// new_string is completely escaped.
func findUnescaped(s *search) (match, error) {
	for _, e := range escapings {
		old, ok := e.undo(s.edit.Old)
		if !ok || old == s.edit.Old || isBlankText(old) {
			continue
		}
		m := match{sites: s.find(old), old: old, new: s.edit.New, similarity: 1}
		if e.numbered && !strings.Contains(strings.TrimSuffix(old, "\n"), "\n") {
			// A number at the beginning of a single line can belong to the text. Therefore it must equal the number
			// of the line in the file.
			m.sites = slices.DeleteFunc(m.sites, func(st site) bool {
				return s.file.lineAt(st.from) != firstNumber(s.edit.Old)
			})
		}
		if len(m.sites) == 0 {
			continue
		}
		if !e.in(m.new) {
			return m, nil
		}
		plain, ok := e.undo(m.new)
		if !ok || e.plain(m.new) {
			return m, refused("old_string matches the file if it is read as text %s, but new_string is only partly such text. Write both exactly as in the file.", e.what)
		}
		m.new = plain
		return m, nil
	}
	return match{}, nil
}

func validJSON(s string) bool { return json.Valid([]byte(`"` + s + `"`)) }

func unescapeJSON(s string) (string, bool) {
	var out string
	if err := json.Unmarshal([]byte(`"`+s+`"`), &out); err != nil {
		return "", false
	}
	return toLF(out), true
}

var quotes = strings.NewReplacer(`\"`, `"`, `\'`, `'`, "\\`", "`")

func unescapeQuotes(s string) (string, bool) { return quotes.Replace(s), !hasBareQuote(s) }

func hasEscapedQuote(s string) bool { return quotes.Replace(s) != s }

// hasBareQuote reports whether the text contains the same quote both escaped and unescaped.
func hasBareQuote(s string) bool {
	for _, q := range []string{`"`, `'`, "`"} {
		if n := strings.Count(s, `\`+q); n > 0 && n < strings.Count(s, q) {
			return true
		}
	}
	return false
}

var breaks = strings.NewReplacer(`\r\n`, "\n", `\n`, "\n", `\t`, "\t")

func hasBreakEscape(s string) bool { return breaks.Replace(s) != s }

// unescapeBreaks replaces escaped line feeds and tabs by the real characters. If the text contains other escapes, it
// does nothing.
func unescapeBreaks(s string) (string, bool) {
	return breaks.Replace(s), strings.Contains(s, `\n`) && !strings.Contains(s, `\\`)
}

var entities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#39;", "'", "&apos;", "'", "&amp;", "&")

var entity = regexp.MustCompile(`&(?:lt|gt|quot|amp|apos|#39);`)

func hasEntity(s string) bool { return entity.MatchString(s) }

// hasMarkup reports whether the text contains a character that an escaped text contains only as an entity.
func hasMarkup(s string) bool { return strings.ContainsAny(entity.ReplaceAllString(s, ""), "<>&") }

// number matches a line number that a program printed before a line.
var number = regexp.MustCompile(`^[ \t]*(\d+) *([:|│→\t])`)

func firstNumber(s string) int {
	m := number.FindStringSubmatch(s)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // ignore the error: a number that is too large is not a line number
	return n
}

func hasNumbers(s string) bool {
	for line := range strings.SplitSeq(s, "\n") {
		if number.MatchString(line) {
			return true
		}
	}
	return false
}

// withoutNumbers removes the line numbers if every line has a number and the numbers increase by one.
func withoutNumbers(s string) (string, bool) {
	lines := splitLines(s, true)
	last, spaced := -1, true
	for i, line := range lines {
		m := number.FindStringSubmatchIndex(line)
		if m == nil {
			return "", false
		}
		n, err := strconv.Atoi(line[m[2]:m[3]])
		if err != nil || last >= 0 && n != last+1 {
			return "", false
		}
		last = n
		lines[i] = line[m[1]:]
		spaced = spaced && (lines[i] == "" || lines[i][0] == ' ') && line[m[4]:m[5]] != "\t"
	}
	out := strings.Join(lines, "\n")
	if spaced { // the space after the number is part of the separator
		for i, line := range lines {
			lines[i] = strings.TrimPrefix(line, " ")
		}
		out = strings.Join(lines, "\n")
	}
	if strings.HasSuffix(s, "\n") {
		out += "\n"
	}
	return out, true
}
