package symbol

import (
	"bytes"
	"context"
	"strings"

	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/pattern"
)

// Matcher matches names. It is not safe for concurrent use.
type Matcher struct {
	q        *Query
	m, files *pattern.Matcher
	// file is the unparsed query. It is empty if the query has wildcards. File names are compared with the unparsed
	// query, because the parser would split "main.go" at the dot, as it splits "Container.Name".
	file string
	// path is true if the query contains a slash. In this case, the query must match the end of a file's path.
	path bool
}

// Matcher returns a matcher that stops when ctx ends.
func (q *Query) Matcher(ctx context.Context) *Matcher {
	m := &Matcher{q: q, file: q.text}
	if len(q.within) > 0 { // the parser treats the dot of a file extension as a separator after a container
		m.file = strings.Join(q.within, ".") + "." + q.text
	}
	m.path = strings.Contains(m.file, "/")
	if q.pattern != nil {
		m.m = q.pattern.Matcher(ctx)
		m.files = m.m
	}
	if q.files != nil {
		m.files = q.files.Matcher(ctx)
	}
	return m
}

// MayDeclare reports whether a text contains the name of the query. Only such a text can declare the name.
func (m *Matcher) MayDeclare(text []byte) bool {
	if !m.q.plain {
		return true
	}
	_, _, ok, err := m.m.NextLine(text, 0)
	return ok || err != nil
}

// MayHave reports whether a table can contain a matching name.
func (m *Matcher) MayHave(t *Table) bool {
	if len(t.Symbols) > manySymbols {
		return true
	}
	for _, b := range m.q.marks {
		if t.signature[b/64]>>(b%64)&1 == 0 {
			return false
		}
	}
	return true
}

// Table calls the function "found" for each matching symbol of a table, in the order of the text. The rank describes
// how well the symbol matches. The container in a query also matches elements of the file's path. If the function
// "parts" returns a list, only symbols in these parts of the text match. If parts is nil or returns nil, all symbols
// are checked.
func (m *Matcher) Table(t *Table, g Group, file string, parts func() []content.Part, found func(i int, r Rank)) error {
	var list []content.Part
	if parts != nil && len(t.Symbols) > manySymbols { // in a small table, selecting parts saves no time
		list = parts()
	}
	if list == nil {
		return m.part(t, 0, len(t.Symbols), g, file, found)
	}
	for _, p := range list {
		from, to := t.rangeIn(p)
		if err := m.part(t, from, to, g, file, found); err != nil {
			return err
		}
	}
	return nil
}

// part works like Table, but checks only the symbols with indices in [from,to).
func (m *Matcher) part(t *Table, from, to int, g Group, file string, found func(i int, r Rank)) error {
	switch {
	case m.q.plain:
		m.plain(t, from, to, g, file, found)
		return nil
	case m.m == nil:
		for i := from; i < to; i++ {
			if g.Has(t.Symbols[i].Kind) {
				found(i, Matched)
			}
		}
		return nil
	}
	names := t.names[:place(t.starts, to, len(t.names))]
	for pos := place(t.starts, from, len(t.names)); pos < len(names); {
		start, end, ok, err := m.m.NextLine(names, pos)
		if err != nil || !ok {
			return err
		}
		i := at(t.starts, start)
		if s := &t.Symbols[i]; g.Has(s.Kind) && m.q.declaredIn(t, s, file) {
			found(i, Matched)
		}
		pos = end
	}
	return nil
}

// plain is the implementation of part for a query without wildcards.
func (m *Matcher) plain(t *Table, from, to int, g Group, file string, found func(i int, r Rank)) {
	q := m.q
	names := t.folded[:place(t.folds, to, len(t.folded))]
	for pos := place(t.folds, from, len(t.folded)); pos < len(names); {
		n := bytes.Index(names[pos:], q.needle)
		if n < 0 {
			return
		}
		pos += n
		i := at(t.folds, pos)
		start, end := int(t.folds[i]), place(t.folds, i+1, len(t.folded))-1
		r, s := Inside, &t.Symbols[i]
		switch {
		case pos > start:
		case pos+len(q.needle) < end:
			r = Prefixed
		case s.Name == q.text:
			r = Exact
		default:
			r = Folded
		}
		if r <= q.most && g.Has(s.Kind) && q.declaredIn(t, s, file) {
			found(i, r)
		}
		pos = end + 1
	}
}

// declaredIn reports whether a symbol is declared in the containers of the query. The outermost container can be a
// package, a module or a directory.
func (q *Query) declaredIn(t *Table, s *Symbol, file string) bool {
	if len(q.within) == 0 {
		return true
	}
	have := separators.Split(s.Container, -1)
	if s.Container == "" {
		have = nil
	}
	i := len(have)
	for n := len(q.within) - 1; n >= 0; n-- {
		want := q.within[n]
		if i > 0 {
			i--
			if !strings.EqualFold(bare(have[i]), want) {
				return false
			}
			continue
		}
		// The remaining containers together must match the package or the path of the file.
		return n == 0 && (strings.EqualFold(t.Package, want) || inPath(file, want)) ||
			n > 0 && inPath(file, strings.Join(q.within[:n+1], "/"))
	}
	return true
}

// bare returns the name of a container without its type parameters.
func bare(name string) string {
	if i := strings.IndexAny(name, "[<"); i > 0 {
		name = name[:i]
	}
	return name
}

// inPath reports whether a path ends with the given names. It tries the whole path, the path without its extension,
// and the directory.
func inPath(file, names string) bool {
	file = "/" + file
	stem := file
	if i := strings.LastIndexByte(file, '.'); i > strings.LastIndexByte(file, '/') {
		stem = file[:i]
	}
	dir := file[:strings.LastIndexByte(file, '/')]
	for _, p := range []string{file, stem, dir} {
		if n := len(p) - len(names); n > 0 && p[n-1] == '/' && strings.EqualFold(p[n:], names) {
			return true
		}
	}
	return false
}

// NeedsPath reports whether [Matcher.Path] needs the whole path of a file. Otherwise the file name is enough.
func (m *Matcher) NeedsPath() bool { return m.q.slash || strings.Contains(m.q.text, "/") }

// Path returns the rank of a file and reports whether it matches. The query is compared with the file name, with and
// without the extension. A query with a slash is compared with the path.
func (m *Matcher) Path(path string) (Rank, bool) {
	if m.q.plain && (m.m != nil || len(m.q.within) > 0) {
		return m.plainPath(path)
	}
	if m.m == nil {
		return Matched, true
	}
	if !m.NeedsPath() {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	_, _, ok, err := m.files.NextLine([]byte(path), 0)
	return Matched, ok && err == nil
}

// plainPath is the implementation of Path for a query without wildcards. It must be fast, because it is called for
// all files.
func (m *Matcher) plainPath(path string) (Rank, bool) {
	want := m.file
	if !m.path {
		path = path[strings.LastIndexByte(path, '/')+1:]
	}
	stem := path
	if i := strings.LastIndexByte(path, '.'); i > 0 {
		stem = path[:i]
	}
	r := none
	switch {
	case path == want || stem == want || m.path && strings.HasSuffix(path, "/"+want):
		r = Exact
	case strings.EqualFold(path, want) || strings.EqualFold(stem, want):
		r = Folded
	default:
		switch indexFold(path, want) {
		case -1:
		case 0:
			r = Prefixed
		default:
			r = Inside
		}
	}
	return r, r <= m.q.most
}

// indexFold returns the index of the first occurrence of text, ignoring case. It returns -1 if text does not occur.
func indexFold(in, text string) int {
	for i := 0; i+len(text) <= len(in); i++ {
		if in[i]|0x20 == text[0]|0x20 && strings.EqualFold(in[i:i+len(text)], text) {
			return i
		}
	}
	return -1
}
