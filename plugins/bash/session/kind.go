package session

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxStateless limits the length of commands that Kind examines, in bytes.
const maxStateless = 4096

// Kind classifies commands by their possible effects. A command is classified before it runs. Each kind includes the
// guarantees of the previous kind.
type Kind int

// The kinds of commands, from the weakest guarantee to the strongest.
const (
	// Ordinary is a command that can have any effect. The shell reports the session's state at the end of the command.
	Ordinary Kind = iota
	// Stateless is a command that changes nothing in the shell's state except the last exit status. It only starts
	// programs or changes a subshell.
	Stateless
	// NoBackground is a stateless command whose shell waits for all of its child processes. A process that a started
	// program leaves behind is therefore an orphan.
	NoBackground
	// BuiltinOnly is a command that starts no process. It runs only builtins within the shell.
	BuiltinOnly
)

// Kind returns the kind of a command in a shell with the state s. In case of doubt, it returns Ordinary.
func (s *State) Kind(command string) Kind {
	if len(command) > maxStateless || strings.HasSuffix(strings.TrimRight(command, "\n"), `\`) || s.aliases() ||
		s.Defines("builtin") {
		return Ordinary
	}
	if name, plain := plainWords(command); plain && s.changesNothing(name) { // skip the parser, which would take most of the time of Kind
		if isHarmless(name) {
			return BuiltinOnly
		}
		return NoBackground
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) == 0 || !s.stateless(file.Stmts) {
		return Ordinary
	}
	switch shows, leaves, starts := look(file); {
	case shows:
		return Ordinary
	case leaves:
		return Stateless
	case starts:
		return NoBackground
	}
	return BuiltinOnly
}

// look examines a stateless command and returns three flags. The first flag is true if the command prints a value that
// differs in the shell of a stateless command: the last status, the seconds since the start, or the set of variables.
// The second flag is true if the shell can have child processes at its end. The third flag is true if the shell can
// start processes.
func look(file *syntax.File) (shows, leaves, starts bool) {
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			leaves = leaves || n.Background
		case *syntax.ProcSubst:
			leaves = true
		case *syntax.Subshell, *syntax.CmdSubst:
			starts = true
		case *syntax.BinaryCmd:
			starts = starts || n.Op == syntax.Pipe || n.Op == syntax.PipeAll
		case *syntax.ParamExp:
			shows = shows || n.Param != nil && (shown(n.Param.Value) || n.Excl)
		case *syntax.Word: // for example a word in an arithmetic expression
			shows = shows || n.Lit() == "SECONDS"
		case *syntax.DeclClause:
			shows = shows || !slices.ContainsFunc(n.Args, func(a *syntax.Assign) bool { return a.Name != nil })
		case *syntax.CallExpr:
			starts = starts || len(n.Args) == 0 || !isHarmless(n.Args[0].Lit())
			shows = shows || len(n.Args) == 1 && n.Args[0].Lit() == "set" ||
				len(n.Args) > 0 && n.Args[0].Lit() == "compgen"
		}
		return true
	})
	return shows, leaves, starts
}

// shown reports whether a parameter has a different value in the shell of a stateless command than in the
// shell of an ordinary command.
func shown(name string) bool {
	return name == "?" || name == "_" || name == "SECONDS" || strings.HasPrefix(name, "BASH") || private(name)
}

// aliases reports whether the session has aliases. With aliases, any word can mean any command.
func (s *State) aliases() bool {
	return s.Snapshot != nil && strings.Contains(s.Snapshot.Variables, "declare -A BASH_ALIASES=([")
}

func (s *State) stateless(stmts []*syntax.Stmt) bool {
	return !slices.ContainsFunc(stmts, func(st *syntax.Stmt) bool { return !s.statelessStmt(st) })
}

func (s *State) statelessStmt(st *syntax.Stmt) bool {
	if st.Coprocess || st.Disown {
		return false
	}
	for _, r := range st.Redirs {
		if r.N != nil && strings.HasPrefix(r.N.Value, "{") || r.Word != nil && !s.statelessParts(r.Word.Parts) ||
			r.Hdoc != nil && !s.statelessParts(r.Hdoc.Parts) {
			return false
		}
	}
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		return len(c.Assigns) == 0 && len(c.Args) > 0 && s.changesNothing(c.Args[0].Lit()) && !evaluates(c.Args) &&
			!slices.ContainsFunc(c.Args, func(w *syntax.Word) bool { return !s.statelessParts(w.Parts) })
	case *syntax.BinaryCmd:
		return s.statelessStmt(c.X) && s.statelessStmt(c.Y)
	case *syntax.Subshell:
		return true
	case *syntax.Block:
		return s.stateless(c.Stmts)
	case *syntax.TimeClause:
		return c.Stmt != nil && s.statelessStmt(c.Stmt)
	}
	return false
}

// evaluates reports whether a command tests if a variable is set. Such a test evaluates the subscript of an array
// element.
func evaluates(args []*syntax.Word) bool {
	if name := args[0].Lit(); name != "[" && name != "test" {
		return false
	}
	return slices.ContainsFunc(args, func(w *syntax.Word) bool {
		var text strings.Builder
		_ = syntax.NewPrinter().Print(&text, w) // ignore the error: writing to memory cannot fail
		option := strings.Trim(text.String(), `"'$\`)
		return option == "-v" || option == "-R"
	})
}

// statelessParts reports whether the expansion of a word leaves the shell unchanged.
func (s *State) statelessParts(parts []syntax.WordPart) bool {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted, *syntax.ProcSubst:
		case *syntax.CmdSubst:
			if p.TempFile || p.ReplyVar { // the shell itself runs the command, not a subshell
				return false
			}
		case *syntax.DblQuoted:
			if !s.statelessParts(p.Parts) {
				return false
			}
		case *syntax.ParamExp:
			if !plain(p) || s.references() {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// plain reports whether a parameter expansion has no operator, as in ${x} or ${#x}.
func plain(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0 &&
		p.Exp == nil
}

// references reports whether the session has references (declare -n). Expanding a reference to an array element
// evaluates the subscript.
func (s *State) references() bool {
	return s.Snapshot != nil && reference.MatchString(s.Snapshot.Variables)
}

var reference = regexp.MustCompile(`(?m)^declare -[A-Za-z]*n`)

// plainWords reports whether a command consists only of a name and words without special characters.
func plainWords(command string) (name string, plain bool) {
	name, words, _ := strings.Cut(command, " ")
	for i := range len(words) {
		if c := words[i]; !inName(c) && c != ' ' && c != '=' && c != ',' {
			return "", false
		}
	}
	return name, isCommandName(name)
}

// isCommandName reports whether a word always means the command with the same name.
func isCommandName(word string) bool {
	for i := range len(word) {
		if !inName(word[i]) {
			return false
		}
	}
	return word != "" && word[0] != '-'
}

func inName(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '+' && c <= ':' && c != ',' || c == '@' || c == '_'
}

// changesNothing reports whether a command leaves the shell unchanged. It returns true for programs and harmless
// builtins.
func (s *State) changesNothing(name string) bool {
	if s.Defines(name) {
		return false
	}
	if isHarmless(name) {
		return true
	}
	_, builtin := slices.BinarySearch(builtins, name)
	return !builtin && isCommandName(name)
}

func isHarmless(name string) bool {
	_, found := slices.BinarySearch(harmless, name)
	return found
}

// This list contains builtins that leave the shell unchanged. The list must be sorted.
var harmless = []string{":", "[", "echo", "false", "pwd", "test", "true"}

// builtins lists bash's builtins and reserved words. The list must be sorted.
var builtins = []string{
	".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "case", "cd", "command", "compgen", "complete", "compopt", "continue", "coproc",
	"declare", "dirs", "disown", "do", "done", "echo", "elif", "else", "enable", "esac", "eval", "exec", "exit", "export", "false", "fc", "fg", "fi", "for",
	"function", "getopts", "hash", "help", "history", "if", "in", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd",
	"read", "readarray", "readonly", "return", "select", "set", "shift", "shopt", "source", "suspend", "test", "then", "time", "times", "trap", "true",
	"type", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait", "while",
}
