package shellscript

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walker analyzes a script in the order of its execution.
type walker struct {
	out       *Analysis
	src       string
	home      string
	functions map[string]*syntax.Stmt
	active    []string        // functions that are being analyzed
	tainted   map[string]bool // variables that some function sets, or whose attributes change their values
	// references contains the variables that stand for other variables (declare -n), and fixed the readonly ones. If
	// opaque is true, a reference can stand for any variable.
	references, fixed map[string]bool
	opaque            bool
	lost              int      // number of commands that set a variable whose name is unknown
	late              []string // code of traps, which also runs with the variables of the script's end
	lastpipe          bool     // whether the last command of a pipeline can run in the shell itself
	depth             int      // current nesting depth of commands
	scripts           int      // current nesting depth of scripts
	steps             int
	size              int             // total size of expanded words
	counted           map[string]bool // variables that arithmetic sets
	strict            bool            // whether the script must belong to the subset
	listed            func(name string) bool
	gated             bool
	// gitSettings reports whether a variable of the environment can set an alias of git.
	gitSettings bool
	started     bool // whether the program already runs; see [Carry]
}

// feed is the standard input of a command.
type feed struct {
	text  string
	known bool
	from  string // source of the input if the text is unknown
}

func (w *walker) stmts(list []*syntax.Stmt, sc *scope, in feed) {
	for _, s := range list {
		w.stmt(s, sc, in)
	}
}

func (w *walker) stmt(s *syntax.Stmt, sc *scope, in feed) {
	if w.steps++; w.steps > maxSteps {
		w.doubt("the script has more than %d commands", maxSteps)
		return
	}
	if w.size > maxSize {
		w.doubt("the expanded script is too large to analyze")
		return
	}
	if w.depth++; w.depth > maxDepth {
		w.doubt("the script is nested too deep")
		w.depth--
		return
	}
	defer func() { w.depth-- }()
	for _, r := range s.Redirs {
		in = w.redirect(r, sc, in)
	}
	switch {
	case s.Cmd == nil:
	case s.Background:
		w.command(s.Cmd, sc.copy(), in)
	default:
		w.command(s.Cmd, sc, in)
	}
}

// redirect analyzes one redirect of a command. It returns the standard input of the command after the redirect.
func (w *walker) redirect(r *syntax.Redirect, sc *scope, in feed) feed {
	w.substitutions(r.Word, sc)
	w.substitutions(r.Hdoc, sc)
	forgetRedirect(r, sc)
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if strings.ContainsAny(source(w.src, r.Word), `'"\`) {
			return feed{text: verbatim(r.Hdoc), known: true}
		}
		text := w.literal(r.Hdoc, sc)
		return feed{text: text, known: !strings.Contains(text, Unknown), from: "a heredoc"}
	case syntax.WordHdoc:
		text := w.literal(r.Word, sc)
		return feed{text: text, known: !strings.Contains(text, Unknown), from: "a here string"}
	}
	target := Word{Text: w.literal(r.Word, sc)}
	number := func() bool { return target.Text == "-" || strings.Trim(target.Text, "0123456789-") == "" }
	switch r.Op {
	case syntax.RdrIn, syntax.DplIn:
		if r.Op == syntax.DplIn && number() {
			return in
		}
		w.out.Reads = append(w.out.Reads, File{target, sc.dir})
		return feed{from: "a file"}
	case syntax.DplOut:
		if number() {
			return in
		}
	}
	w.out.Writes = append(w.out.Writes, File{target, sc.dir})
	return in
}

func (w *walker) command(cmd syntax.Command, sc *scope, in feed) {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		w.call(c, sc, in)
	case *syntax.DeclClause:
		w.declare(c, sc)
	case *syntax.BinaryCmd:
		w.binary(c, sc, in)
	case *syntax.Block:
		w.stmts(c.Stmts, sc, in)
	case *syntax.Subshell:
		w.stmts(c.Stmts, sc.copy(), in)
	case *syntax.IfClause:
		w.branches(c, sc, in)
	case *syntax.CaseClause:
		w.substitutions(c.Word, sc)
		before := sc.copy()
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				w.substitutions(p, sc)
			}
			b := before.copy()
			w.stmts(item.Stmts, b, in)
			sc.merge(b)
		}
	case *syntax.WhileClause:
		w.loop(c, sc, func(b *scope) { w.stmts(c.Cond, b, in); w.stmts(c.Do, b, in) })
	case *syntax.ForClause:
		w.forLoop(c, sc, in)
	case *syntax.FuncDecl:
		w.function(c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			w.stmt(c.Stmt, sc, in)
		}
	case *syntax.CoprocClause:
		if c.Stmt != nil {
			w.stmt(c.Stmt, sc.copy(), feed{from: "another process"})
		}
		if c.Name != nil {
			w.set(Word{Text: w.literal(c.Name, sc)}, sc, "coproc")
		}
	default: // all other nodes are tests and arithmetic
		w.substitutions(cmd, sc)
		forget(cmd, sc)
	}
}

func (w *walker) branches(c *syntax.IfClause, sc *scope, in feed) {
	w.stmts(c.Cond, sc, in)
	then := sc.copy()
	w.stmts(c.Then, then, in)
	if c.Else != nil {
		other := sc.copy()
		w.branches(c.Else, other, in)
		sc.merge(other)
	}
	sc.merge(then)
}

// loop analyzes the body of a loop, which can run any number of times.
func (w *walker) loop(n syntax.Node, sc *scope, body func(*scope)) {
	forget(n, sc)
	b := sc.copy()
	body(b)
	sc.merge(b)
}

// maxUnrolled is the maximum number of words for which each iteration of a loop is analyzed. The body of a longer loop
// is analyzed once.
const maxUnrolled = 16

func (w *walker) forLoop(c *syntax.ForClause, sc *scope, in feed) {
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		w.substitutions(c.Loop, sc)
		w.loop(c, sc, func(b *scope) { w.stmts(c.Do, b, in) })
		return
	}
	var items []Word
	known := iter.InPos.IsValid() && !c.Select
	for _, word := range iter.Items {
		w.substitutions(word, sc)
		for _, f := range w.fields(word, sc) {
			known = known && f.Known() && !f.Split
			items = append(items, f)
		}
	}
	forget(c, sc)
	w.opaque = w.opaque || w.references[iter.Name.Value] // the loop sets what the reference stands for
	if !known || len(items) > maxUnrolled || len(items) == 0 || w.steps > maxSteps/100 {
		items = []Word{{Text: Unknown}}
	}
	for _, item := range items {
		b := sc.copy()
		b.vars[iter.Name.Value] = item.Text
		w.stmts(c.Do, b, in)
		sc.merge(b)
	}
}

// binary analyzes a list of commands with the operators &&, || and |. The parser returns the list as a tree that grows
// to the left. binary processes the tree without recursion, because the tree can be very deep.
func (w *walker) binary(c *syntax.BinaryCmd, sc *scope, in feed) {
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		w.pipeline(c, sc, in)
		return
	}
	var rest []*syntax.BinaryCmd
	var first *syntax.Stmt
	for at := c; ; {
		rest = append(rest, at)
		first = at.X
		x, ok := first.Cmd.(*syntax.BinaryCmd)
		if !ok || !plainList(first) || x.Op != syntax.AndStmt && x.Op != syntax.OrStmt {
			break
		}
		at = x
	}
	w.stmt(first, sc, in)
	succeeded := sc.copy() // the scope if all commands until now succeeded
	for _, c := range slices.Backward(rest) {
		b := sc.copy()
		if c.Op == syntax.AndStmt {
			b = succeeded.copy()
		}
		w.stmt(c.Y, b, in)
		sc.merge(b)
		if succeeded = b; c.Op == syntax.OrStmt {
			succeeded = sc.copy()
		}
	}
}

// plainList reports whether a statement is a list of commands without redirects, "!" or "&".
func plainList(s *syntax.Stmt) bool {
	return !s.Negated && !s.Background && len(s.Redirs) == 0
}

func (w *walker) pipeline(c *syntax.BinaryCmd, sc *scope, in feed) {
	stages, _ := chain(c, syntax.Pipe, syntax.PipeAll)
	w.stmt(stages[0], sc.copy(), in)
	text, known := w.produced(stages[:1], sc)
	for _, stage := range stages[1:] {
		out, b := feed{text: text, known: known, from: "a command"}, sc.copy()
		if w.stmt(stage, b, out); w.lastpipe {
			sc.merge(b)
		}
		if known {
			text, known = w.filtered(stage, text, sc)
		}
	}
}

// chain returns the commands that the given operators join, in order. If the list contains any other
// operator, ok is false.
func chain(c *syntax.BinaryCmd, ops ...syntax.BinCmdOperator) (stages []*syntax.Stmt, ok bool) {
	ok = slices.Contains(ops, c.Op)
	for {
		stages = append(stages, c.Y)
		x, binary := c.X.Cmd.(*syntax.BinaryCmd)
		if !binary || !plainList(c.X) || !slices.Contains(ops, x.Op) {
			stages = append(stages, c.X)
			break
		}
		c = x
	}
	slices.Reverse(stages)
	return stages, ok
}

// function analyzes a function definition without assumptions about the callers, which are unknown at this point.
func (w *walker) function(c *syntax.FuncDecl) {
	if c.Name == nil || c.Body == nil {
		return
	}
	name := c.Name.Value
	if bomb(c.Body, name) {
		w.out.ForkBomb = true
	}
	w.functions[name] = c.Body
	inside := &scope{vars: make(map[string]string), dir: ""}
	forget(c.Body, inside)
	for v := range inside.vars {
		w.tainted[v] = true
	}
	w.enter(name, &scope{vars: make(map[string]string)}, feed{from: "the callers of " + name})
}

// enter analyzes the body of a function.
func (w *walker) enter(name string, sc *scope, in feed) {
	if slices.Contains(w.active, name) || len(w.active) > maxScripts {
		return
	}
	w.active = append(w.active, name)
	w.stmt(w.functions[name], sc, in)
	w.active = w.active[:len(w.active)-1]
}

// bomb reports whether a function calls itself in the background or in a pipeline with itself.
func bomb(body *syntax.Stmt, name string) bool {
	calls := func(s *syntax.Stmt) bool {
		c, ok := s.Cmd.(*syntax.CallExpr)
		return ok && len(c.Args) > 0 && c.Args[0].Lit() == name
	}
	found := false
	syntax.Walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			found = found || (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && calls(n.X) && calls(n.Y)
		case *syntax.Stmt:
			found = found || n.Background && calls(n)
		}
		return !found
	})
	return found
}

// substitutions analyzes the commands in the words of a syntax node.
func (w *walker) substitutions(n syntax.Node, sc *scope) {
	if word, ok := n.(*syntax.Word); n == nil || ok && (word == nil || onlyText(word)) {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			inner := sc.copy()
			w.stmts(n.Stmts, inner, feed{from: "standard input"})
			if n.TempFile || n.ReplyVar { // the shell itself runs the commands
				sc.merge(inner)
			}
			return false
		case *syntax.ProcSubst:
			w.stmts(n.Stmts, sc.copy(), feed{from: "another process"})
			return false
		}
		if n != nil {
			w.evaluated(n, sc)
		}
		return true
	})
}

func onlyText(word *syntax.Word) bool {
	_, ok := plain(word)
	return ok
}

// forget marks all variables that a syntax node can set as having an unknown value.
func forget(n syntax.Node, sc *scope) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				sc.vars[n.Name.Value] = Unknown
			}
		case *syntax.WordIter:
			sc.vars[n.Name.Value] = Unknown
		case *syntax.BinaryArithm, *syntax.UnaryArithm:
			syntax.Walk(n, func(n syntax.Node) bool {
				if word, ok := n.(*syntax.Word); ok {
					sc.vars[word.Lit()] = Unknown
				}
				return true
			})
		case *syntax.CallExpr:
			forgetCall(n, sc)
		case *syntax.DeclClause:
			if n.Variant.Value != "export" && slices.ContainsFunc(n.Args,
				func(a *syntax.Assign) bool { return a.Name == nil && (a.Value == nil || !harmlessOption(a.Value)) }) {
				forgetAll(sc)
			}
		case *syntax.ParamExp:
			if n.Param != nil && assigns(n) {
				sc.vars[n.Param.Value] = Unknown
			}
		case *syntax.Redirect:
			forgetRedirect(n, sc)
		case *syntax.CoprocClause:
			if n.Name != nil {
				sc.vars[n.Name.Lit()] = Unknown
			}
		}
		return true
	})
}

// harmlessOption reports whether a word is an option of a declaration after which variables keep their meaning.
func harmlessOption(word *syntax.Word) bool {
	text, ok := plain(word)
	return ok && strings.HasPrefix(text, "-") && !strings.Contains(text, "n")
}

func forgetAll(sc *scope) {
	for name := range sc.vars {
		sc.vars[name] = Unknown
	}
}

// forgetRedirect marks the variable of a redirect as unknown, as in {x}>file.
func forgetRedirect(r *syntax.Redirect, sc *scope) {
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		sc.vars[strings.Trim(r.N.Value, "{}")] = Unknown
	}
}

// forgetCall marks the variables that a builtin can set as unknown.
func forgetCall(c *syntax.CallExpr, sc *scope) {
	var words []Word
	for _, a := range c.Args {
		word := Word{Text: Unknown}
		if text, ok := plain(a); ok {
			word.Text = text
		} else if lit := a.Lit(); lit != "" {
			word.Text = strings.TrimPrefix(lit, `\`)
		}
		if len(words) > 0 || word.Text != "command" && word.Text != "builtin" {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return
	}
	switch name := words[0].Text; name {
	case "cd", "pushd", "popd":
		sc.dir = ""
	case "eval", ".", "source", "let", "declare", "typeset", "local", "readonly", "export":
		forgetAll(sc)
	default:
		for _, v := range variablesOf(name, words[1:]) {
			if variable, _, _ := strings.Cut(v.Text, "["); variable != Unknown {
				sc.vars[variable] = Unknown
			} else {
				forgetAll(sc)
			}
		}
	}
}

// source returns the source text of a syntax node.
func source(src string, n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if int(to) > len(src) || from > to {
		return Unknown
	}
	return src[from:to]
}

// verbatim returns the body of a heredoc. The body must not contain expansions.
func verbatim(word *syntax.Word) string {
	if word == nil {
		return ""
	}
	var out strings.Builder
	for _, p := range word.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			out.WriteString(l.Value)
		}
	}
	return out.String()
}
