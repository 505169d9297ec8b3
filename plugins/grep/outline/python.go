package outline

import (
	"strings"

	"toolhost.dev/plugins/grep/symbol"
)

var pythonRules = rules{
	"function_definition":  function,
	"class_definition":     enclose(symbol.Class, inClass),
	"assignment":           pythonAssignment,
	"type_alias_statement": pythonAlias,
	"lambda":               body,
}

// pythonAssignment is the rule for variables assigned in a module or a class.
func pythonAssignment(w *walker, i int) {
	if w.inBody() {
		return
	}
	w.pythonTargets(w.child(i, "left"), i)
}

func (w *walker) pythonTargets(target, whole int) {
	switch {
	case w.is(target, "identifier"):
		kind := symbol.Variable
		name := w.text(target)
		switch {
		case w.inClass():
			kind = symbol.Field
		case len(name) > 1 && strings.ToUpper(name) == name && strings.ToLower(name) != name:
			kind = symbol.Constant
		}
		w.add(kind, target, whole)
	case w.is(target, "pattern_list", "tuple_pattern", "list_pattern", "list_splat_pattern"):
		// An identifier is one or two levels below the target. Deeper levels are ignored, because identifiers are
		// rare there.
		w.children(target, func(c int) bool {
			if w.is(c, "identifier") {
				w.pythonTargets(c, whole)
			} else if w.is(c, "pattern_list", "tuple_pattern", "list_pattern", "list_splat_pattern") {
				w.children(c, func(c int) bool {
					if w.is(c, "identifier") {
						w.pythonTargets(c, whole)
					}
					return true
				})
			}
			return true
		})
	}
}

// pythonAlias is the rule for a type alias: type X = …
func pythonAlias(w *walker, i int) {
	left := w.child(i, "left")
	if left < 0 {
		left = w.childOf(i, "type")
	}
	if left < 0 {
		return
	}
	for n := left; n < w.t.Next(left); n++ {
		if w.is(n, "identifier") {
			w.add(symbol.Type, n, i)
			return
		}
	}
}
