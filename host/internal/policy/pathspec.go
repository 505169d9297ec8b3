package policy

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
)

// pathspec is a parsed path argument of a git command; see "pathspec" in gitglossary(7).
type pathspec struct {
	path string
	// top reports that the path starts at the top of the repository.
	top bool
	// glob reports that wildcards do not match a slash. The field "literal" reports that the path has no wildcards.
	glob, literal bool
	fold          bool // whether the match ignores case
	// unclear reports that the path alone does not determine the files. The field "exclude" reports that the pathspec
	// excludes the files.
	unclear, exclude bool
}

// parsePathspec splits a pathspec into its magic and its path.
func parsePathspec(text string) (out pathspec) {
	rest, magic := strings.CutPrefix(text, ":")
	if !magic {
		return pathspec{path: text}
	}
	words, path, closed := strings.Cut(strings.TrimPrefix(rest, "("), ")")
	if !strings.HasPrefix(rest, "(") || !closed {
		i := 0
		for ; i < len(rest) && strings.ContainsRune("/!^", rune(rest[i])); i++ {
			out.top = out.top || rest[i] == '/'
			out.exclude = out.exclude || rest[i] != '/'
		}
		out.path = strings.TrimPrefix(rest[i:], ":")
		return out
	}
	out.path = path
	for word := range strings.SplitSeq(words, ",") {
		switch word {
		case "top":
			out.top = true
		case "literal":
			out.literal = true
		case "glob":
			out.glob = true
		case "icase":
			out.fold = true
		case "exclude":
			out.exclude = true
		case "":
		default: // other magic, such as "attr:text"
			out.unclear = true
		}
	}
	return out
}

// find returns the files that match a pathspec. The result "all" is true if these files can be all files of the
// repository.
func (g *gitCommand) find(p *pathspec) (found []target, all bool) {
	dir := g.c.Dir
	if p.top {
		dir = g.top
	}
	fixed, pattern := p.split()
	matches := p.matcher(pattern)
	everything := pattern != "" && matches(sample) && matches(sampleBelow) &&
		(matches(sampleFile) || matches(sample+"/"+sampleFile))
	switch {
	case p.unclear, p.path == "" && !p.top:
		return nil, true
	case strings.Trim(fixed, "./") == "" && (dir == "" || p.top) && (pattern == "" || everything):
		return nil, true
	case dir == "" && !filepath.IsAbs(fixed):
		return nil, false
	case !filepath.IsAbs(fixed):
		fixed = dir + "/" + fixed
	}
	if pattern == "" {
		return []target{{path: g.resolve(fixed)}}, false
	}
	base := g.req.files().follow(fixed)
	if everything {
		return []target{{path: base, all: true}}, false
	}
	return g.expand(base, matches), false
}

// These names represent any file. No real file has such a name.
const (
	sample      = "\x02"
	sampleFile  = "\x02.\x04"
	sampleBelow = sample + "/" + sample
)

// expand returns the files in a directory that match a pattern. It also returns the subdirectories in which every file
// matches.
func (g *gitCommand) expand(base string, matches func(string) bool) (found []target) {
	files := g.req.files()
	names, _ := files.names(base, maxEntries)
	left := 0
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(base, name)
		yes := matches(name)
		if !yes && (matches(name+"/"+sample) || matches(name+"/"+sampleFile)) {
			_, yes, _ = files.lstat(path)
		}
		if yes {
			found = append(found, target{path: path})
		} else {
			left++
		}
	}
	if len(names) == maxEntries {
		files.uncertain = true
	}
	if left == 0 && len(found) > 0 {
		found = append(found, target{path: base, all: true})
	}
	return found
}

// split splits the path into the directory before the first wildcard and the remaining pattern. Without wildcards, the
// pattern is empty.
func (p *pathspec) split() (fixed, pattern string) {
	i := strings.IndexAny(p.path, `*?[\`)
	switch {
	case p.fold && p.path != "" && !p.literal:
		i = 0
	case i < 0 || p.literal:
		return p.path, ""
	}
	i = strings.LastIndexByte(p.path[:i], '/') + 1
	return p.path[:i], p.path[i:]
}

// matcher returns a function that matches paths below the directory before the wildcards. A pattern that cannot be
// parsed matches everything.
func (p *pathspec) matcher(pattern string) func(string) bool {
	var b strings.Builder
	b.WriteString(`(?s`)
	if p.fold {
		b.WriteString(`i`)
	}
	b.WriteString(`)\A(?:`)
	for pattern != "" {
		n := 1
		switch {
		case p.glob && strings.HasPrefix(pattern, "**/"):
			b.WriteString(`(?:.*/)?`)
			n = 3
		case pattern[0] == '*' && p.glob && !strings.HasPrefix(pattern, "**"):
			b.WriteString(`[^/]*`)
		case pattern[0] == '*':
			b.WriteString(`.*`)
		case pattern[0] == '?' && p.glob:
			b.WriteString(`[^/]`)
		case pattern[0] == '?':
			b.WriteByte('.')
		case pattern[0] == '[':
			if end := endOfSet(pattern); end > 0 {
				set := strings.ReplaceAll(pattern[1:end], `\`, `\\`)
				if set[0] == '!' {
					set = "^" + set[1:]
				}
				b.WriteString("[" + set + "]")
				n = end + 1
				break
			}
			b.WriteString(`\[`)
		case pattern[0] == '\\' && len(pattern) > 1:
			b.WriteString(regexp.QuoteMeta(pattern[1:2]))
			n = 2
		default:
			b.WriteString(regexp.QuoteMeta(pattern[:1]))
		}
		pattern = pattern[n:]
	}
	b.WriteString(`)\z`)
	re, err := regexp.Compile(b.String())
	if err != nil {
		return func(string) bool { return true }
	}
	return re.MatchString
}

// endOfSet returns the index of the bracket that closes a set of characters, or 0.
func endOfSet(pattern string) int {
	for i := 1; i < len(pattern); i++ {
		switch {
		case strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				i += end + 1
			}
		case pattern[i] == ']' && i > 1 && (i > 2 || pattern[1] != '!' && pattern[1] != '^'):
			return i
		}
	}
	return 0
}

// Globs converts globs in the form of [Rule.Paths] to absolute globs. Relative globs are relative to the workspace. If
// the beginning of a glob contains symbolic links, the result also contains the glob with the links resolved.
func Globs(globs []string, workspace string) (out []string, err error) {
	for _, g := range globs {
		pg, err := newPathGlob(g)
		if err != nil {
			return nil, err
		}
		if pg.relative {
			pg.glob = filepath.Join(escapeGlob(workspace), pg.glob)
		}
		out = append(out, pg.glob)
		base, rest := doublestar.SplitPattern(pg.glob)
		if target, err := filepath.EvalSymlinks(base); err == nil && filepath.IsAbs(base) &&
			target != filepath.Clean(base) {
			out = append(out, filepath.Join(escapeGlob(target), rest))
		}
	}
	return out, nil
}

// Covers returns the first path glob of the rule that matches a root together with all its files.
func (r *Rule) Covers(workspace string, roots []tool.Root) (glob string, covers bool) {
	for i, g := range r.globs {
		for _, root := range roots {
			if g.match(workspace, root.Path) || !g.relative && doublestar.MatchUnvalidated(g.glob, root.Path+"/\x02") &&
				doublestar.MatchUnvalidated(g.glob, root.Path+"/\x03.\x04") {
				return r.Paths[i], true
			}
		}
	}
	return "", false
}
