// Package shellscript lists the commands that a bash script would run, without running it. [Analyze] finds every simple
// command, also in substitutions, functions and subshells, behind wrappers such as "env", "sudo" or "xargs", and in
// text that a shell executes. The analysis follows literal variables and the working directory. [Analysis.Doubts] and
// [Analysis.Unknown] describe the parts of the script that it cannot know.
//
// [ParsePattern] parses patterns such as "git push *", which are compared with the found commands. [ReadsOnly] and
// [OnlyRemoves] answer common questions about a script.
//
// The analysis is advice and not a security boundary, because a running program can run any command. Its time and
// memory are limited for every text. All functions can be called from several goroutines.
package shellscript

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/shellscript/recursion"
)

// Word is a word of a command after quote removal and expansion.
type Word struct {
	// Text is the text of the word. [Unknown] replaces each part that is unknown before the script runs.
	Text string
	// Split reports whether an unknown part of the word can expand to several words or to no word.
	Split bool
}

// Unknown represents an unknown part in a text.
const Unknown = "\x01"

// Known reports whether the word has no unknown part.
func (w Word) Known() bool { return !strings.Contains(w.Text, Unknown) }

// Command is a simple command that the script would run.
type Command struct {
	// Words contains the name and the arguments. It has at least one element.
	Words []Word
	// Dir is the working directory of the command. Empty means unknown.
	Dir string
	// Wrapper reports that the only effect of the command is to run another command. The other command has a separate
	// entry.
	Wrapper bool
	// Remote reports that the command runs on another machine.
	Remote bool
	// Obscure reports that git can run a command that the script does not show. The reason is a correction, or an alias
	// that the script or its environment sets.
	Obscure bool
	// GitDir reports that an option of git names the repository.
	GitDir bool
}

// Name returns the base name of the program.
func (c *Command) Name() string { return path.Base(c.Words[0].Text) }

// String returns the command in shell syntax, with … in place of unknown parts.
func (c *Command) String() string {
	var out []string
	for _, w := range c.Words {
		out = append(out, quote(strings.ReplaceAll(w.Text, Unknown, "…")))
	}
	return strings.Join(out, " ")
}

// quote adds quotes to a text unless a shell reads the text as a single word.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n\r'\"`$&|;<>()\\#!") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// Analysis is the result of analyzing a script.
type Analysis struct {
	Commands []Command
	// Writes lists the files that redirects open for writing. Their paths are as in the script, relative to [File.Dir].
	Writes []File
	// Reads lists the files that redirects open for reading.
	Reads []File
	// Doubts describes commands with an unknown name. If Doubts is empty, Commands contains the name of every command.
	Doubts []string
	// Unknown describes code that the analysis cannot judge, such as the program of an interpreter. The commands that
	// this code runs are missing in Commands.
	Unknown []string
	// Unread reports that the parser could not read the script or a part of it, although bash might. The commands of
	// this part are missing, and it can read and write any file. Writes and Reads have an unknown file for it.
	Unread bool
	// Refused describes the parts of the script outside of the subset; see [Options.Subset].
	Refused []string
	// ForkBomb reports that a function starts copies of itself without end.
	ForkBomb bool
}

// File is a file that a redirect opens.
type File struct {
	Path Word
	Dir  string
}

// Options are the options of an analysis. Without options, the directories are unknown and standard input is empty.
type Options struct {
	// Dir is the working directory, and Home is the home directory. An empty value means that the directory is unknown.
	Dir, Home string
	// GitSettings reports that the environment changes the settings of git.
	GitSettings bool
	// Stdin is the known part of the script's standard input.
	Stdin string
	// MoreStdin reports that unknown input follows Stdin.
	MoreStdin bool
	// Subset limits scripts to constructs whose commands the analysis knows completely. [Analysis.Refused] lists all
	// other constructs.
	Subset bool
	// Listed reports whether a program with this name is listed. A function must not have the name of a listed program.
	Listed func(name string) bool
	// Gated reports that each program is judged again when it is executed. The analysis then need not guess.
	Gated bool
}

const (
	// maxScripts limits the nesting of scripts and of functions.
	maxScripts = 16
	// maxDepth limits the nesting of commands.
	maxDepth = 2000
	// maxJoined limits the number of commands in a list with the operators &&, || and |. The syntax tree of a list has
	// this depth.
	maxJoined = 20_000
	// maxSize limits the total size of all expanded words, in bytes. maxValue limits the size of one value, in bytes.
	// Without these limits, a value that repeatedly doubles itself would fill the memory.
	maxSize  = 32 << 20
	maxValue = 8 << 10
	// maxParams limits the number of variables in one word.
	maxParams = 64
	// maxDoubts limits the number of reported unknown commands.
	maxDoubts = 20
	// maxSteps limits the number of analyzed statements. The limit counts each iteration of a loop and each call of a
	// function.
	maxSteps = 100_000
)

// Analyze analyzes a bash script. It always returns an analysis: what it cannot parse or follow is a doubt.
func Analyze(text string, o Options) (a *Analysis) {
	w := &walker{
		out: new(Analysis), functions: make(map[string]*syntax.Stmt), tainted: make(map[string]bool),
		references: make(map[string]bool), fixed: make(map[string]bool), home: o.Home, strict: o.Subset,
		listed: o.Listed, gated: o.Gated, gitSettings: o.GitSettings,
	}
	a = w.out
	sc := &scope{dir: o.Dir, vars: make(map[string]string)}
	defer func() {
		if p := recover(); p != nil { // a panic of the analysis must not end the process
			w.doubt("the script cannot be analyzed: %v", p)
		}
	}()
	w.text(text, sc, feed{text: o.Stdin, known: !o.MoreStdin, from: "standard input that is written later"})
	for i := 0; i < min(len(w.late), maxScripts); i++ {
		w.text(w.late[i], sc.copy(), feed{from: "standard input"})
	}
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

// text analyzes the source text of a script that a shell executes.
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
		if anything := (File{Path: Word{Text: Unknown}}); !w.out.Unread {
			w.out.Unread, w.out.Writes, w.out.Reads = true, append(w.out.Writes, anything),
				append(w.out.Reads, anything)
		}
		if f == nil {
			return
		}
	}
	w.scripts++
	defer func() { w.scripts-- }()
	before := w.src
	w.src = text
	defer func() { w.src = before }()
	if w.strict {
		w.checkSyntax(f)
	}
	w.stmts(f.Stmts, sc, in)
}

var parsers sync.Pool

// hidden returns the first character that is invisible to a person who reads the script.
func hidden(text string) (rune, bool) {
	for i, r := range text {
		switch {
		case r == '\r':
			if i+1 < len(text) && text[i+1] == '\n' {
				continue // part of a Windows line ending
			}
		case r >= 0x20 && r < 0x7f || r == '\t' || r == '\n':
			continue
		case r == 0x1b, r >= 0xa0 && (r < 0x200b || r > 0x200f) && (r < 0x202a || r > 0x202e) &&
			(r < 0x2066 || r > 0x2069):
			continue
		}
		if r == 0x01 {
			continue // the mark of an unknown part, which the analysis reports separately
		}
		return r, true
	}
	return 0, false
}

// lazily returns a function that compiles a regular expression at its first call. Most scripts need few of the
// expressions, and compiling all of them would delay the start of each program that imports this package.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
