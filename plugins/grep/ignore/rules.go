// Package ignore implements the rules that exclude files of a tree. The rules come from .gitignore, .ignore and
// .rgignore files, .git/info/exclude, git's global excludes file, and the globs of a call. The decisions equal the
// decisions of ripgrep. They differ from git in two points: git's rules apply only inside a repository, and a glob
// can contain {a,b}.
//
// The package reads only git's global files. Callers provide other ignore files through [Source].
package ignore

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"toolhost.dev/plugins/grep/glob"
)

// Verdict is the decision of rules on a path.
type Verdict uint8

// The values of [Verdict].
const (
	None    Verdict = iota // no rule matches the path
	Ignore                 // exclude the path
	Include                // include the path, even if it is hidden
)

// Rules are the rules of one ignore file. A nil *Rules contains no rules. Rules are immutable and safe for concurrent
// use.
type Rules struct {
	rules []rule
	// byName and byExt are indexes of the rules that depend only on the last element of a path, which most rules do.
	// The map values are indices into the slice "rules", in ascending order. The slice "rest" contains the indices of
	// all other rules.
	byName map[string][]int
	byExt  map[string][]int
	rest   []int
}

type rule struct {
	glob    *glob.Glob
	include bool
	dirOnly bool
}

// Parse parses the content of an ignore file. Like git, it ignores invalid lines.
func Parse(content string) *Rules {
	r := &Rules{}
	for line := range strings.SplitSeq(strings.TrimPrefix(content, "\uFEFF"), "\n") {
		if !utf8.ValidString(line) {
			break
		}
		if rule, ok, err := parseLine(strings.TrimSuffix(line, "\r"), glob.Options{LiteralBracket: true}); ok &&
			err == nil {
			r.rules = append(r.rules, rule)
		}
	}
	if len(r.rules) == 0 {
		return nil
	}
	r.index()
	return r
}

// parseLine parses a line of an ignore file. If the line contains no rule, ok is false.
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
	if line == "" { // nothing but an operator, such as "!": git ignores the line, and ripgrep matches all files
		return r, false, nil
	}
	if !anchored && !strings.Contains(line, "/") && line != "**" {
		line = "**/" + line
	}
	if strings.HasSuffix(line, "/**") {
		line += "/*" // the rule matches the files in the directory, but not the directory itself
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

// Match returns the verdict on a path relative to the directory of the ignore file. The last matching rule decides.
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
