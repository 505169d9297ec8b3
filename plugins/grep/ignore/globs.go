package ignore

import (
	"errors"
	"slices"

	"toolhost.dev/plugins/grep/glob"
)

// Globs are the globs that a caller passes to a search. A glob includes matching files. A glob that begins with "!"
// excludes matching files. Apart from the meaning of "!", a glob has the syntax of a line in an ignore file. Globs
// take precedence over all ignore rules. A nil *Globs contains no globs.
type Globs struct {
	rules Rules
	// selects is true if at least one glob includes files. In this case, all files that match no glob are excluded.
	selects bool
}

// NewGlobs parses a list of globs. Every error is a [*glob.Error].
func NewGlobs(globs []string) (*Globs, error) {
	g := &Globs{}
	for _, text := range globs {
		r, ok, err := parseLine(text, glob.Options{})
		if e, ok := errors.AsType[*glob.Error](err); ok {
			return nil, &glob.Error{Glob: text, Reason: e.Reason}
		}
		if ok {
			g.rules.rules = append(g.rules.rules, r)
		}
	}
	if len(g.rules.rules) == 0 {
		return nil, nil
	}
	g.selects = slices.ContainsFunc(g.rules.rules, func(r rule) bool { return !r.include })
	g.rules.index()
	return g, nil
}

// Match returns the verdict of the globs on a path relative to the working directory.
func (g *Globs) Match(path string, isDir bool) Verdict {
	if g == nil {
		return None
	}
	switch g.rules.Match(path, isDir) { // the meaning is reversed: "!" excludes files here but includes files in an ignore file
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
