package finder

import (
	"fmt"
	"strconv"
	"strings"

	"toolhost.dev/plugins/grep/query"
	"toolhost.dev/plugins/grep/search"
	"toolhost.dev/sdk"
)

func grepResult(in grepArgs, p *place, a *query.Answer, f *finder, maxLine int, other ...string) *sdk.Result {
	data := grepData{Matches: []grepMatch{}, Files: []string{}, Counts: map[string]int{}, Total: a.Total,
		Searched: a.Searched, Skipped: a.Skipped}
	out := printer{in: in}
	for i := range a.Files {
		f := &a.Files[i]
		path := printable(f.Path)
		data.Files = append(data.Files, path)
		switch in.OutputMode {
		case "files_with_matches":
			out.line(path)
		case "count":
			out.line(path + ":" + strconv.Itoa(f.Matches))
			data.Counts[path] = f.Matches
		default:
			data.Counts[path] = f.Matches
			for _, g := range f.Groups {
				data.Matches = append(data.Matches, matchesOf(path, g)...)
			}
			out.file(path, f)
		}
	}
	left := in.Offset + a.Given
	data.Truncated = in.Offset > 0 || left < totalResults(in, a) || a.Stopped
	notes := out.notes
	if a.Stopped {
		notes = append(notes, fmt.Sprintf("the result is incomplete: the search stopped after %s at %s, with %s searched; search a smaller directory, or select files with glob or type",
			f.timeLimit, printable(a.StoppedAt), count(a.Searched, "file")))
	}
	notes = append(notes, limitNotes(in, a, left)...)
	if out.cut > 0 {
		notes = append(notes, fmt.Sprintf("%s longer than %d characters; the part around the match is shown", count(out.cut, "line"), maxLine))
	}
	if len(a.Files) == 0 && in.Offset == 0 {
		notes = append(notes, nothing(in, p, a)...)
	} else if s := skippedFiles(a.Skipped); s != "" {
		notes = append(notes, "not searched: "+s)
	}
	notes = append(notes, other...)
	return &sdk.Result{
		Output: withNotes(strings.Join(out.lines, "\n"), notes), Data: sdk.Data(data),
		Title:    fmt.Sprintf("Search %s for %s: %s", p.shown, in.Pattern, found(in, a)),
		Metadata: map[string]any{"total": a.Total, "files": a.Matched, "searched": a.Searched},
	}
}

// totalResults returns the total number of results: matches in the output mode "content", and files in all other modes.
// The arguments offset and head_limit use the same unit.
func totalResults(in grepArgs, a *query.Answer) int {
	if in.OutputMode == "content" {
		return a.Total
	}
	return a.Matched
}

func found(in grepArgs, a *query.Answer) string {
	if in.OutputMode == "files_with_matches" {
		return count(a.Matched, "file")
	}
	return count(a.Total, "match") + " in " + count(a.Matched, "file")
}

// matchesOf returns the match of a group. If the call requested only single matches, it returns each match in the line
// of the group.
func matchesOf(path string, g query.Group) []grepMatch {
	first := g.Lines[0]
	if first.Parts == nil {
		return []grepMatch{matchOf(path, g)}
	}
	var out []grepMatch
	for _, p := range first.Parts {
		out = append(out, grepMatch{
			File: path, Line: first.Number, Column: p.Column, Text: p.Text, Before: []string{}, After: []string{},
			Cut: p.Cut > 0,
		})
	}
	return out
}

func matchOf(path string, g query.Group) grepMatch {
	m := grepMatch{
		File: path, Line: g.Lines[0].Number, Column: g.Lines[0].Column, Before: texts(g.Before), After: texts(g.After),
	}
	m.Text = strings.Join(texts(g.Lines), "\n")
	for _, l := range g.Lines {
		m.Cut = m.Cut || l.CutBefore+l.CutAfter > 0
	}
	return m
}

func texts(lines []search.Line) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.Text
	}
	return out
}

// printable returns a path as valid UTF-8 without line breaks.
func printable(path string) string {
	return lineBreaks.Replace(strings.ToValidUTF8(path, "\uFFFD"))
}

var lineBreaks = strings.NewReplacer("\n", "\uFFFD", "\r", "\uFFFD")

// printer writes results in the output format of ripgrep.
type printer struct {
	in    grepArgs
	lines []string
	notes []string
	cut   int
}

func (w *printer) line(s string) { w.lines = append(w.lines, s) }

// file prints the matches of a file. If several matches share a line, it prints the line once.
func (w *printer) file(path string, f *query.File) {
	last := 0
	for _, g := range f.Groups {
		for _, part := range [][]search.Line{g.Before, g.Lines, g.After} {
			for _, l := range part {
				if l.Number <= last {
					continue
				}
				if l.Number != last+1 || last == 0 {
					w.separate()
				}
				w.one(path, l)
				last = l.Number
			}
		}
	}
	if f.Binary >= 0 {
		what := "is binary: the search stopped"
		if f.Hidden {
			what = "is binary and has a match, which is not shown:"
		}
		w.notes = append(w.notes, fmt.Sprintf("%s %s at a NUL byte around offset %d", path, what, f.Binary))
	}
}

// separate prints a separator between groups of lines if the call requested context lines.
func (w *printer) separate() {
	if len(w.lines) > 0 && w.in.Before+w.in.After+w.in.Context > 0 {
		w.line("--")
	}
}

func (w *printer) one(path string, l search.Line) {
	sep := "-"
	if l.Match {
		sep = ":"
	}
	text := path + sep
	if w.in.LineNumbers {
		text += strconv.Itoa(l.Number) + sep
	}
	if l.Parts != nil {
		for _, part := range l.Parts {
			w.part(text, part)
		}
		return
	}
	if l.CutBefore > 0 {
		text += fmt.Sprintf("[… %d characters] ", l.CutBefore)
	}
	text += l.Text
	if l.CutAfter > 0 {
		text += fmt.Sprintf(" [… %d more characters]", l.CutAfter)
	}
	if l.CutBefore+l.CutAfter > 0 {
		w.cut++
	}
	w.line(text)
}

// part prints a single match after the path and line number of its line.
func (w *printer) part(prefix string, p search.Match) {
	if p.Cut > 0 {
		w.cut++
		w.line(fmt.Sprintf("%s%s [… %d more characters]", prefix, p.Text, p.Cut))
		return
	}
	w.line(prefix + p.Text)
}

// limitNotes returns notes that describe which part of the results is returned.
func limitNotes(in grepArgs, a *query.Answer, left int) []string {
	total := totalResults(in, a)
	thing := "match"
	if in.OutputMode != "content" {
		thing = "file"
	}
	switch {
	case a.Given == 0 && in.Offset > 0:
		return []string{fmt.Sprintf("offset %d is past the end of %s", in.Offset, count(total, thing))}
	case left < total:
		which := fmt.Sprintf("%d-%d", in.Offset+1, left)
		note := fmt.Sprintf("%s of %s shown; continue with offset=%d, or narrow the search with path, glob or type", which, count(total, thing), left)
		if in.OutputMode == "content" {
			note = fmt.Sprintf("%s of %s in %s shown; continue with offset=%d, or narrow the search with path, glob or type", which, count(total, thing), count(a.Matched, "file"), left)
		}
		return []string{note}
	case in.Offset > 0:
		return []string{fmt.Sprintf("%d-%d of %s shown, the last ones", in.Offset+1, left, count(total, thing))}
	}
	return nil
}

// nothing returns the notes for a search without a match. The notes mention the files that were not searched.
func nothing(in grepArgs, p *place, a *query.Answer) []string {
	where := p.shown
	if where == "." {
		where = "the working directory"
	}
	notes := []string{fmt.Sprintf("No matches for %s in %s; %s searched", in.Pattern, where, count(a.Searched, "file"))}
	if s := join(skippedByRule(a.Skipped), skippedFiles(a.Skipped)); s != "" {
		notes = append(notes, "not searched: "+s+"."+remedies(a.Skipped))
	}
	return notes
}

func remedies(s query.Skipped) string {
	switch {
	case s.Ignored > 0 && s.Hidden > 0:
		return " Use no_ignore=true or hidden=true to search these too"
	case s.Ignored > 0:
		return " Use no_ignore=true to search these too"
	case s.Hidden > 0:
		return " Use hidden=true to search these too"
	}
	return ""
}

// skippedByRule describes how many files the default options exclude.
func skippedByRule(s query.Skipped) string {
	return list([]reason{{s.Ignored, "ignored"}, {s.Hidden, "hidden"}})
}

// skippedFiles describes how many files could not be searched.
func skippedFiles(s query.Skipped) string {
	return list([]reason{
		{s.Binary, "binary"}, {s.TooLarge, "too large"}, {s.Permission, "not permitted to be read"},
		{s.Special, "FIFO, socket or device"}, {s.Symlink, "symbolic link"}, {s.Failed, "not readable"},
	})
}

type reason struct {
	n    int
	what string
}

func list(reasons []reason) string {
	var out []string
	for _, r := range reasons {
		if r.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", r.n, r.what))
		}
	}
	return strings.Join(out, ", ")
}

func join(a, b string) string {
	if a != "" && b != "" {
		return a + ", " + b
	}
	return a + b
}
