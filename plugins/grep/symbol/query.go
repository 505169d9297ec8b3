package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"toolhost.dev/plugins/grep/pattern"
)

// Rank describes how well a name matches a query. A lower rank is a better match.
type Rank uint8

// The values of [Rank].
const (
	Exact    Rank = iota
	Folded        // equals the query, ignoring case
	Prefixed      // begins with the query, ignoring case
	Inside        // contains the query, ignoring case
	Matched       // matches a query that is a glob or a regular expression
	none
)

var rankNames = [...]string{"exact", "exact except for case", "begins with the name", "contains the name", "matches"}

func (r Rank) String() string { return rankNames[r] }

// Query is a parsed query. It is immutable and safe for concurrent use.
type Query struct {
	// text is the name in the query. It is empty if the query has wildcards.
	text string
	// needle contains the field "text" in lower case.
	needle []byte
	marks  []uint32 // positions of the needle's trigrams in the signature of a table
	// within contains the names of the containers, the innermost container last.
	within []string
	most   Rank // worst rank that is returned
	// pattern matches the names of symbols. A nil pattern matches all names.
	pattern *pattern.Pattern
	// files matches paths if the field "slash" is true, and otherwise file names. If "files" is nil, the
	// field "pattern" matches the file names.
	files *pattern.Pattern
	slash bool
	plain bool
}

// Match is the method with which names are compared with a query without wildcards.
type Match string

// Values of [Match].
const (
	Ranked    Match = "ranked" // use all methods below and return the best matches first
	ExactOnly Match = "exact"
	Prefix    Match = "prefix"
	Substring Match = "substring"
)

// maxText limits the length of a query in bytes.
const maxText = 64 << 10

// Parse parses a query. A query is a name, a glob for the whole name (get*User, or "*" for all names), or a regular
// expression between slashes. A name can follow the name of its container (Server.Close, Server::close). The letter
// i after the last slash means that case is ignored.
func Parse(text string, m Match) (*Query, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the query has %d bytes, and the limit is %d; give only a name or a part of a name", len(text), maxText)
	}
	text = strings.TrimSpace(text)
	if expr, ok := strings.CutPrefix(text, "/"); ok && len(text) > 2 {
		if body, fold := strings.CutSuffix(expr, "/i"); fold {
			return expression(body, true)
		}
		if body, ok := strings.CutSuffix(expr, "/"); ok {
			return expression(body, false)
		}
	}
	for _, end := range []string{"()", "("} {
		text = strings.TrimSuffix(text, end)
	}
	switch {
	case text == "":
		return nil, errors.New("the query is empty; give a name, a glob such as get*, or a /regular expression/")
	case strings.ContainsAny(text, "\n\r\x00"):
		return nil, errors.New("the query contains a line break or a NUL byte; give a single name")
	case strings.ContainsAny(text, " \t") && !strings.HasPrefix(text, "operator"):
		words := strings.Fields(text)
		return nil, fmt.Errorf("the query %q contains a space, and names do not; give the name alone, such as %q, or use grep to search for text", text, words[len(words)-1])
	}
	if text == "*" {
		return &Query{most: Matched}, nil
	}
	if strings.ContainsAny(text, "*?[{") && !strings.HasPrefix(text, "operator") {
		return parseGlob(text)
	}
	q := &Query{plain: true, most: Inside}
	q.within, text = qualified(text)
	switch m {
	case ExactOnly:
		q.most = Folded
	case Prefix:
		q.most = Prefixed
	}
	q.text, q.needle = text, bytes.ToLower([]byte(text))
	for i := 2; i < len(q.needle); i++ {
		q.marks = append(q.marks, mark(q.needle[i-2], q.needle[i-1], q.needle[i]))
	}
	var err error
	q.pattern, err = pattern.Compile(text, pattern.Options{Dialect: pattern.Fixed, IgnoreCase: true})
	return q, err
}

// parseGlob parses a glob, which can follow the names of containers.
func parseGlob(text string) (*Query, error) {
	files, err := globbed(text)
	if err != nil {
		return nil, err
	}
	q := &Query{pattern: files, files: files, slash: strings.Contains(text, "/"), most: Matched}
	wild := strings.IndexAny(text, "*?[{")
	for _, at := range separators.FindAllStringIndex(text[:wild], -1) {
		q.within, _ = qualified(text[:at[0]] + ".x")
		if q.pattern, err = globbed(text[at[1]:]); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func expression(body string, fold bool) (*Query, error) {
	p, err := pattern.Compile(body, pattern.Options{IgnoreCase: fold})
	if err != nil {
		return nil, err
	}
	return &Query{pattern: p, most: Matched}, nil
}

// qualified splits a query into the names of the containers and the name itself.
func qualified(text string) (within []string, name string) {
	if strings.HasPrefix(text, "operator") || strings.Contains(text, "/") {
		return nil, text
	}
	parts := separators.Split(text, -1)
	if name = parts[len(parts)-1]; name == "" {
		return nil, text
	}
	for _, p := range parts[:len(parts)-1] {
		if p = strings.Trim(p, "()*&"); p != "" {
			within = append(within, p)
		}
	}
	return within, name
}

var separators = regexp.MustCompile(`::|->|\.|#`)

// globbed compiles a glob to a pattern that matches the whole name and ignores case.
func globbed(glob string) (*pattern.Pattern, error) {
	var b strings.Builder
	b.WriteString("^(?:")
	braces, class := 0, false
	for _, r := range glob {
		switch {
		case class:
			class = r != ']'
			if r == '!' && strings.HasSuffix(b.String(), "[") {
				r = '^'
			}
			b.WriteRune(r)
		case r == '*':
			b.WriteString(".*")
		case r == '?':
			b.WriteString(".")
		case r == '[':
			class = true
			b.WriteRune(r)
		case r == '{':
			braces++
			b.WriteString("(?:")
		case r == '}' && braces > 0:
			braces--
			b.WriteString(")")
		case r == ',' && braces > 0:
			b.WriteString("|")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	if class || braces > 0 {
		return nil, fmt.Errorf("the glob %q has a bracket that is not closed", glob)
	}
	b.WriteString(")$")
	return pattern.Compile(b.String(), pattern.Options{IgnoreCase: true})
}

// Plain reports whether the query is a name without wildcards.
func (q *Query) Plain() bool { return q.plain }

// Near returns a query for names that begin or end like the name of this query, which finds misspelled names: few begin
// and end with a wrong letter. It returns nil if the query is no name, or too short. The argument "whole" means that
// dots belong to the name.
func (q *Query) Near(whole bool) *Query {
	letters := []rune(q.text)
	if whole {
		letters = []rune(q.Name())
	}
	if !q.plain || len(letters) < 4 {
		return nil
	}
	n := max(2, len(letters)/3)
	near, err := expression("^"+regexp.QuoteMeta(string(letters[:n]))+"|"+
		regexp.QuoteMeta(string(letters[len(letters)-n:]))+"$", true)
	if err != nil {
		return nil
	}
	return near
}

// Name returns the name in the query after the names of its containers, with dots between them.
func (q *Query) Name() string { return strings.Join(append(slices.Clone(q.within), q.text), ".") }

// Literals returns the literals of the query. Every text with a matching name contains them.
func (q *Query) Literals() pattern.Literals {
	if q.pattern == nil {
		return pattern.Literals{}
	}
	return q.pattern.Literals()
}
