package finder

import (
	"fmt"
	"strings"

	"toolhost.dev/plugins/grep/definition"
	"toolhost.dev/plugins/grep/outline"
	"toolhost.dev/plugins/grep/symbol"
	"toolhost.dev/sdk"
)

func codeResult(in codeArgs, p *place, a *definition.Answer, f *finder, near string) *sdk.Result {
	data := codeData{
		Query: in.Query, Type: in.Type, Matches: []codeMatch{}, Total: a.Total, Skipped: a.Skipped,
		NotParsed: a.NotParsed, Problems: []codeProblem{},
	}
	var out codePrinter
	out.init(in, a, f.maxLine)
	size, given := 0, 0
	for i := range a.Matches {
		m := codeMatchOf(&a.Matches[i])
		if size += len(m.Code) + len(m.Context) + len(m.File) + len(m.Name); size > maxCodeText {
			break
		}
		given++
		data.Matches = append(data.Matches, m)
		out.match(&m)
	}
	left := in.Offset + given
	data.Truncated = in.Offset > 0 || left < a.Total || a.NotParsed > 0
	for _, pr := range a.Problems {
		data.Problems = append(data.Problems, codeProblem{File: printable(pr.File), Reason: pr.Why})
	}
	return &sdk.Result{
		Output: withNotes(strings.Join(out.lines, "\n"), codeNotes(in, p, a, f, given, near)), Data: sdk.Data(data),
		Title: fmt.Sprintf("Look up %s in %s: %s in %s", in.Query, p.shown, count(a.Total, "match"),
			count(a.Files, "file")),
		Metadata: map[string]any{"total": a.Total, "files": a.Files},
	}
}

// maxCodeText limits the size of the texts in a result in bytes.
const maxCodeText = 4 << 20

func codeMatchOf(m *definition.Match) codeMatch {
	s := &m.Symbol
	return codeMatch{
		File: printable(m.File), Line: int(s.Line), Column: int(s.Column), EndLine: int(s.EndLine),
		Kind: s.Kind.String(), Name: printable(s.Name),
		Container: printable(s.Container), Code: m.Code, Context: m.Context, Match: m.Rank.String(),
		Language: string(outline.Of(m.File)), Parser: string(m.Parser),
	}
}

// codePrinter writes the result of code_query as text.
type codePrinter struct {
	in      codeArgs
	maxLine int
	lines   []string
	// grouped is true if the matches have different ranks. In this case, each group of matches with the same rank has a
	// heading.
	grouped bool
	rank    string
	ranks   map[string]int
}

func (w *codePrinter) init(in codeArgs, a *definition.Answer, maxLine int) {
	w.in, w.maxLine, w.ranks = in, maxLine, make(map[string]int)
	kinds := 0
	for r, n := range a.Ranks {
		if n > 0 {
			kinds++
			w.ranks[symbol.Rank(r).String()] = n // #nosec G115 -- a few
		}
	}
	w.grouped = kinds > 1
}

func (w *codePrinter) match(m *codeMatch) {
	if w.grouped && m.Match != w.rank {
		w.rank = m.Match
		w.lines = append(w.lines, fmt.Sprintf("# %s (%d)", m.Match, w.ranks[m.Match]))
	}
	if m.Parser == "" {
		w.lines = append(w.lines, m.File+" file")
		return
	}
	name := m.Name
	if m.Container != "" {
		name = m.Container + "." + name
	}
	line := fmt.Sprintf("%s:%d:%d %s %s", m.File, m.Line, m.Column, m.Kind, name)
	if m.Parser == string(symbol.ByPattern) {
		line += " [pattern]"
	}
	if w.in.Context == 0 {
		w.lines = append(w.lines, line+": "+w.cut(strings.TrimSpace(m.Code)))
		return
	}
	w.lines = append(w.lines, line)
	first := max(1, m.Line-w.in.Context)
	for i, text := range strings.Split(m.Context, "\n") {
		w.lines = append(w.lines, fmt.Sprintf("%6d| %s", first+i, w.cut(text)))
	}
}

func (w *codePrinter) cut(line string) string {
	if r := []rune(line); w.maxLine > 0 && len(r) > w.maxLine {
		return string(r[:w.maxLine]) + fmt.Sprintf(" [… %d more characters]", len(r)-w.maxLine)
	}
	return line
}

func codeNotes(in codeArgs, p *place, a *definition.Answer, f *finder, given int, near string) []string {
	var notes []string
	if a.NotParsed > 0 {
		notes = append(notes, fmt.Sprintf("the result is incomplete: the search stopped after %s, before %s that contain the name were parsed; repeat the call to continue, or set path to a smaller directory",
			f.timeLimit, count(a.NotParsed, "file")))
	}
	left := in.Offset + given
	switch {
	case given == 0 && in.Offset > 0:
		notes = append(notes, fmt.Sprintf("offset %d is past the end of %s", in.Offset, count(a.Total, "match")))
	case left < a.Total:
		notes = append(notes, fmt.Sprintf("%d-%d of %s in %s shown; continue with offset=%d, or narrow the search with type, path, language or match",
			in.Offset+1, left, count(a.Total, "match"), count(a.Files, "file"), left))
	case in.Offset > 0:
		notes = append(notes,
			fmt.Sprintf("%d-%d of %s shown, the last ones", in.Offset+1, left, count(a.Total, "match")))
	}
	if n := a.HasProblems; n > 0 {
		pr := a.Problems[0]
		note := fmt.Sprintf("%s was not parsed to the end: %s", printable(pr.File), pr.Why)
		if n > 1 {
			note = fmt.Sprintf("%s were not parsed to the end, such as %s: %s", count(n, "file"), printable(pr.File), pr.Why)
		}
		notes = append(notes, note+"; only lines that look like declarations were searched there")
	}
	if a.Total == 0 && in.Offset == 0 && a.NotParsed == 0 {
		notes = append(notes, noDeclaration(in, p, a, near)...)
	}
	return notes
}

// noDeclaration returns the notes for a query without matches. The notes contain remedies. The argument "near" is a
// question about similar names, or empty.
func noDeclaration(in codeArgs, p *place, a *definition.Answer, near string) []string {
	where, what := p.shown, "declaration"
	if where == "." {
		where = "the working directory"
	}
	if in.Type != "all" {
		what = in.Type
	}
	note := fmt.Sprintf("No %s named %s in %s", what, in.Query, where)
	if in.Language != "" {
		note += " in the language " + in.Language
	}
	note += "." + near + " "
	if in.Type != "all" && in.Type != "file" {
		note += "Omit type to search all kinds, or use"
	} else {
		note += "Use"
	}
	notes := []string{note + " grep to find the text anywhere"}
	if a.Broken > 0 {
		notes = append(notes, fmt.Sprintf("%s have syntax errors; declarations near these may be missing", count(a.Broken, "file")))
	}
	var skipped []string
	for _, r := range []reason{
		{a.Skipped.Ignored, "ignored"}, {a.Skipped.Hidden, "hidden"},
		{a.Skipped.Permission, "not permitted to be read"}, {a.Skipped.Failed, "not readable"},
	} {
		if r.n > 0 {
			skipped = append(skipped, fmt.Sprintf("%d %s", r.n, r.what))
		}
	}
	if len(skipped) > 0 {
		notes = append(notes, "not searched: "+strings.Join(skipped, ", ")+". To search such a directory, set path to it")
	}
	return notes
}
