// Package script says what a shell script would run, without running it: every simple
// command, also in substitutions, functions and subshells, behind wrappers such as env,
// sudo or xargs, and in text that a shell is given. It follows literal variables and the
// working directory. What it cannot know it says: see [Analysis.Doubts].
//
// It is advice, not a boundary: a program can do what it wants once it runs.
package script

import (
	"fmt"
	"path"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/host/internal/recursion"
)

// Word is a word of a command after quote removal and expansion.
type Word struct {
	// Text holds [Unknown] where something stands that only running the script can tell.
	Text string
	// Split: an unknown part may become several words, or none.
	Split bool
}

// Unknown stands in texts for what cannot be known.
const Unknown = "\x01"

// Known reports whether the whole word is known.
func (w Word) Known() bool { return !strings.Contains(w.Text, Unknown) }

// Command is one simple command that would run.
type Command struct {
	// Words are the name and the arguments; there is at least one.
	Words []Word
	// Dir is the working directory; empty: it cannot be known.
	Dir string
	// Wrapper: all it does is to run another command, which is listed by itself.
	Wrapper bool
	// Remote: it runs on another machine.
	Remote bool
}

// Name of the program: the last element of what stands there.
func (c *Command) Name() string { return path.Base(c.Words[0].Text) }

// String gives the command as a shell would take it, with … for what is not known.
func (c *Command) String() string {
	var out []string
	for _, w := range c.Words {
		out = append(out, quote(strings.ReplaceAll(w.Text, Unknown, "…")))
	}
	return strings.Join(out, " ")
}

// quote puts a text into quotes where a shell would take it for more than one word.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n\r'\"`$&|;<>()\\#!") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// Analysis of a script.
type Analysis struct {
	Commands []Command
	// Writes are files that redirects open to write, as written; see Command.Dir for Dir.
	Writes []File
	// Reads are files that redirects open to read.
	Reads []File
	// Sets are variables that are assigned for commands or exported.
	Sets []string
	// Doubts say what could not be known of the commands themselves. None: every command
	// is listed, by its name.
	Doubts []string
	// Bomb: a function starts itself twice over, without end.
	Bomb bool
}

// File is the target of a redirect.
type File struct {
	Path Word
	Dir  string
}

// Options of an analysis.
type Options struct {
	// Dir is the working directory, and Home the home directory; empty: not known.
	Dir, Home string
	// Stdin is what the script gets on standard input.
	Stdin string
	// Open: more comes on standard input, later.
	Open bool
}

const (
	// maxScripts bounds scripts in scripts, and functions in functions.
	maxScripts = 16
	// maxDepth bounds commands in commands.
	maxDepth = 2000
	// maxJoined bounds the commands that are joined by && || and |, since the parser makes
	// a tree of them that is as deep as they are many.
	maxJoined = 20_000
	// maxSize bounds what words become, in bytes, and maxValue a single one: a value that
	// doubles itself some dozens of times would fill the memory.
	maxSize  = 32 << 20
	maxValue = 8 << 10
	// maxParams bounds the variables in one word.
	maxParams = 64
	// maxDoubts bounds what is said of doubts; one is as good as many.
	maxDoubts = 20
	// maxSteps bounds the statements that are looked at, loops and calls unrolled.
	maxSteps = 100_000
)

// Analyze looks at a script in the language of bash.
func Analyze(text string, o Options) (a *Analysis) {
	w := &walker{out: new(Analysis), functions: make(map[string]*syntax.Stmt), tainted: make(map[string]bool), home: o.Home}
	a = w.out
	sc := &scope{dir: o.Dir, vars: make(map[string]string)}
	defer func() {
		if p := recover(); p != nil { // what looks at a script must survive each
			w.doubt("the script cannot be analyzed: %v", p)
		}
	}()
	w.text(text, sc, feed{text: o.Stdin, known: !o.Open, from: "standard input that is written later"})
	return a
}

func (w *walker) doubt(format string, a ...any) {
	if len(w.out.Doubts) >= maxDoubts {
		return
	}
	d := fmt.Sprintf(format, a...)
	for _, known := range w.out.Doubts {
		if known == d {
			return
		}
	}
	w.out.Doubts = append(w.out.Doubts, d)
}

// text looks at text that a shell is given.
func (w *walker) text(text string, sc *scope, in feed) {
	if w.scripts >= maxScripts {
		w.doubt("scripts are nested more than %d levels deep", maxScripts)
		return
	}
	if strings.Count(text, "&&")+strings.Count(text, "|") > maxJoined {
		w.doubt("the script joins more than %d commands", maxJoined)
		return
	}
	if r, bad := hidden(text); bad {
		w.doubt("the script has the invisible character %U", r)
	}
	if strings.Contains(text, Unknown) {
		w.doubt("a part of the script is unknown before it runs")
	}
	parser, ok := parsers.Get().(*syntax.Parser)
	if !ok {
		parser = syntax.NewParser(syntax.Variant(syntax.LangBash))
	}
	f, err := parser.Parse(recursion.NewReader(text), "")
	parsers.Put(parser)
	if err != nil {
		w.doubt("the script cannot be parsed: %v", err)
		if f == nil {
			return
		}
	}
	w.scripts++
	defer func() { w.scripts-- }()
	before := w.src
	w.src = text
	defer func() { w.src = before }()
	w.stmts(f.Stmts, sc, in)
}

var parsers sync.Pool

// hidden finds a character that a person reading the script would not see.
func hidden(text string) (rune, bool) {
	for i, r := range text {
		switch {
		case r == '\r':
			if i+1 < len(text) && text[i+1] == '\n' {
				continue // line ends of another system
			}
		case r >= 0x20 && r < 0x7f || r == '\t' || r == '\n':
			continue
		case r == 0x1b, r >= 0xa0 && (r < 0x200b || r > 0x200f) && (r < 0x202a || r > 0x202e) && (r < 0x2066 || r > 0x2069):
			continue
		}
		if r == 0x01 {
			continue // said otherwise
		}
		return r, true
	}
	return 0, false
}
