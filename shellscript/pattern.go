package shellscript

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Pattern is a pattern for commands in a rule, such as "git push *". It is compared with a command word by word. Within
// a word, * matches any text and ? matches one character. A separate word * matches any number of words.
type Pattern struct {
	text  string
	words []string // each literal * and ? has a backslash before it
}

func (p Pattern) String() string { return p.text }

// Match is the result of comparing a command with a pattern.
type Match int

// These are the results of a comparison. Maybe means that the result depends on unknown parts of the command.
const (
	No Match = iota
	Maybe
	Yes
)

// ParsePattern parses a pattern. Quotes have the same meaning as in a shell.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{text: text}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return p, fmt.Errorf("the pattern cannot be parsed: %w", err)
	}
	if len(f.Stmts) != 1 || len(f.Stmts[0].Redirs) > 0 || f.Stmts[0].Background || f.Stmts[0].Negated {
		return p, errors.New("the pattern is not a single simple command; write one pattern for each command, because rules match each command separately")
	}
	c, ok := f.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(c.Assigns) > 0 || len(c.Args) == 0 {
		return p, errors.New("the pattern is not a single simple command; write one pattern for each command, because rules match each command separately")
	}
	for _, a := range c.Args {
		word, err := patternWord(a)
		if err != nil {
			return p, err
		}
		p.words = append(p.words, word)
	}
	last := p.words[len(p.words)-1]
	if strings.HasSuffix(last, ":*") && last != ":*" { // the single word ":*" is a refspec of git push
		return p, fmt.Errorf("a pattern cannot end in %q; to allow further words write %q", ":*", strings.TrimSuffix(strings.TrimSpace(text), ":*")+" *")
	}
	return p, nil
}

func patternWord(w *syntax.Word) (string, error) {
	var out strings.Builder
	literal := func(s string) {
		for _, r := range s {
			if strings.ContainsRune(`*?\`, r) {
				out.WriteByte('\\')
			}
			out.WriteRune(r)
		}
	}
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			out.WriteString(part.Value)
		case *syntax.SglQuoted:
			literal(part.Value)
		case *syntax.DblQuoted:
			for _, q := range part.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return "", errors.New("the pattern contains $ or a backtick, and patterns are not expanded; put this text in single quotes")
				}
				literal(strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`).Replace(l.Value))
			}
		default:
			return "", errors.New("the pattern contains $ or a backtick, and patterns are not expanded; put this text in single quotes")
		}
	}
	return out.String(), nil
}

// Exact reports whether each word of a command matches the pattern. Rules that allow commands use Exact.
func (p Pattern) Exact(c *Command) bool {
	return p.name(c, true) == Yes && words(p.words[1:], c.Words[1:]) == Yes
}

// Match compares a command with the pattern. Options can be in any position, joined or abbreviated, and an unknown part
// can match any text. Rules that forbid commands use Match.
func (p Pattern) Match(c *Command) Match {
	name := p.name(c, false)
	if name == No {
		return No
	}
	pattern, args := p.words[1:], c.Words[1:]
	if m := words(pattern, args); m == Yes {
		return name
	}
	var operands []string
	rest := slices.Clone(args)
	used := make([]bool, len(rest))
	for _, w := range pattern {
		if len(w) < 2 || w[0] != '-' || strings.ContainsAny(w, `*?\`) || w == "--" {
			operands = append(operands, w)
			continue
		}
		if !takeFlag(w, rest, used) {
			if slices.ContainsFunc(rest, func(a Word) bool { return a.Split && !a.Known() }) {
				return Maybe
			}
			return min(name, words(pattern, args))
		}
	}
	var left []Word
	for i, a := range rest {
		if !used[i] {
			left = append(left, a)
		}
	}
	return min(name, max(words(operands, left), words(pattern, args)))
}

// takeFlag searches the arguments for an option, also among joined short options. It marks the words that contain the
// option as used.
func takeFlag(flag string, args []Word, used []bool) bool {
	if strings.HasPrefix(flag, "--") {
		for i, a := range args {
			name, _, _ := strings.Cut(a.Text, "=")
			if len(name) > len("--") && strings.HasPrefix(flag, name) {
				used[i] = true
				return true
			}
		}
		return false
	}
	for _, letter := range flag[1:] {
		found := false
		for i, a := range args {
			if a.Text == "--" {
				break
			}
			if len(a.Text) > 1 && a.Text[0] == '-' && a.Text[1] != '-' && strings.ContainsRune(a.Text, letter) {
				used[i], found = true, true
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// SystemDirs lists the directories of the system in which a shell finds programs without a path. A command with one of
// these directories in its path is the same program as one without a path.
var SystemDirs = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"}

func (p Pattern) name(c *Command, exact bool) Match {
	have := c.Words[0]
	if !have.Known() {
		if p.words[0] == "*" {
			return Yes
		}
		return Maybe
	}
	if have.Split { // the name contains a wildcard
		return Maybe
	}
	if glob(p.words[0], have.Text) {
		return Yes
	}
	clean := path.Clean(have.Text)
	base := path.Base(clean)
	// A path with ".." does not identify a program, because the kernel follows a link before "..".
	if strings.Contains(p.words[0], "/") || base == have.Text ||
		exact && (clean != have.Text || !slices.Contains(SystemDirs, path.Dir(clean))) {
		return No
	}
	if glob(p.words[0], base) {
		return Yes
	}
	return No
}

// words compares the words of a command with the words of a pattern.
func words(pattern []string, have []Word) Match {
	if len(pattern) == 1 && pattern[0] == "*" {
		return Yes
	}
	if len(pattern) == 0 {
		if len(have) == 0 {
			return Yes
		}
		if slices.ContainsFunc(have, func(w Word) bool { return w.Known() || !w.Split }) {
			return No
		}
		return Maybe
	}
	if pattern[0] == "*" {
		best := words(pattern[1:], have)
		for i := 0; i < len(have) && best != Yes; i++ {
			best = max(best, words(pattern[1:], have[i+1:]))
		}
		return best
	}
	if len(have) == 0 {
		return No
	}
	w := have[0]
	if w.Split && !w.Known() {
		return Maybe
	}
	if !w.Known() {
		known, _, _ := strings.Cut(w.Text, Unknown)
		wanted := pattern[0]
		if i := strings.IndexAny(wanted, `*?\`); i >= 0 {
			wanted = wanted[:i]
		}
		if n := min(len(known), len(wanted)); known[:n] != wanted[:n] {
			return No
		}
		return min(Maybe, words(pattern[1:], have[1:]))
	}
	if !glob(pattern[0], w.Text) {
		return No
	}
	return words(pattern[1:], have[1:])
}

// glob reports whether a pattern matches the whole text. A * matches any text, ? matches one character, and a backslash
// escapes a literal character.
func glob(pattern, text string) bool {
	star, mark := -1, 0
	i, k := 0, 0
	for k < len(text) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, k
			i++
			continue
		case i < len(pattern) && pattern[i] == '?':
			i++
			k++
			continue
		case i+1 < len(pattern) && pattern[i] == '\\' && pattern[i+1] == text[k]:
			i += 2
			k++
			continue
		case i < len(pattern) && pattern[i] != '\\' && pattern[i] == text[k]:
			i++
			k++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		i, k = star+1, mark
	}
	return strings.Trim(pattern[i:], "*") == ""
}

// Names reports whether the pattern matches the name of a program.
func (p Pattern) Names(name string) bool { return len(p.words) > 0 && glob(p.words[0], name) }

// NamesPath reports whether the pattern contains the path of a program.
func (p Pattern) NamesPath() bool { return len(p.words) > 0 && strings.Contains(p.words[0], "/") }

// Name returns the pattern for the name or the path of the program. A backslash precedes each literal * and ?.
func (p Pattern) Name() string { return p.words[0] }

// MatchName reports whether a pattern matches the name of a program. In the pattern, * matches any text.
func MatchName(pattern, name string) bool { return glob(pattern, name) }
