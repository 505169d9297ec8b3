package ignore

import (
	"errors"
	"slices"

	"toolhost.dev/plugins/grep/glob"
)

// Globs are the globs that a call gives. Each takes the files that fit, and one
// with "!" in front leaves them out; otherwise they are read like a line of an
// ignore file. They have the last word over all ignore rules. A nil *Globs has none.
type Globs struct {
	rules Rules
	// selects: there is a glob that takes files, so all others are left out.
	selects bool
}

// NewGlobs reads the globs. The error is a [*glob.Error].
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

// Match returns the verdict on a path relative to the working directory.
func (g *Globs) Match(path string, isDir bool) Verdict {
	if g == nil {
		return None
	}
	switch g.rules.Match(path, isDir) { // the meaning of "!" is the other way round
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
