// Package gitignore decides which files of a repository git ignores. [Tree.Ignored] decides about one path. The rules
// come from .gitignore files and from .git/info/exclude, and not from the user's own excludes file. The plugin grep
// does not use this package, because its rules are those of ripgrep, which also reads .ignore files and knows {a,b}.
package gitignore

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Tree is a repository. It reads each ignore file once. It is not safe for concurrent use.
type Tree struct {
	// Read returns the content of a file of the repository, or an error if it does not exist. The path is relative to
	// the top and has slashes.
	Read func(path string) ([]byte, error)

	rules   map[string][]rule // by directory
	ignored map[string]bool   // directories
}

// rule is one line of an ignore file.
type rule struct {
	glob              string // relative to the directory of the file
	include, dirsOnly bool
}

// Ignored reports whether git ignores a path, because of a rule for it or for a directory above it.
func (t *Tree) Ignored(name string, isDir bool) bool {
	if t.rules == nil {
		t.rules, t.ignored = make(map[string][]rule), make(map[string]bool)
	}
	if name == "." || name == ".git" || strings.HasPrefix(name, ".git/") {
		return false
	}
	if isDir {
		if known, ok := t.ignored[name]; ok {
			return known
		}
	}
	out := t.Ignored(path.Dir(name), true) || t.match(name, isDir)
	if isDir {
		t.ignored[name] = out
	}
	return out
}

// match applies the rules to a path. The nearest directory with a matching rule decides. Within one file, the last
// matching rule decides.
func (t *Tree) match(name string, isDir bool) bool {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		rel := name
		if dir != "." {
			rel = strings.TrimPrefix(name, dir+"/")
		}
		for _, r := range slices.Backward(t.rulesOf(dir)) {
			if (isDir || !r.dirsOnly) && doublestar.MatchUnvalidated(r.glob, rel) {
				return !r.include
			}
		}
		if dir == "." {
			return false
		}
	}
}

func (t *Tree) rulesOf(dir string) []rule {
	if known, ok := t.rules[dir]; ok {
		return known
	}
	var out []rule
	files := []string{path.Join(dir, ".gitignore")}
	if dir == "." {
		files = []string{".git/info/exclude", ".gitignore"}
	}
	for _, file := range files {
		if text, err := t.Read(file); err == nil {
			out = append(out, parse(string(text))...)
		}
	}
	t.rules[dir] = out
	return out
}

func parse(text string) (out []rule) {
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\uFEFF"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = strings.TrimSuffix(line, " ")
		}
		r := rule{}
		line, r.include = strings.CutPrefix(line, "!")
		line, r.dirsOnly = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		switch {
		case line == "":
			continue
		case !anchored:
			line = "**/" + line
		case strings.HasSuffix(line, "/**"): // applies to the content of the directory, but not to the directory
			line += "/*"
		}
		if r.glob = escapeBraces(line); doublestar.ValidatePattern(r.glob) {
			out = append(out, r)
		}
	}
	return out
}

// escapeBraces escapes braces, which mean nothing in an ignore file.
func escapeBraces(glob string) string {
	return strings.NewReplacer(`\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`).Replace(glob)
}
