package outline

import (
	"bytes"
	"strings"

	"toolhost.dev/plugins/grep/symbol"
)

// scriptRules are the rules for JavaScript and TypeScript, with and without JSX.
var scriptRules = rules{
	"function_declaration":           function,
	"generator_function_declaration": function,
	"function_signature":             scriptSignature,
	"function_expression":            body,
	"generator_function":             body,
	"arrow_function":                 body,
	"object":                         scriptObject,
	"class_static_block":             body,
	"class_declaration":              enclose(symbol.Class, inClass),
	"abstract_class_declaration":     enclose(symbol.Class, inClass),
	"class":                          scriptClass,
	"interface_declaration":          enclose(symbol.Interface, inClass),
	"type_alias_declaration":         enclose(symbol.Type, inClass),
	"enum_declaration":               enclose(symbol.Enum, inClass),
	"enum_body":                      scriptEnum,
	"internal_module":                scriptModule,
	"module":                         scriptModule,
	"method_definition":              scriptMethod,
	"method_signature":               scriptMember(symbol.Method),
	"abstract_method_signature":      scriptMember(symbol.Method),
	"property_signature":             scriptMember(symbol.Field),
	"public_field_definition":        scriptField,
	"field_definition":               scriptField,
	"lexical_declaration":            scriptVariables,
	"variable_declaration":           scriptVariables,
	"assignment_expression":          scriptAssignment,
	"pair":                           scriptPair,
	"export_statement":               scriptExport,
}

func scriptSignature(w *walker, i int) { w.add(symbol.Function, w.child(i, "name"), i) }

// scriptClass is the rule for a class expression. It opens a scope. If the class is assigned to a variable, the
// scope has the name of the variable.
func scriptClass(w *walker, i int) {
	name := w.named[i]
	if name == "" {
		name = w.text(w.child(i, "name"))
	}
	w.open(i, inClass, name)
}

// scriptObject is the rule for an object that is assigned to a name. It opens a scope with the same name.
func scriptObject(w *walker, i int) {
	if name := w.named[i]; name != "" {
		w.open(i, inSpace, name)
	}
}

func scriptEnum(w *walker, i int) {
	w.children(i, func(c int) bool {
		if w.is(c, "enum_assignment") {
			w.member(symbol.Member, w.child(c, "name"), c)
		} else {
			w.member(symbol.Member, c, c)
		}
		return true
	})
}

func scriptModule(w *walker, i int) {
	name := w.child(i, "name")
	if name < 0 {
		return
	}
	text := strings.Trim(w.text(name), "'\"")
	w.addAs(symbol.Namespace, text, name, i)
	w.open(i, inSpace, text)
}

// member adds a member of a class or object. The name can be written as a string. Computed names are ignored.
func (w *walker) member(kind symbol.Kind, name, whole int) {
	switch {
	case w.is(name, "property_identifier", "private_property_identifier", "identifier", "number"):
		w.add(kind, name, whole)
	case w.is(name, "string"):
		w.addAs(kind, strings.Trim(w.text(name), "'\""), name, whole)
	}
}

func scriptMethod(w *walker, i int) {
	name := w.child(i, "name")
	if !w.inBody() {
		kind := symbol.Method
		if w.text(name) == "constructor" && w.inClass() {
			kind = symbol.Constructor
		}
		w.member(kind, name, i)
	}
	w.open(i, inBody, w.text(name))
}

func scriptMember(kind symbol.Kind) rule {
	return func(w *walker, i int) {
		if w.inClass() {
			w.member(kind, w.child(i, "name"), i)
		}
	}
}

func scriptField(w *walker, i int) {
	name := w.child(i, "name")
	if name < 0 {
		name = w.child(i, "property")
	}
	kind := symbol.Field
	if w.isFunction(w.child(i, "value")) {
		kind = symbol.Method
	}
	w.member(kind, name, i)
}

func (w *walker) isFunction(i int) bool {
	return w.is(i, "arrow_function", "function_expression", "generator_function")
}

// scriptVariables is the rule for variables. It adds variables outside of functions. Inside functions, it adds only
// variables whose value is a function or a class.
func scriptVariables(w *walker, i int) {
	if w.t.Field(i) == "initializer" { // ignore the variables of a for loop
		return
	}
	kind := symbol.Variable
	if bytes.HasPrefix(w.t.Text[w.t.Start(i):], []byte("const")) {
		kind = symbol.Constant
	}
	w.children(i, func(c int) bool {
		if w.is(c, "variable_declarator") {
			w.scriptVariable(kind, c)
		}
		return true
	})
}

func (w *walker) scriptVariable(kind symbol.Kind, i int) {
	name, value := w.child(i, "name"), w.child(i, "value")
	switch {
	case w.isFunction(value):
		w.add(symbol.Function, name, i)
		w.named[value] = w.text(name)
	case w.is(value, "class"):
		w.add(symbol.Class, name, i)
		w.named[value] = w.text(name)
	case w.inBody():
	case w.is(name, "identifier"):
		w.add(kind, name, i)
		if w.is(value, "object") {
			w.named[value] = w.text(name)
		}
	default:
		w.scriptPattern(kind, name, i)
	}
}

// scriptPattern adds the names in a destructuring pattern.
func (w *walker) scriptPattern(kind symbol.Kind, pattern, whole int) {
	if pattern < 0 {
		return
	}
	for n := pattern + 1; n < w.t.Next(pattern); {
		switch {
		case w.is(n, "shorthand_property_identifier_pattern", "identifier"):
			w.add(kind, n, whole)
			n = w.t.Next(n)
		case w.is(n, "pair_pattern"):
			n = max(n+1, w.child(n, "value")) // skip the key, because only the value contains variables
		case w.is(n, "assignment_pattern", "object_assignment_pattern"):
			// Continue with the left side, which is the first child. The right side contains only values.
			left := w.child(n, "left")
			if w.is(left, "identifier", "shorthand_property_identifier_pattern") {
				w.add(kind, left, whole)
			} else if left >= 0 {
				w.nested(kind, left, whole)
			}
			n = w.t.Next(n)
		case w.is(n, "object_pattern", "array_pattern", "rest_pattern"):
			n++
		default:
			n = w.t.Next(n)
		}
	}
}

// nested adds the names in a nested pattern that has a default value. The names are direct children of the pattern.
func (w *walker) nested(kind symbol.Kind, pattern, whole int) {
	w.children(pattern, func(c int) bool {
		if w.is(c, "shorthand_property_identifier_pattern", "identifier") {
			w.add(kind, c, whole)
		}
		return true
	})
}

// scriptAssignment is the rule for assignments of functions and classes to properties, such as exports.f = … and
// Class.prototype.f = …
func scriptAssignment(w *walker, i int) {
	left, right := w.child(i, "left"), w.child(i, "right")
	isClass := w.is(right, "class")
	if !w.is(left, "member_expression") || !isClass && !w.isFunction(right) {
		return
	}
	name, object := w.child(left, "property"), w.text(w.child(left, "object"))
	if own := w.child(right, "name"); own >= 0 && object == "module" && w.text(name) == "exports" {
		name, object = own, "" // the exported function has its own name
	}
	if w.is(w.child(left, "object"), "this") {
		return
	}
	kind := symbol.Function
	switch {
	case isClass:
		kind = symbol.Class
		w.named[right] = w.text(name)
	case strings.HasSuffix(object, ".prototype"):
		kind, object = symbol.Method, strings.TrimSuffix(object, ".prototype")
	}
	if len(object) > 100 {
		object = ""
	}
	w.addIn(kind, object, w.text(name), name, i)
}

// scriptPair is the rule for a property of an object literal. It adds properties whose value is a function, except
// inside functions.
func scriptPair(w *walker, i int) {
	if !w.inBody() && w.isFunction(w.child(i, "value")) {
		w.member(symbol.Method, w.child(i, "key"), i)
	}
}

// scriptExport is the rule for a default export that has no name.
func scriptExport(w *walker, i int) {
	value := w.child(i, "value")
	if value < 0 {
		value = w.child(i, "declaration")
	}
	isClass := w.is(value, "class", "class_declaration")
	if !isClass && !w.isFunction(value) && !w.is(value, "function_declaration") || w.child(value, "name") >= 0 {
		return
	}
	at := bytes.Index(w.t.Text[w.t.Start(i):w.t.End(i)], []byte("default"))
	if at < 0 {
		return
	}
	kind := symbol.Function
	if isClass {
		kind = symbol.Class
		w.named[value] = "default"
	}
	at += w.t.Start(i)
	line, column := w.lines.position(at)
	end, _ := w.lines.position(w.t.End(i) - 1)
	w.symbols = append(w.symbols, symbol.Symbol{
		Name: "default", Container: w.scope().name, Kind: kind, Line: line, Column: column, EndLine: end,
		Offset: int32(at), // #nosec G115 -- less than grammar.MaxText
	})
}
