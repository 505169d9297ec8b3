package outline

import (
	"bytes"
	"strings"
	"sync"

	"toolhost.dev/plugins/grep/grammar"
	"toolhost.dev/plugins/grep/symbol"
)

// scopeKind is the kind of a scope. A scope is a range of the text in which names are declared.
type scopeKind uint8

const (
	inFile  scopeKind = iota
	inSpace           // a namespace or module
	inClass           // a type or object with members
	inBody            // a function
)

type scope struct {
	end  int // index of the first node after the scope
	kind scopeKind
	name string // full name of the scope, which begins with the names of the outer scopes
}

// rule is a function that handles one node. Each rule belongs to a type of nodes.
type rule func(w *walker, i int)

// rules maps the name of a node type to the rule for nodes of this type.
type rules map[string]rule

var allRules = map[string]rules{
	"c": cRules, "cpp": cppRules, "java": javaRules, "javascript": scriptRules, "python": pythonRules, "rust": rustRules, "tsx": scriptRules,
	"typescript": scriptRules,
}

// bySymbol caches the rules of each grammar as a slice. The index in the slice is the number of the node type.
var bySymbol sync.Map

func rulesOf(name string, t *grammar.Tree) []rule {
	if known, ok := bySymbol.Load(name); ok {
		if r, ok := known.([]rule); ok {
			return r
		}
	}
	out := make([]rule, len(t.Symbols()))
	for i, s := range t.Symbols() {
		out[i] = allRules[name][s]
	}
	bySymbol.Store(name, out)
	return out
}

// walker visits each node of a tree once, without recursion.
type walker struct {
	t       *grammar.Tree
	lines   lines
	scopes  []scope
	symbols []symbol.Symbol
	broken  bool
	// named maps nodes to names that come from surrounding nodes. For example, an anonymous struct gets its name
	// from the typedef.
	named map[int]string
}

func treeTable(name string, tree *grammar.Tree) *symbol.Table {
	rules := rulesOf(name, tree)
	w := &walker{t: tree, lines: linesOf(tree.Text), scopes: []scope{{end: tree.Len()}}, named: make(map[int]string)}
	for i := range tree.Len() {
		for w.scopes[len(w.scopes)-1].end <= i && len(w.scopes) > 1 {
			w.scopes = w.scopes[:len(w.scopes)-1]
		}
		w.broken = w.broken || tree.Broken(i)
		if s := tree.Symbol(i); s < len(rules) && rules[s] != nil {
			rules[s](w, i)
		}
	}
	t := symbol.NewTable(symbol.TreeSitter, w.symbols)
	t.Broken = w.broken
	return t
}

// scope returns the innermost scope.
func (w *walker) scope() scope { return w.scopes[len(w.scopes)-1] }

// inBody reports whether the innermost scope of the current node is a function.
func (w *walker) inBody() bool { return w.scope().kind == inBody }

// inClass reports whether the current node is a member of a type or object.
func (w *walker) inClass() bool { return w.scope().kind == inClass }

// open opens a scope at node i. If name is empty, the scope has the name of the outer scope.
func (w *walker) open(i int, kind scopeKind, name string) {
	if outer := w.scope().name; name == "" {
		name = outer
	} else if outer != "" {
		name = outer + "." + name
	}
	w.scopes = append(w.scopes, scope{end: w.t.Next(i), kind: kind, name: name})
}

// text returns the text of a node with its line breaks removed. It returns "" for node -1.
func (w *walker) text(i int) string {
	if i < 0 {
		return ""
	}
	b := w.t.Text[w.t.Start(i):w.t.End(i)]
	if bytes.IndexByte(b, '\n') >= 0 {
		return strings.Join(strings.Fields(string(b)), " ")
	}
	return string(b)
}

// children calls the function "do" with each child of a node until do returns false.
func (w *walker) children(i int, do func(child int) bool) {
	for c := i + 1; c < w.t.Next(i); c = w.t.Next(c) {
		if !do(c) {
			return
		}
	}
}

// child returns the first child of a node in the given field. It returns -1 if the field is empty.
func (w *walker) child(i int, field string) int {
	found := -1
	w.children(i, func(c int) bool {
		if w.t.Field(c) == field {
			found = c
		}
		return found < 0
	})
	return found
}

// childOf returns the first child of a node that has one of the given types. It returns -1 if no child has such a
// type.
func (w *walker) childOf(i int, types ...string) int {
	found := -1
	w.children(i, func(c int) bool {
		if w.is(c, types...) {
			found = c
		}
		return found < 0
	})
	return found
}

// is reports whether a node has one of the given types. It returns false for node -1.
func (w *walker) is(i int, types ...string) bool {
	if i < 0 {
		return false
	}
	t := w.t.Type(i)
	for _, want := range types {
		if t == want {
			return true
		}
	}
	return false
}

// add adds a symbol. The argument "name" is the node that contains the symbol's name. The argument "whole" is the node
// of the complete declaration.
func (w *walker) add(kind symbol.Kind, name, whole int) {
	if name >= 0 {
		w.addAs(kind, w.text(name), name, whole)
	}
}

// addAs adds a symbol with the given name. The argument "at" is the node whose position the symbol gets.
func (w *walker) addAs(kind symbol.Kind, name string, at, whole int) {
	w.addIn(kind, w.scope().name, name, at, whole)
}

func (w *walker) addIn(kind symbol.Kind, container, name string, at, whole int) {
	const longest = 1000
	if name == "" || len(name) > longest {
		return
	}
	line, column := w.lines.position(w.t.Start(at))
	end, _ := w.lines.position(max(w.t.Start(at), w.t.End(whole)-1))
	w.symbols = append(w.symbols, symbol.Symbol{
		Name: name, Container: container, Kind: kind, Line: line, Column: column, EndLine: end,
		Offset: int32(w.t.Start(at)),
	}) // #nosec G115 -- less than grammar.MaxText
}

// declare returns a rule that adds a symbol with the name in the node's field "name".
func declare(kind symbol.Kind) rule {
	return func(w *walker, i int) { w.add(kind, w.child(i, "name"), i) }
}

// enclose returns a rule that adds a symbol and opens a scope for the symbol's members.
func enclose(kind symbol.Kind, within scopeKind) rule {
	return func(w *walker, i int) {
		name := w.child(i, "name")
		w.add(kind, name, i)
		w.open(i, within, w.text(name))
	}
}

// body is the rule for a function without a name.
func body(w *walker, i int) { w.open(i, inBody, w.named[i]) }

// function is the rule for a function. If the function is a member, the rule adds a method.
func function(w *walker, i int) {
	name := w.child(i, "name")
	kind := symbol.Function
	if w.inClass() {
		kind = symbol.Method
	}
	w.add(kind, name, i)
	w.open(i, inBody, w.text(name))
}
