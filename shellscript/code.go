package shellscript

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/shellscript/recursion"
)

// maxUnknown limits the number of reported unknown parts.
const maxUnknown = 20

// unknown records a part of the script that can run commands that the analysis does not find.
func (w *walker) unknown(format string, a ...any) {
	if len(w.out.Unknown) >= maxUnknown {
		return
	}
	if u := strings.ReplaceAll(fmt.Sprintf(format, a...), Unknown, "…"); !slices.Contains(w.out.Unknown, u) {
		w.out.Unknown = append(w.out.Unknown, u)
	}
}

// code analyzes a text that the shell expands a second time, for example an array index in a name. The argument "where"
// describes the position of the text for messages.
func (w *walker) code(text string, sc *scope, where string) {
	if strings.Contains(text, Unknown) {
		w.unknown("code in a word is not judged: %s is unknown before the script runs", where)
	}
	if !strings.Contains(text, "$(") && !strings.Contains(text, "`") && !strings.Contains(text, "${") &&
		!strings.Contains(text, "$[") {
		return
	}
	if w.scripts >= maxScripts {
		w.doubt("scripts are nested more than %d levels deep", maxScripts)
		return
	}
	word, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Document(recursion.NewReader(text))
	if err != nil {
		w.doubt("the code in %s cannot be parsed", where)
		return
	}
	before := w.src
	w.src = text
	w.scripts++
	w.substitutions(word, sc)
	w.scripts--
	w.src = before
}

// names matches each variable name in an arithmetic expression.
var names = lazily(`[A-Za-z_][A-Za-z0-9_]*`)

// maxIndirect limits the length of a chain of variables in which each contains the name of the next.
const maxIndirect = 8

// value analyzes a text that the shell evaluates as an arithmetic expression. The shell also evaluates the values of
// the variables in the expression.
func (w *walker) value(text string, sc *scope, where string, level int) {
	w.code(text, sc, where)
	if level >= maxIndirect {
		return
	}
	sets := strings.Contains(text, "=") || strings.Contains(text, "++") || strings.Contains(text, "--")
	for _, name := range names().FindAllString(text, maxIndirect) {
		if strings.Contains(text, "$(") || strings.Contains(text, "`") {
			break // the matches can also be names of commands
		}
		value, set := sc.vars[name]
		if sets {
			sc.vars[name] = Unknown
		}
		switch {
		case !set && !w.tainted[name]: // the variable can have an unknown value from before the script
			if name != strings.ToUpper(name) || len(name) > 1 {
				w.unknown("code in a value is not judged: arithmetic evaluates the variable %s, whose value is unknown", name)
			}
		case strings.Contains(value, Unknown) || w.tainted[name]:
			if !w.counted[name] {
				w.unknown("code in a value is not judged: arithmetic evaluates the variable %s, whose value is unknown", name)
			}
		case value != text && !number().MatchString(value):
			w.value(value, sc, "the variable "+name, level+1)
		}
	}
}

// arithmetic analyzes the texts in an arithmetic expression.
func (w *walker) arithmetic(x syntax.Node, sc *scope) {
	if w.counted == nil {
		w.counted = make(map[string]bool)
	}
	syntax.Walk(x, func(n syntax.Node) bool { // a variable that arithmetic assigns holds a number
		switch n := n.(type) {
		case *syntax.BinaryArithm:
			if word, ok := n.X.(*syntax.Word); ok && strings.HasSuffix(n.Op.String(), "=") && word.Lit() != "" &&
				!slices.Contains([]string{"==", "!=", "<=", ">="}, n.Op.String()) {
				w.counted[word.Lit()], sc.vars[word.Lit()] = true, Unknown
			}
		case *syntax.UnaryArithm:
			if word, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) && word.Lit() != "" {
				w.counted[word.Lit()], sc.vars[word.Lit()] = true, Unknown
			}
		}
		return true
	})
	syntax.Walk(x, func(n syntax.Node) bool {
		word, ok := n.(*syntax.Word)
		if !ok || word == nil {
			return true
		}
		if text := w.literal(word, sc); !w.counted[word.Lit()] && !number().MatchString(text) {
			if text == Unknown && len(word.Parts) == 1 {
				if p, ok := word.Parts[0].(*syntax.ParamExp); ok && p.Param != nil {
					if !isSpecial(p.Param.Value) && !w.counted[p.Param.Value] && !p.Length {
						w.unknown("code in a value is not judged: arithmetic evaluates the variable %s, whose value is unknown", p.Param.Value)
					}
					return false
				}
				if _, ok := word.Parts[0].(*syntax.CmdSubst); ok {
					w.unknown("arithmetic evaluates the output of a command, and code in this output is not judged")
					return false
				}
			}
			w.value(text, sc, "arithmetic", 0)
		}
		return false
	})
}

// isSpecial reports whether a parameter is an argument of the script or a number that the shell sets.
func isSpecial(name string) bool {
	return len(name) == 1 && strings.Contains("#?$!0123456789", name) //nolint:gocritic // the order is right
}

// evaluated analyzes the code that the shell evaluates in a syntax node, except substitutions.
func (w *walker) evaluated(n syntax.Node, sc *scope) {
	switch n := n.(type) {
	case *syntax.ArithmExp:
		w.arithmetic(n.X, sc)
		forget(n, sc)
	case *syntax.ArithmCmd:
		w.arithmetic(n.X, sc)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			w.arithmetic(x, sc)
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{n.Init, n.Cond, n.Post} {
			if x != nil {
				w.arithmetic(x, sc)
			}
		}
	case *syntax.Assign:
		if n.Index != nil {
			w.arithmetic(n.Index, sc)
		}
	case *syntax.ParamExp:
		w.evaluatedParameter(n, sc)
	case *syntax.UnaryTest:
		if word, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) {
			w.code(w.literal(word, sc), sc, "[[ -v ]]")
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			w.arithmetic(n.X, sc)
			w.arithmetic(n.Y, sc)
		}
	}
}

func (w *walker) evaluatedParameter(p *syntax.ParamExp, sc *scope) {
	if p.Index != nil {
		if word, ok := p.Index.(*syntax.Word); !ok || word.Lit() != "@" && word.Lit() != "*" {
			w.arithmetic(p.Index, sc)
		}
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				w.arithmetic(x, sc)
			}
		}
	}
	if p.Param == nil {
		return
	}
	switch {
	case !assigns(p):
	case p.Excl:
		w.lose(sc, "${!"+p.Param.Value+"=…}")
	case sc.vars[p.Param.Value] == "":
		sc.vars[p.Param.Value] = Unknown
	}
	evaluates := p.Excl && p.Names == 0
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && p.Exp.Word != nil {
		evaluates = evaluates || strings.ContainsAny(p.Exp.Word.Lit(), "P")
	}
	if evaluates {
		w.code(environ{sc, w}.Get(p.Param.Value).String(), sc, "the variable "+p.Param.Value)
	}
}

// assigns reports whether a parameter expansion can set its variable, as in ${x:=value}.
func assigns(p *syntax.ParamExp) bool {
	return p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull)
}

// prompts lists the variables whose values the shell expands when it prints a prompt or a trace.
var prompts = []string{"PS0", "PS1", "PS2", "PS4"}

// builtinCode analyzes the code in the arguments of a builtin.
func (w *walker) builtinCode(name string, args []Word, sc *scope, in feed) {
	where := "the arguments of " + name
	each := func(args []Word) {
		for _, a := range args {
			if strings.Contains(a.Text, "[") || !a.Known() {
				w.code(a.Text, sc, where)
			}
		}
	}
	after := func(option string) {
		for i, a := range args {
			if a.Text == option && i+1 < len(args) {
				each(args[i+1 : i+2])
			}
		}
	}
	switch name {
	case "let":
		for _, a := range args {
			w.value(a.Text, sc, where, 0)
		}
	case "[", "test":
		after("-v")
		after("-R")
	case "printf":
		after("-v")
	case "wait":
		after("-p")
	case "unset":
		each(args)
	case "read", "getopts":
		each(slices.DeleteFunc(slices.Clone(args), func(a Word) bool { return !strings.Contains(a.Text, "[") }))
	case "declare", "typeset", "local", "export", "readonly":
		w.declared(name, args, sc)
	case "mapfile", "readarray", "compgen", "complete":
		for i, a := range args {
			switch {
			case a.Text == "-C" && i+1 < len(args):
				w.later(args[i+1].Text, sc, feed{from: name})
			case strings.HasPrefix(a.Text, "-C"):
				w.later(a.Text[2:], sc, feed{from: name})
			case name[0] == 'c' && a.Text == "-W" && i+1 < len(args):
				w.code(args[i+1].Text, sc, where)
			}
		}
	case "jobs":
		if len(args) > 1 && args[0].Text == "-x" {
			w.run(args[1:], sc.copy(), in)
		}
	case "enable":
		if len(args) > 0 {
			w.unknown("code in a library is not judged: enable")
		}
	case "bind":
		if len(args) > 1 && args[0].Text == "-x" {
			_, text, _ := strings.Cut(args[1].Text, ":")
			w.text(strings.Trim(strings.TrimSpace(text), `"`), sc.copy(), feed{from: name})
		}
	}
}

// declared analyzes the arguments of a declaration.
func (w *walker) declared(name string, args []Word, sc *scope) {
	options, where := "", "the arguments of "+name
	for _, a := range args {
		if strings.HasPrefix(a.Text, "-") {
			options += a.Text[1:]
			continue
		}
		variable, value, assigned := strings.Cut(a.Text, "=")
		base, _, _ := strings.Cut(strings.TrimSuffix(variable, "+"), "[")
		if strings.Contains(variable, "[") {
			w.code(variable, sc, where)
		}
		switch {
		case strings.Contains(base, Unknown):
			w.lose(sc, name)
			if !assigned { // the word can contain options
				options += "niluc"
			}
		case base != variable:
			sc.vars[base] = Unknown
		case assigned:
			sc.vars[base] = value
		}
		if value == "" {
			value = sc.vars[variable]
		}
		if strings.Contains(options, "i") || strings.Contains(variable, "[") {
			w.value(value, sc, where, 0)
		} else if strings.Contains(options, "n") {
			w.code(value, sc, where)
		}
		if identifier().MatchString(base) {
			w.attribute(name, options, base, value)
		}
	}
}
