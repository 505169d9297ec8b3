package ignore

import (
	"errors"
	"slices"
	"strings"

	"toolhost.dev/plugins/grep/glob"
)

// Globs are the globs that a caller passes to a search. A glob includes matching files. A glob that begins with "!"
// excludes matching files. Apart from the meaning of "!", a glob has the syntax of a line in an ignore file. Globs
// take precedence over all ignore rules. A nil *Globs contains no globs.
type Globs struct {
	rules Rules
	// folded contains the rules of the globs that ignore the case of ASCII letters. These rules match a path in
	// lower-case letters, and take precedence over the other rules.
	folded Rules
	// selects is true if at least one glob includes files. In this case, all files that match no glob are excluded.
	selects bool
}

// NewGlobs parses globs. The globs in anyCase ignore the case of ASCII letters. Every error is a [*glob.Error].
func NewGlobs(globs, anyCase []string) (*Globs, error) {
	g := &Globs{}
	if err := g.rules.add(globs, func(s string) string { return s }); err != nil {
		return nil, err
	}
	if err := g.folded.add(anyCase, small); err != nil {
		return nil, err
	}
	all := slices.Concat(g.rules.rules, g.folded.rules)
	if len(all) == 0 {
		return nil, nil
	}
	g.selects = slices.ContainsFunc(all, func(r rule) bool { return !r.include })
	g.rules.index()
	g.folded.index()
	return g, nil
}

// add parses globs. The function "form" first converts each glob.
func (r *Rules) add(globs []string, form func(string) string) error {
	for _, text := range globs {
		parsed, ok, err := parseLine(form(text), glob.Options{})
		if e, ok := errors.AsType[*glob.Error](err); ok {
			return &glob.Error{Glob: text, Reason: e.Reason}
		}
		if ok {
			r.rules = append(r.rules, parsed)
		}
	}
	return nil
}

// small converts ASCII letters to lower case.
func small(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r | 0x20
		}
		return r
	}, s)
}

// Match returns the verdict of the globs on a path relative to the working directory.
func (g *Globs) Match(path string, isDir bool) Verdict {
	if g == nil {
		return None
	}
	verdict := None
	if len(g.folded.rules) > 0 {
		verdict = g.folded.Match(small(path), isDir)
	}
	if verdict == None {
		verdict = g.rules.Match(path, isDir)
	}
	switch verdict { // the meaning is reversed: "!" excludes files here but includes files in an ignore file
	case Ignore:
		return Include
	case Include:
		return Ignore
	}
	if g.selects && !isDir {
		return Ignore
	}
	return None
}
