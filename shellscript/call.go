package shellscript

import (
	"encoding/base64"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// call analyzes a simple command, or a list of assignments without a command.
func (w *walker) call(c *syntax.CallExpr, sc *scope, in feed) {
	for _, a := range c.Assigns {
		w.assign(a, sc, len(c.Args) == 0)
	}
	var words []Word
	for _, a := range c.Args {
		w.substitutions(a, sc)
		words = append(words, w.fields(a, sc)...)
	}
	if w.size > maxSize {
		w.doubt("the expanded script is too large to analyze")
	}
	w.runWith(c.Assigns, words, sc, in)
}

// runWith analyzes a command after expansion whose variables are set for this command alone. In POSIX mode, they stay
// set after some builtins.
func (w *walker) runWith(assigns []*syntax.Assign, words []Word, sc *scope, in feed) {
	if len(assigns) == 0 || len(words) == 0 {
		w.run(words, sc, in)
		return
	}
	before := maps.Clone(sc.vars)
	for _, a := range assigns {
		if a.Name != nil {
			value := Unknown
			if a.Array == nil && a.Index == nil && !a.Append {
				value = w.literal(a.Value, sc)
			}
			sc.vars[a.Name.Value] = value
		}
	}
	w.run(words, sc, in)
	for _, a := range assigns {
		if a.Name == nil {
			continue
		}
		name := a.Name.Value
		if value, set := before[name]; IsBuiltin(words[0].Text) {
			sc.vars[name] = Unknown
		} else if sc.vars[name] = value; !set {
			delete(sc.vars, name)
		}
	}
}

func (w *walker) declare(c *syntax.DeclClause, sc *scope) {
	words := []Word{{Text: c.Variant.Value}}
	for _, a := range c.Args {
		if a.Name == nil {
			w.substitutions(a, sc)
			words = append(words, Word{Text: w.literal(a.Value, sc)})
			continue
		}
		if !a.Naked {
			w.assign(a, sc, true)
		}
		words = append(words, Word{Text: a.Name.Value})
	}
	w.declared(c.Variant.Value, slices.Concat(words[1:], w.assigned(c, sc)), sc)
	w.out.Commands = append(w.out.Commands, Command{Words: words, Dir: sc.dir})
}

// assign analyzes an assignment. If the argument "lasts" is true, the variable keeps its value after the command, so
// assign stores the value in the scope.
func (w *walker) assign(a *syntax.Assign, sc *scope, lasts bool) {
	w.substitutions(a, sc)
	w.gitSettings = w.gitSettings || a.Name != nil && isGitSetting(a.Name.Value)
	if a.Name == nil || !lasts {
		return
	}
	value := Unknown
	if a.Array == nil && a.Index == nil {
		value = w.literal(a.Value, sc)
		if a.Append {
			value = environ{sc, w}.Get(a.Name.Value).String() + value
			if len(value) > maxValue {
				value = Unknown
			}
		}
	}
	if w.fixed[a.Name.Value] { // the assignment fails if the variable is readonly
		value = Unknown
	}
	sc.vars[a.Name.Value] = value
	switch name := a.Name.Value; {
	case slices.Contains(shellSets, name): // the shell evaluates some of these values as arithmetic
		w.value(value, sc, "the variable "+name, 0)
	case slices.Contains(prompts, name):
		w.code(value, sc, "the variable "+name)
	case name == "PROMPT_COMMAND":
		w.text(value, sc.copy(), feed{from: "standard input"})
	}
}

// assigned returns the assignments in a declaration as words.
func (w *walker) assigned(c *syntax.DeclClause, sc *scope) (out []Word) {
	for _, a := range c.Args {
		if a.Name != nil && !a.Naked {
			out = append(out, Word{Text: a.Name.Value + "=" + sc.vars[a.Name.Value]})
		}
	}
	return out
}

// run analyzes a command after expansion. Its words can contain unknown parts.
func (w *walker) run(words []Word, sc *scope, in feed) {
	if len(words) == 0 {
		return
	}
	if w.depth++; w.depth > maxDepth {
		w.doubt("commands that run commands are nested too deep")
		w.depth--
		return
	}
	defer func() { w.depth-- }()
	at := len(w.out.Commands)
	w.out.Commands = append(w.out.Commands, Command{Words: words, Dir: sc.dir})
	name := words[0]
	w.checkCommand(words)
	if !name.Known() || name.Split {
		w.doubt("the name of the command %s is unknown before the script runs", w.out.Commands[at].String())
		if name.Split && name.Text == Unknown && !w.gated { // the expansion can be empty, or a program that runs the other words
			w.run(words[1:], sc.copy(), in)
		}
		return
	}
	body := w.functions[name.Text]
	if body != nil {
		b := sc.copy()
		b.args = words
		lost := w.lost
		w.enter(name.Text, b, in)
		if sc.merge(&scope{vars: b.vars, dir: sc.dir}); w.lost > lost {
			sc.vars = unknownVars(sc.vars)
		}
	}
	w.builtin(name.Text, words[1:], sc)
	w.builtinCode(name.Text, words[1:], sc, in)
	w.noteCode(path.Base(name.Text), words)
	inner := w.unwrap(path.Base(name.Text), words, sc, in)
	w.out.Commands[at].Wrapper = inner || body != nil
}

// builtin updates the scope after a shell builtin, such as "cd".
func (w *walker) builtin(name string, args []Word, sc *scope) {
	switch name {
	case "cd":
		to := Word{Text: w.home}
		for _, a := range args {
			if a.Text == "-" || a.Split {
				to = Word{Text: Unknown}
			} else if !strings.HasPrefix(a.Text, "-") {
				to = a
			}
		}
		sc.dir = sc.join(to)
	case "pushd", "popd":
		sc.dir = ""
	case "read", "mapfile", "readarray", "getopts", "printf", "unset", "wait":
		for _, a := range variablesOf(name, args) {
			w.set(a, sc, name)
		}
	case "shopt":
		w.lastpipe = w.lastpipe ||
			slices.ContainsFunc(args, func(a Word) bool { return a.Text == "lastpipe" || !a.Known() })
	case "set":
		sc.args = nil
	case "shift":
		sc.args = nil
	case "alias":
		for _, a := range args {
			if _, text, ok := strings.Cut(a.Text, "="); ok {
				w.later(text, sc, feed{from: "the commands that use the alias"})
			}
		}
	case "trap":
		if len(args) > 1 && args[0].Text != "-" && !strings.HasPrefix(args[0].Text, "-") {
			w.later(args[0].Text, sc, feed{from: "standard input"})
			w.late = append(w.late, args[0].Text)
		}
	}
}

// later analyzes code that runs later, perhaps several times. The variables that it sets are then unknown.
func (w *walker) later(text string, sc *scope, in feed) {
	b := &scope{vars: maps.Clone(sc.vars), dir: sc.dir, args: sc.args}
	w.text(text, b, in)
	for name, value := range b.vars {
		if old, set := sc.vars[name]; !set || old != value {
			w.tainted[name] = true
		}
	}
}

// produced returns the text that statements write to standard output. The second result is false if the
// text is unknown before the statements run.
func (w *walker) produced(stmts []*syntax.Stmt, sc *scope) (string, bool) {
	if len(stmts) != 1 {
		return "", false
	}
	s := stmts[0]
	if s.Cmd == nil || s.Background {
		return "", false
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		stages, ok := chain(c, syntax.Pipe)
		if !ok || len(stages) > maxScripts {
			return "", false
		}
		text, ok := w.produced(stages[:1], sc)
		for _, stage := range stages[1:] {
			if ok {
				text, ok = w.filtered(stage, text, sc)
			}
		}
		return text, ok
	case *syntax.CallExpr:
		return w.printed(c, s.Redirs, sc)
	}
	return "", false
}

// wide matches a "printf" format with a large width or precision.
var wide = lazily(`%[^a-zA-Z%]*([0-9]{3}|\*)`)

// printed returns the output of the commands "echo", "printf" and "cat". The second result is false if the
// output is unknown before the command runs.
func (w *walker) printed(c *syntax.CallExpr, redirs []*syntax.Redirect, sc *scope) (string, bool) {
	var words []string
	for _, a := range c.Args {
		for _, f := range w.fields(a, sc) {
			if !f.Known() || f.Split {
				return "", false
			}
			words = append(words, f.Text)
		}
	}
	if len(words) == 0 {
		return "", false
	}
	if len(redirs) > 0 {
		r := redirs[0]
		if len(redirs) > 1 || len(words) > 1 || path.Base(words[0]) != "cat" ||
			r.Hdoc == nil && r.Op != syntax.WordHdoc {
			return "", false
		}
		quiet := &walker{out: new(Analysis), src: w.src, home: w.home, functions: w.functions, tainted: w.tainted,
			depth: w.depth, scripts: w.scripts, size: w.size}
		in := quiet.redirect(r, sc, feed{})
		return in.text, in.known
	}
	switch path.Base(words[0]) {
	case "echo":
		return echoed(words[1:])
	case "printf":
		if len(words) < 2 || words[1] == "-v" || wide().MatchString(words[1]) {
			return "", false
		}
		var out strings.Builder
		for args := words[2:]; ; {
			text, n, err := expand.Format(nil, words[1], args)
			if err != nil {
				return "", false
			}
			out.WriteString(text)
			if args = args[n:]; n == 0 || len(args) == 0 {
				return out.String(), true
			}
		}
	}
	return "", false
}

// echoed returns the output of the command "echo" with the given arguments.
func echoed(words []string) (string, bool) {
	end, escapes := "\n", false
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' && strings.Trim(words[0][1:], "neE") == "" {
		if strings.Contains(words[0], "n") {
			end = ""
		}
		escapes = escapes || strings.Contains(words[0], "e")
		words = words[1:]
	}
	text := strings.Join(words, " ")
	if escapes {
		var err error
		if text, _, err = expand.Format(nil, strings.ReplaceAll(text, "%", "%%"), nil); err != nil {
			return "", false
		}
	}
	return text + end, true
}

// filtered returns the output of a filter command for an input text. The second result is false if the
// output is unknown before the command runs.
func (w *walker) filtered(s *syntax.Stmt, text string, sc *scope) (string, bool) {
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(s.Redirs) > 0 {
		return "", false
	}
	var words []string
	for _, a := range c.Args {
		for _, f := range w.fields(a, sc) {
			words = append(words, f.Text)
		}
	}
	switch line := strings.Join(words, " "); line {
	case "cat", "tee":
		return text, true
	case "base64 -d", "base64 --decode", "base64 -D", "base64 -di", "openssl base64 -d":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		return string(b), err == nil
	case "rev":
		r := []rune(strings.TrimSuffix(text, "\n"))
		for i, k := 0, len(r)-1; i < k; i, k = i+1, k-1 {
			r[i], r[k] = r[k], r[i]
		}
		return string(r) + "\n", true
	}
	return "", false
}
