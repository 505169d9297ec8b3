// Package ignore implements the rules that exclude files of a tree: .gitignore, .ignore and
// .rgignore files, .git/info/exclude, git's global excludes file, and the globs of a call. It
// decides exactly as ripgrep does, which differs from git in places: git's rules apply only inside
// a repository, and a glob may contain {a,b}.
//
// The package reads no files; see [Source].
package ignore

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"toolhost.dev/plugins/grep/glob"
)

// Verdict is what rules say of a path.
type Verdict uint8

// The verdicts.
const (
	None    Verdict = iota // nothing
	Ignore                 // leave it out
	Include                // take it, even if it is hidden
)

// Rules are the rules of one ignore file. A nil *Rules has none. They are
// immutable and safe for concurrent use.
type Rules struct {
	rules []rule
	// Most rules are decided by the last element of a path; these find them. The
	// numbers are indices into rules, in rising order, as in rest.
	byName map[string][]int
	byExt  map[string][]int
	rest   []int
}

type rule struct {
	glob    *glob.Glob
	include bool
	dirOnly bool
}

// Parse reads an ignore file. Lines that are not valid are passed over, as git does.
func Parse(content string) *Rules {
	r := &Rules{}
	for line := range strings.SplitSeq(strings.TrimPrefix(content, "\uFEFF"), "\n") {
		if !utf8.ValidString(line) {
			break
		}
		if rule, ok, err := parseLine(strings.TrimSuffix(line, "\r"), glob.Options{LiteralBracket: true}); ok && err == nil {
			r.rules = append(r.rules, rule)
		}
	}
	if len(r.rules) == 0 {
		return nil
	}
	r.index()
	return r
}

// parseLine reads a line; ok is false if there is no rule in it.
func parseLine(line string, o glob.Options) (r rule, ok bool, err error) {
	if strings.HasPrefix(line, "#") {
		return r, false, nil
	}
	if !strings.HasSuffix(line, `\ `) {
		line = strings.TrimRightFunc(line, unicode.IsSpace)
	}
	if line == "" {
		return r, false, nil
	}
	anchored := false
	if strings.HasPrefix(line, `\!`) || strings.HasPrefix(line, `\#`) {
		line = line[1:]
	} else {
		line, r.include = strings.CutPrefix(line, "!")
		line, anchored = strings.CutPrefix(line, "/")
	}
	if line, r.dirOnly = strings.CutSuffix(line, "/"); r.dirOnly {
		line = strings.TrimSuffix(line, `\`)
	}
	if !anchored && !strings.Contains(line, "/") && line != "**" {
		line = "**/" + line
	}
	if strings.HasSuffix(line, "/**") {
		line += "/*" // what is inside, not the directory itself
	}
	r.glob, err = glob.Parse(line, o)
	return r, true, err
}

func (r *Rules) index() {
	r.byName, r.byExt = make(map[string][]int), make(map[string][]int)
	for i, rule := range r.rules {
		if name, ok := rule.glob.Basename(); ok {
			r.byName[name] = append(r.byName[name], i)
		} else if ext, ok := rule.glob.Extension(); ok {
			r.byExt[ext] = append(r.byExt[ext], i)
		} else {
			r.rest = append(r.rest, i)
		}
	}
}

// Match returns the verdict on a path relative to the directory the rules are for.
// The last rule that fits decides.
func (r *Rules) Match(path string, isDir bool) Verdict {
	if r == nil {
		return None
	}
	best := -1
	try := func(list []int, fits bool) {
		for i := len(list) - 1; i >= 0 && list[i] > best; i-- {
			rule := &r.rules[list[i]]
			if (isDir || !rule.dirOnly) && (fits || rule.glob.Match(path)) {
				best = list[i]
				return
			}
		}
	}
	if len(r.byName) > 0 {
		try(r.byName[path[strings.LastIndexByte(path, '/')+1:]], true)
	}
	if len(r.byExt) > 0 {
		try(r.byExt[glob.Ext(path)], true)
	}
	try(r.rest, false)
	switch {
	case best < 0:
		return None
	case r.rules[best].include:
		return Include
	}
	return Ignore
}
