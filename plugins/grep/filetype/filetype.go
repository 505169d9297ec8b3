// Package filetype contains a table of file types such as "go", "py", "ts" and "markdown", with the file names of each
// type. The type names and file names come from ripgrep.
package filetype

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"toolhost.dev/plugins/grep/glob"
)

// Each line of the table consists of the name of a type, the separator ": ", and the globs of the type, which are
// separated by ", ".
//
//go:embed types.txt
var table string

// Type holds the globs that match the file names of one type.
type Type struct{ globs []*glob.Glob }

var types = sync.OnceValue(func() map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(table) {
		if name, globs, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			m[name] = globs
		}
	}
	return m
})

// Names returns the names of all types, sorted.
func Names() []string {
	var names []string
	for name := range types() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// synonyms maps additional names of languages to types. The additional names are unknown to ripgrep.
var synonyms = map[string]string{
	"golang": "go", "javascript": "js", "jsx": "js", "tsx": "ts", "py3": "py", "rs": "rust", "rb": "ruby", "c++": "cpp", "cc": "cpp", "kt": "kotlin",
	"yml": "yaml", "bash": "sh", "shell": "sh", "text": "txt", "htm": "html", "pl": "perl", "ex": "elixir", "objective-c": "objc", "dockerfile": "docker", "makefile": "make",
}

// Find returns the type with that name. It ignores the case of the name. If the name is unknown, ok is false.
func Find(name string) (t *Type, ok bool) {
	name = strings.ToLower(name)
	list, ok := types()[name]
	if !ok {
		list, ok = types()[synonyms[name]]
	}
	if !ok {
		return nil, false
	}
	t = &Type{}
	for text := range strings.SplitSeq(list, ", ") {
		g, err := glob.Parse(text, glob.Options{})
		if err != nil {
			panic("filetype: " + err.Error()) // cannot happen, because the table is embedded in the program
		}
		t.globs = append(t.globs, g)
	}
	return t, true
}

// Match reports whether a file belongs to the type. The file name must not contain a directory.
func (t *Type) Match(name string) bool {
	return slices.ContainsFunc(t.globs, func(g *glob.Glob) bool { return g.Match(name) })
}
