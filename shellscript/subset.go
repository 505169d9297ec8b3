package shellscript

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxRefused limits the number of reported refusals.
const maxRefused = 20

// refuse records a construct that is not in the subset of [Options.Subset].
func (w *walker) refuse(format string, a ...any) {
	if !w.strict || len(w.out.Refused) >= maxRefused {
		return
	}
	if r := fmt.Sprintf(format, a...); !slices.Contains(w.out.Refused, r) {
		w.out.Refused = append(w.out.Refused, r)
	}
}

// checkSyntax refuses syntax that can run commands that the analysis does not find, or that changes the meaning of
// later commands. It does not check the names and arguments of commands; see checkCommand.
func (w *walker) checkSyntax(f *syntax.File) {
	for i := 0; i < len(w.src); i++ {
		if c := w.src[i]; c < ' ' && c != '\t' && c != '\n' || c == 0x7f {
			w.refuse("the control character %q in a script is read differently by different shells; remove it", rune(c))
			break
		}
	}
	c := &subset{w: w, numbers: numbers(f)}
	syntax.Walk(f, c.node)
}

// subset checks the nodes of one syntax tree.
type subset struct {
	w *walker
	// numbers contains the variables that hold a number wherever the script uses them.
	numbers map[string]bool
}

func (c *subset) node(n syntax.Node) bool {
	w := c.w
	switch n := n.(type) {
	case nil, *syntax.File, *syntax.Comment, *syntax.CallExpr, *syntax.Word, *syntax.Lit, *syntax.SglQuoted,
		*syntax.Subshell, *syntax.Block, *syntax.IfClause,
		*syntax.WhileClause, *syntax.BinaryCmd, *syntax.CaseClause, *syntax.CaseItem, *syntax.ArrayExpr,
		*syntax.TimeClause, *syntax.TestClause, *syntax.ParenTest, *syntax.BraceExp:
	case *syntax.Stmt:
		if n.Coprocess || n.Disown {
			w.refuse("a coprocess is not in the subset of the shell")
		}
	case *syntax.Redirect:
		c.redirect(n)
	case *syntax.DblQuoted:
		if n.Dollar {
			w.refuse(`a translated text $"…" can contain code; remove the $`)
		}
	case *syntax.CmdSubst:
		if n.Backquotes || n.TempFile || n.ReplyVar {
			w.refuse("this form of command substitution is not in the subset of the shell; write $(…)")
		}
	case *syntax.ForClause:
		if n.Select || n.Braces {
			w.refuse("select, and for with braces, are not in the subset of the shell; use a for or while loop")
		}
	case *syntax.WordIter:
		c.variable(n.Name.Value)
	case *syntax.FuncDecl:
		if n.Name != nil {
			w.functionName(n.Name.Value)
		}
	case *syntax.DeclClause:
		c.declaration(n)
	case *syntax.Assign:
		c.assign(n)
	case *syntax.ArrayElem:
		c.arithmetic(n.Index)
	case *syntax.ParamExp:
		return c.parameter(n)
	case *syntax.UnaryTest, *syntax.BinaryTest:
		c.test(n)
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.CStyleLoop:
		c.calculation(n)
		return false
	case *syntax.CoprocClause:
		w.refuse("a coprocess is not in the subset of the shell")
	case *syntax.ProcSubst:
		w.refuse("<(…) and >(…) are not in the subset of the shell; use a pipe or a file")
	case *syntax.ExtGlob:
		w.refuse("the extended glob %s…) is read differently by different settings of the shell", n.Op)
	case *syntax.LetClause:
		w.refuse("let evaluates code in its words; use $((…)) with numbers")
	default:
		w.refuse("%s is not in the subset of the shell", strings.TrimPrefix(fmt.Sprintf("%T", n), "*syntax."))
	}
	return true
}

// test refuses operators of [[ ]] that evaluate code.
func (c *subset) test(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			c.w.refuse("[[ %s ]] evaluates code in a name; use [ -n \"${NAME-}\" ]", n.Op)
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			c.w.refuse("[[ %s ]] evaluates code in its operands; use [ … %[1]s … ]", n.Op)
		}
	}
}

// calculation checks a node that contains arithmetic.
func (c *subset) calculation(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.ArithmExp:
		c.arithmetic(n.X)
	case *syntax.ArithmCmd:
		c.arithmetic(n.X)
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{n.Init, n.Cond, n.Post} {
			c.arithmetic(x)
		}
	}
}

// delimiter matches the end word of a heredoc, if all shells read the heredoc in the same way.
var delimiter = lazily(`^(?:[A-Za-z0-9_]+|'[A-Za-z0-9_]+'|"[A-Za-z0-9_]+")$`)

func (c *subset) redirect(r *syntax.Redirect) {
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" {
		c.w.refuse("the redirect {%s} sets a variable; use a number", strings.Trim(r.N.Value, "{}"))
	}
	if r.Hdoc != nil && !delimiter().MatchString(source(c.w.src, r.Word)) {
		c.w.refuse("the end of the heredoc is not a plain word; use a word such as EOF")
	}
}

// variable refuses an assignment to a variable that changes the meaning of later commands.
func (c *subset) variable(name string) { c.w.variable(name) }

func (w *walker) variable(name string) {
	switch {
	case !identifier().MatchString(name):
		w.refuse("%q is not the name of a variable, and a shell can evaluate it", shortened(name))
	case changesMeaning(name):
		w.refuse("the variable %s can change which program a command runs", name)
	case slices.Contains(shellSets, name):
		w.refuse("the variable %s belongs to the shell, which can evaluate its value", name)
	}
}

var identifier = lazily(`^[A-Za-z_][A-Za-z0-9_]*$`)

// meaning lists variables that the shell, the linker or common programs read to decide which code to run.
var meaning = []string{
	"PATH", "ENV", "IFS", "SHELL", "SHELLOPTS", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3", "PS4", "PAGER", "EDITOR", "VISUAL", "BROWSER", "HOME", "CDPATH", "GLOBIGNORE",
	"FIGNORE", "FUNCNEST", "HISTFILE", "INPUTRC", "OPTIND", "POSIXLY_CORRECT", "EXECIGNORE", "COMP_WORDBREAKS", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH", "FD_CONFIG_PATH", "MAKEFLAGS", "MFLAGS",
	"MAKEFILES", "MAKESHELL", "RSYNC_RSH", "CVS_RSH", "GCONV_PATH", "LOCPATH", "NLSPATH", "TEXTDOMAIN", "TEXTDOMAINDIR", "LANG", "LANGUAGE", "TERMINFO", "TERMCAP", "AWKPATH", "AWKLIBPATH",
	"ZIPOPT", "UNZIP", "GZIP", "XZ_OPT", "MANPAGER", "MANOPT", "SUDO_ASKPASS", "SSH_ASKPASS", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "CC", "CXX", "LESSOPEN", "LESSCLOSE",
	"RUSTC", "RUSTC_WRAPPER", "CLASSPATH", "AUTOM4TE",
}

// changesMeaning reports whether a variable with this name can change which program a command runs.
func changesMeaning(name string) bool {
	return slices.Contains(meaning, name) ||
		slices.ContainsFunc([]string{"LD_", "DYLD_", "GIT_", "BASH", "LC_", "LESS", "NODE_", "NPM_", "npm_", "PYTHON",
			"PERL", "RUBY", "GEM_", "JAVA_", "JDK_", "_JAVA", "GO", "CGO_", "CARGO_", "MALLOC_", "GLIBC_", "TOOLHOST",
			"XDG_", "SSL_", "COMP_", "READLINE_", "BORG_", "BUNDLE_", "GROFF_", "RESTIC_"}, func(prefix string) bool {
			return strings.HasPrefix(name, prefix)
		}) && name != "CGO_ENABLED" ||
		slices.ContainsFunc([]string{"EDITOR", "PAGER", "BROWSER", "ASKPASS", "_COMMAND", "_RSH", "_SHELL"},
			func(suffix string) bool {
				return strings.HasSuffix(name, suffix)
			})
}

func (c *subset) assign(a *syntax.Assign) {
	if a.Name == nil {
		return // this argument of a declaration has no variable name
	}
	if !a.Naked {
		c.variable(a.Name.Value)
	}
	c.arithmetic(a.Index)
}

func (c *subset) declaration(n *syntax.DeclClause) {
	switch n.Variant.Value {
	case "export", "local", "declare", "typeset":
	default: // the attribute "readonly" would make later assignments fail
		c.w.refuse("%s is not in the subset of the shell", n.Variant.Value)
	}
	for _, a := range n.Args {
		if a.Name == nil {
			c.w.refuse("the options and unknown words of %s can change what a variable means; write NAME=VALUE", n.Variant.Value)
		} else {
			c.variable(a.Name.Value)
		}
	}
}

// parameter checks a parameter expansion. It reports whether the nodes in the expansion also need a check.
func (c *subset) parameter(p *syntax.ParamExp) bool {
	w := c.w
	switch {
	case p.Excl || p.Names != 0:
		w.refuse("${!NAME} evaluates the value of a variable as code")
	case p.Param == nil || p.NestedParam != nil || p.Flags != nil || len(p.Modifiers) > 0 || p.Width || p.IsSet:
		w.refuse("this parameter expansion is not in the subset of the shell")
	case p.Exp != nil && p.Exp.Op == syntax.OtherParamOps:
		w.refuse("${NAME@…} evaluates the value of a variable as code")
	case p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull):
		w.refuse("${NAME=…} assigns a variable; write an assignment")
	case p.Exp != nil && (p.Exp.Op == syntax.ErrorUnset || p.Exp.Op == syntax.ErrorUnsetOrNull):
		w.refuse("${NAME?…} ends a part of the script; use [ -n \"$NAME\" ]")
	}
	if p.Slice != nil {
		c.arithmetic(p.Slice.Offset)
		c.arithmetic(p.Slice.Length)
	}
	if word, ok := p.Index.(*syntax.Word); !ok || word.Lit() != "@" && word.Lit() != "*" {
		c.arithmetic(p.Index)
	}
	for _, word := range innerWords(p) {
		if word != nil {
			syntax.Walk(word, c.node)
		}
	}
	return false
}

// innerWords returns the words in a parameter expansion that the shell expands as text.
func innerWords(p *syntax.ParamExp) (out []*syntax.Word) {
	if p.Exp != nil {
		out = append(out, p.Exp.Word)
	}
	if p.Repl != nil {
		out = append(out, p.Repl.Orig, p.Repl.With)
	}
	return out
}

var number = lazily(`^[0-9]+$`)

// arithmetic refuses an arithmetic expression with a variable that can have a value other than a number. The shell
// would evaluate the value as an expression, which can run commands.
func (c *subset) arithmetic(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.Word:
		if x == nil {
			return
		}
		if lit := x.Lit(); lit != "" && (number().MatchString(lit) || c.numbers[lit]) {
			return
		}
		if len(x.Parts) == 1 {
			switch p := x.Parts[0].(type) {
			case *syntax.ArithmExp:
				c.arithmetic(p.X)
				return
			case *syntax.ParamExp:
				if simpleParameter(p) && (c.numbers[p.Param.Value] || p.Param.Value == "#" || p.Param.Value == "?") ||
					p.Length && !p.Excl && p.Index == nil && p.Param != nil {
					return
				}
			}
		}
		c.w.refuse("arithmetic with %s, which need not be a number, can run commands", shortened(source(c.w.src, x)))
	case *syntax.BinaryArithm:
		if x.Op == syntax.Quo || x.Op == syntax.Rem || x.Op == syntax.QuoAssgn || x.Op == syntax.RemAssgn ||
			x.Op == syntax.Shl || x.Op == syntax.Shr || x.Op == syntax.Pow {
			if right, ok := x.Y.(*syntax.Word); !ok || !number().MatchString(right.Lit()) ||
				strings.Trim(right.Lit(), "0") == "" {
				c.w.refuse("arithmetic that can fail ends a part of the script; divide by a number")
			}
		}
		c.arithmetic(x.X)
		c.arithmetic(x.Y)
	case *syntax.UnaryArithm:
		c.arithmetic(x.X)
	case *syntax.ParenArithm:
		c.arithmetic(x.X)
	default:
		c.w.refuse("this arithmetic is not in the subset of the shell")
	}
}

func simpleParameter(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && !p.Length && p.Index == nil && p.Slice == nil && p.Repl == nil &&
		p.Exp == nil && p.Names == 0
}

// ordinary matches the names of variables that the shell never sets automatically.
var ordinary = lazily(`^[a-z][a-z0-9_]*$`)

// span is the part of a script in which the definition of a variable applies. It ends with the list of statements that
// contains the definition.
type span struct{ from, until uint }

// numbers returns the variables that hold a number wherever a script uses them. The script must assign a number before
// all uses, in the same or an outer list of statements. All other assignments must also assign numbers.
func numbers(f *syntax.File) map[string]bool {
	out := make(map[string]bool)
	defined := make(map[string]span)
	define := func(name string, at syntax.Node, list []*syntax.Stmt) {
		if _, known := defined[name]; !known && ordinary().MatchString(name) {
			defined[name], out[name] = span{at.End().Offset(), list[len(list)-1].End().Offset()}, true
		}
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		list := statements(n)
		for _, s := range list {
			if s.Background || s.Negated {
				continue
			}
			switch c := s.Cmd.(type) {
			case *syntax.CallExpr:
				for _, a := range c.Assigns {
					if len(c.Args) == 0 && a.Name != nil && isNumber(a) {
						define(a.Name.Value, a, list)
					}
				}
			case *syntax.ForClause:
				if iter, ok := c.Loop.(*syntax.WordIter); ok && numberItems(iter) {
					define(iter.Name.Value, iter, list)
				}
			}
		}
		return true
	})
	if len(out) > 0 {
		dropOthers(f, out, defined)
	}
	return out
}

// statements returns the statements of a node that run in sequence.
func statements(n syntax.Node) []*syntax.Stmt {
	switch n := n.(type) {
	case *syntax.File:
		return n.Stmts
	case *syntax.Block:
		return n.Stmts
	case *syntax.Subshell:
		return n.Stmts
	case *syntax.ForClause:
		return n.Do
	case *syntax.WhileClause:
		return n.Do
	case *syntax.IfClause:
		return n.Then
	}
	return nil
}

// dropOthers removes a variable from the map "out" unless the script uses the variable only after its definition and
// assigns only numbers to the variable.
func dropOthers(f *syntax.File, out map[string]bool, defined map[string]span) {
	drop := func(name string) { delete(out, name) }
	outside := func(name string, n syntax.Node) bool {
		at := n.Pos().Offset()
		return out[name] && (at < defined[name].from || at > defined[name].until)
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			clear(out)
		case *syntax.Assign:
			if n.Name != nil && !isNumber(n) {
				drop(n.Name.Value)
			}
		case *syntax.WordIter:
			if !numberItems(n) {
				drop(n.Name.Value)
			}
		case *syntax.CallExpr: // builtins such as "read" and "unset" take variable names as arguments
			for i, a := range n.Args {
				switch text, ok := plain(a); {
				case ok:
					drop(text)
				case i == 0 && a.Lit() != "[" || setsNames(n.Args[0]):
					clear(out)
				}
			}
		case *syntax.Word:
			if name := n.Lit(); outside(name, n) {
				drop(name)
			}
		case *syntax.ParamExp:
			if n.Param != nil && outside(n.Param.Value, n) {
				drop(n.Param.Value)
			}
		}
		return true
	})
}

// setsNames reports whether a command can be a builtin that sets the variables in its arguments.
func setsNames(command *syntax.Word) bool {
	name, ok := plain(command)
	if command.Lit() == "[" {
		return false
	}
	return !ok || slices.Contains([]string{"read", "getopts", "unset", "printf", "wait", "command", "builtin"}, name)
}

// isNumber reports whether an assignment assigns a number. It does not check whether arithmetic in the value is in the
// subset.
func isNumber(a *syntax.Assign) bool {
	if a.Append || a.Naked || a.Index != nil || a.Array != nil || a.Value == nil || len(a.Value.Parts) != 1 {
		return false
	}
	_, arithmetic := a.Value.Parts[0].(*syntax.ArithmExp)
	return arithmetic || number().MatchString(a.Value.Lit())
}

func numberItems(iter *syntax.WordIter) bool {
	return len(iter.Items) > 0 &&
		!slices.ContainsFunc(iter.Items, func(item *syntax.Word) bool { return !number().MatchString(item.Lit()) })
}

// functionName refuses a function with the name of a builtin or a program.
func (w *walker) functionName(name string) {
	if !identifier().MatchString(name) || slices.Contains(allowedBuiltins, name) ||
		slices.Contains(refusedBuiltins, name) || known(name) || w.listed != nil && w.listed(name) {
		w.refuse("the function %s has the name of a program; choose another name", name)
	}
}

// known reports whether the analysis treats a program with this name specially.
func known(name string) bool {
	_, wrapper := wrappers[name]
	_, option := execOptions[name]
	return wrapper || option || slices.Contains(shells, name) || slices.Contains(runners, name) ||
		slices.Contains([]string{"env", "git", "echo", "printf", "cat", "tee", "awk", "sed"}, name)
}

func shortened(s string) string {
	s = strings.ReplaceAll(s, Unknown, "…")
	if r := []rune(s); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return s
}
