package shellscript

import (
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// scope holds the known state of the shell at one point of a script.
type scope struct {
	// vars contains the variables that the script set. A value contains [Unknown] in place of each unknown part. A
	// variable that is missing in vars can have a value from before the script.
	vars map[string]string
	dir  string
	args []Word // $0 and the following arguments; nil means unknown
}

func (s *scope) copy() *scope {
	return &scope{vars: maps.Clone(s.vars), dir: s.dir, args: s.args}
}

// merge combines the scope with the scope after an optional part of the script. A variable with different values in the
// two scopes becomes unknown.
func (s *scope) merge(other *scope) {
	for name, v := range other.vars {
		if have, ok := s.vars[name]; !ok || have != v {
			s.vars[name] = Unknown
		}
	}
	if s.dir != other.dir {
		s.dir = ""
	}
}

// join returns the directory to which a path leads. An empty result means that the directory is unknown.
func (s *scope) join(to Word) string {
	switch {
	case !to.Known():
		return ""
	case path.IsAbs(to.Text):
		return path.Clean(to.Text)
	case s.dir == "":
		return ""
	}
	return path.Join(s.dir, to.Text)
}

// lose marks all variables as unknown, because a command sets a variable whose name is unknown.
func (w *walker) lose(sc *scope, command string) {
	w.lost++
	w.unknown("%s sets a variable whose name is unknown before the script runs", command)
	sc.vars = unknownVars(sc.vars)
}

// set marks a variable that a builtin sets as unknown.
func (w *walker) set(variable Word, sc *scope, command string) {
	name, _, _ := strings.Cut(variable.Text, "[")
	switch {
	case identifier().MatchString(name):
		sc.vars[name] = Unknown
	case strings.Contains(name, Unknown):
		w.lose(sc, command)
	}
}

// variablesOf returns the arguments of a builtin that name the variables that it sets.
func variablesOf(builtin string, args []Word) (out []Word) {
	valued, naming, operands := "", "", true // options with a value, and options whose value is the name of a variable
	switch builtin {
	case "read":
		valued, naming = "dinNptu", "a"
	case "mapfile", "readarray":
		valued = "dnOsuCc"
	case "unset":
	case "printf":
		naming, operands = "v", false
		if len(args) > 1 && !args[0].Known() && args[1].Known() { // the first argument can be -v
			out = append(out, args[1])
		}
	case "wait":
		naming, operands = "p", false
	case "getopts":
		return args[min(1, len(args)):min(2, len(args))]
	default:
		return nil
	}
	for i := 0; i < len(args); i++ {
		a := args[i].Text
		if len(a) < 2 || a[0] != '-' {
			if operands {
				out = append(out, args[i:]...)
			}
			break
		}
		k := strings.IndexAny(a[1:], valued+naming) + 1
		if k == 0 {
			continue
		}
		value := Word{Text: a[k+1:]}
		if value.Text == "" && i+1 < len(args) {
			i++
			value = args[i]
		}
		if strings.IndexByte(naming, a[k]) >= 0 {
			out = append(out, value)
		}
	}
	return out
}

// attribute records that the options of a declaration make a variable read-only, change the values that it gets, or
// make it a reference to another variable. The argument "value" is empty if the value is unknown.
func (w *walker) attribute(command, options, name, value string) {
	if command == "readonly" || strings.Contains(options, "r") {
		w.fixed[name] = true
	}
	if command == "export" {
		return // its option -n is no attribute
	}
	if strings.ContainsAny(options, "iluc") {
		w.tainted[name] = true
		w.unknown("the variable %s changes the values that it gets (%s -%s)", name, command, options)
	}
	if strings.Contains(options, "n") {
		w.tainted[name], w.references[name] = true, true
		w.unknown("the variable %s stands for another one (%s -%s)", name, command, options)
		if target, _, _ := strings.Cut(value, "["); identifier().MatchString(target) {
			w.tainted[target] = true
		} else {
			w.opaque = true
		}
	}
}

// shellSets lists variables whose values the shell itself changes.
var shellSets = []string{
	"_", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "EPOCHREALTIME", "REPLY", "OPTARG", "OPTIND", "OLDPWD", "DIRSTACK", "GROUPS", "FUNCNAME", "PIPESTATUS", "MAPFILE", "COPROC",
	"COLUMNS", "LINES", "BASHPID", "BASH_COMMAND", "BASH_SUBSHELL", "BASH_LINENO", "BASH_REMATCH", "BASH_ARGV", "BASH_ARGC", "BASH_ARGV0", "HISTCMD", "UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS",
}

// environ provides the variables of a scope to package expand.
type environ struct {
	*scope
	w *walker
}

func (e environ) Each(func(string, expand.Variable) bool) {}

func (e environ) Get(name string) expand.Variable {
	text := func(s string) expand.Variable {
		return expand.Variable{Set: true, Kind: expand.String, Str: s}
	}
	if name == "IFS" {
		v, ok := e.vars[name]
		if e.w.tainted[name] || strings.Contains(v, Unknown) {
			e.w.doubt("the value of IFS, which splits words, is unknown")
			ok = false
		}
		if !ok {
			v = " \t\n"
		}
		return text(v)
	}
	if e.w.tainted[name] || slices.Contains(shellSets, name) || e.w.opaque && identifier().MatchString(name) {
		return text(Unknown)
	}
	if v, ok := e.vars[name]; ok {
		return text(v)
	}
	switch {
	case name == "PWD" && e.dir != "":
		return text(e.dir)
	case name == "HOME" && e.w.home != "":
		return text(e.w.home)
	case (name == "@" || name == "*") && e.args != nil:
		v := expand.Variable{Set: true, Kind: expand.Indexed}
		for _, a := range e.args[min(1, len(e.args)):] {
			v.List = append(v.List, a.Text)
		}
		return v
	case name == "@" || name == "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: []string{Unknown}}
	}
	if n, err := strconv.Atoi(name); err == nil && e.args != nil {
		if n < len(e.args) {
			return text(e.args[n].Text)
		}
		return expand.Variable{}
	}
	return text(Unknown)
}

func (w *walker) expansion(sc *scope) *expand.Config {
	return &expand.Config{
		Env:       environ{sc, w},
		ProcSubst: func(*syntax.ProcSubst) (string, error) { return Unknown, nil },
		CmdSubst: func(out io.Writer, cs *syntax.CmdSubst) error {
			text, ok := w.produced(cs.Stmts, sc)
			if !ok {
				text = Unknown
			}
			_, err := out.Write([]byte(text))
			return err
		},
	}
}

// fields returns the words that result when the shell expands and splits a word.
func (w *walker) fields(word *syntax.Word, sc *scope) []Word {
	w.size += wordSize
	if text, ok := plain(word); ok {
		return []Word{{Text: text}}
	}
	if w.size > maxSize {
		return []Word{{Text: Unknown, Split: true}}
	}
	dynamic, pattern := unquoted(word)
	if !w.simple(word, sc) || braces(word) > maxBraces {
		return []Word{{Text: Unknown, Split: true}}
	}
	texts, err := expand.Fields(w.expansion(sc), word)
	if err != nil {
		return []Word{{Text: Unknown, Split: true}}
	}
	out := make([]Word, len(texts))
	for i, t := range texts {
		w.size += wordSize + len(t)
		if len(t) > longest(word) {
			t = Unknown
		}
		out[i] = Word{Text: t, Split: dynamic && strings.Contains(t, Unknown) || pattern && isPattern(t)}
	}
	return out
}

// plain returns the text of a word without expansions. The second result is false if the word contains
// an expansion. Most words contain no expansion.
func plain(word *syntax.Word) (string, bool) {
	var out string
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "\\{~*?[") {
				return "", false
			}
			out += p.Value
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			out += p.Value
		default:
			return "", false
		}
	}
	return out, true
}

// literal returns the expanded text of a word in a position where the shell does not split words.
func (w *walker) literal(word *syntax.Word, sc *scope) string {
	if word == nil {
		return ""
	}
	if text, ok := plain(word); ok {
		return text
	}
	if !w.simple(word, sc) {
		return Unknown
	}
	if w.size > maxSize {
		return Unknown
	}
	text, err := expand.Literal(w.expansion(sc), word)
	w.size += len(text)
	if err != nil || len(text) > longest(word) {
		return Unknown
	}
	return text
}

// longest returns the maximum length of an expanded word, in bytes. The limit is higher for a word that
// is itself long.
func longest(word *syntax.Word) int { return maxValue + int(word.End().Offset()-word.Pos().Offset()) }

// simple reports whether the expansion of a word copies unknown values unchanged. Other expansions can
// transform [Unknown], and then the analysis does not recognize the unknown parts.
func (w *walker) simple(word *syntax.Word, sc *scope) bool {
	ok, params := true, 0
	syntax.Walk(word, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.ParamExp:
			if params++; params > maxParams || n.Repl != nil { // a replacement can multiply the length of the text
				ok = false
				return false
			}
			plain := !n.Excl && !n.Length && n.Index == nil && n.Slice == nil && n.Repl == nil && n.Exp == nil &&
				n.Names == 0 && n.Param != nil
			if !plain && (n.Param == nil || n.Excl || n.Index != nil ||
				strings.Contains(environ{sc, w}.Get(n.Param.Value).String(), Unknown)) {
				ok = false
			}
		case *syntax.ArithmExp:
			ok = false
		}
		return ok
	})
	return ok
}

// unquoted reports whether a word contains an expansion outside of quotes, and whether it contains a
// wildcard outside of quotes.
func unquoted(word *syntax.Word) (dynamic, pattern bool) {
	for _, p := range word.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				switch p.Value[i] {
				case '\\':
					i++
				case '*', '?', '[':
					pattern = true
				}
			}
		case *syntax.SglQuoted:
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if e, ok := q.(*syntax.ParamExp); ok && e.Param != nil && e.Param.Value == "@" {
					dynamic = true
				}
			}
		case *syntax.ExtGlob:
			pattern = true
		default:
			dynamic = true
		}
	}
	return dynamic, pattern
}

// isPattern reports whether a text contains wildcards and can therefore match several file names.
func isPattern(s string) bool { return s != "[" && s != "[[" && strings.ContainsAny(s, "*?[") }

// wordSize is the approximate memory of a word without its text, in bytes.
const wordSize = 32

// maxBraces limits the number of words that result from the expansion of braces.
const maxBraces = 256

// braces returns the number of words that result from the expansion of the braces in a word. It stops counting above
// maxBraces.
func braces(word *syntax.Word) int {
	open := 0
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			open += strings.Count(l.Value, "{")
		}
	}
	switch {
	case open == 0:
		return 1
	case open > maxBraces: // expanding the braces would take too long
		return maxBraces + 1
	}
	c := *word
	if !syntax.SplitBraces(&c) {
		return 1
	}
	return countBraces(&c)
}

func countBraces(word *syntax.Word) int {
	n := 1
	for _, p := range word.Parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			continue
		}
		m := 0
		if b.Sequence {
			m = sequence(b)
		} else {
			for _, e := range b.Elems {
				m += countBraces(e)
			}
		}
		if n *= max(m, 1); n > maxBraces {
			return n
		}
	}
	return n
}

// sequence returns the number of elements in a brace sequence such as {1..9}.
func sequence(b *syntax.BraceExp) int {
	var ends [2]int
	for i := range ends {
		n, err := strconv.Atoi(b.Elems[i].Lit())
		if err != nil {
			return 64 // upper bound for a sequence of letters
		}
		ends[i] = n
	}
	n := ends[1] - ends[0]
	if n < 0 {
		n = -n
	}
	if n < 0 || n > maxBraces {
		return maxBraces + 1
	}
	return n + 1
}
