package outline

import (
	"maps"
	"strings"

	"toolhost.dev/plugins/grep/symbol"
)

var cRules = rules{
	"function_definition":  cFunction,
	"declaration":          cDeclaration,
	"field_declaration":    cField,
	"type_definition":      cTypedef,
	"struct_specifier":     cType(symbol.Struct),
	"union_specifier":      cType(symbol.Union),
	"enum_specifier":       cType(symbol.Enum),
	"enumerator":           declare(symbol.Member),
	"preproc_def":          declare(symbol.Constant),
	"preproc_function_def": declare(symbol.Macro),
}

var cppRules = func() rules {
	r := maps.Clone(cRules)
	r["class_specifier"] = cType(symbol.Class)
	r["namespace_definition"] = cppNamespace
	r["alias_declaration"] = declare(symbol.Type)
	r["concept_definition"] = declare(symbol.Type)
	r["namespace_alias_definition"] = declare(symbol.Namespace)
	r["lambda_expression"] = body
	return r
}()

func cppNamespace(w *walker, i int) {
	name := w.child(i, "name")
	text := strings.ReplaceAll(w.text(name), "::", ".")
	if name >= 0 {
		// The name of the symbol a::b is b. The scope has the full name.
		short := text[strings.LastIndexByte(text, '.')+1:]
		w.addAs(symbol.Namespace, short, name, i)
	}
	w.open(i, inSpace, text)
}

// cType returns the rule for a type that can have members. A type without a body is ignored, because it is only
// mentioned, not declared.
func cType(kind symbol.Kind) rule {
	return func(w *walker, i int) {
		if w.child(i, "body") < 0 {
			return
		}
		name := w.child(i, "name")
		text := w.named[i]
		if name >= 0 {
			container, at := w.cppName(name)
			text = w.text(at)
			w.addIn(kind, joined(w.scope().name, container), text, at, i)
			if container != "" {
				text = container + "." + text
			}
		}
		w.open(i, inClass, text)
	}
}

func joined(outer, inner string) string {
	if outer == "" || inner == "" {
		return outer + inner
	}
	return outer + "." + inner
}

// cppName splits a qualified name. It returns the container and the node of the last part. The node excludes
// template arguments.
func (w *walker) cppName(i int) (container string, name int) {
	var parts []string
	for {
		switch {
		case w.is(i, "qualified_identifier"):
			if s := w.child(i, "scope"); s >= 0 {
				if w.is(s, "template_type") {
					s = w.child(s, "name")
				}
				parts = append(parts, w.text(s))
			}
			next := w.child(i, "name")
			if next < 0 {
				return strings.Join(parts, "."), i
			}
			i = next
		case w.is(i, "template_type", "template_function", "template_method"):
			next := w.child(i, "name")
			if next < 0 {
				return strings.Join(parts, "."), i
			}
			i = next
		default:
			return strings.Join(parts, "."), i
		}
	}
}

// declared returns the name inside a declarator. The result "isFunction" is true if the name is declared as a
// function. It is false for a pointer to a function.
func (w *walker) declared(i int) (name int, isFunction bool) {
	for i >= 0 {
		switch w.t.Type(i) {
		case "function_declarator":
			inner := w.child(i, "declarator")
			if w.is(inner, "parenthesized_declarator") {
				if p := w.childOf(inner, "pointer_declarator", "reference_declarator",
					"abstract_pointer_declarator"); p >= 0 {
					i, isFunction = p, false
					continue
				}
			}
			isFunction = true
			i = inner
		case "pointer_declarator", "array_declarator", "init_declarator", "attributed_declarator", "bitfield_clause":
			next := w.child(i, "declarator")
			if next < 0 {
				next = i + 1
				if next >= w.t.Next(i) {
					return -1, false
				}
			}
			i = next
		case "reference_declarator", "parenthesized_declarator", "variadic_declarator":
			next := -1
			w.children(i, func(c int) bool {
				if strings.HasSuffix(w.t.Type(c), "declarator") || strings.HasSuffix(w.t.Type(c), "identifier") ||
					w.is(c, "operator_name", "destructor_name", "template_function") {
					next = c
				}
				return next < 0
			})
			i = next
		case "identifier", "field_identifier", "type_identifier", "qualified_identifier", "destructor_name",
			"operator_name", "operator_cast",
			"template_function", "template_method", "primitive_type":
			return i, isFunction
		default:
			return -1, false
		}
	}
	return -1, false
}

// cFunction is the rule for a function definition.
func cFunction(w *walker, i int) {
	name, isFunction := w.declared(w.child(i, "declarator"))
	if name < 0 || !isFunction && !w.is(name, "operator_cast") {
		w.open(i, inBody, "")
		return
	}
	container, at := w.cppName(name)
	w.cMethod(symbol.Function, container, at, i)
	w.open(i, inBody, joined(container, w.operatorName(at)))
}

// cMethod adds a function. If the function is a member, cMethod adds it as a method.
func (w *walker) cMethod(kind symbol.Kind, container string, at, whole int) {
	name := w.operatorName(at)
	switch name {
	case "if", "for", "while", "switch", "return", "else", "do", "catch", "sizeof": // a keyword is the name only after a parsing error
		return
	}
	class := container
	if class == "" && w.inClass() {
		class = w.scope().name
	}
	if class != "" {
		kind = symbol.Method
		if last := class[strings.LastIndexByte(class, '.')+1:]; last == name {
			kind = symbol.Constructor
		}
	}
	w.addIn(kind, joined(w.scope().name, container), name, at, whole)
}

// operatorName returns the name at a node. If the node is a conversion operator, the result excludes the parameters.
func (w *walker) operatorName(at int) string {
	name := w.text(at)
	if w.is(at, "operator_cast") {
		name, _, _ = strings.Cut(name, "(")
	}
	return strings.TrimSpace(name)
}

// declarators calls the function "do" with the name in each declarator of a declaration.
func (w *walker) declarators(i int, do func(name int, isFunction bool)) {
	w.children(i, func(c int) bool {
		if w.t.Field(c) == "declarator" {
			if name, isFunction := w.declared(c); name >= 0 {
				do(name, isFunction)
			}
		}
		return true
	})
}

// cDeclaration is the rule for prototypes, and for variables declared outside of functions.
func cDeclaration(w *walker, i int) {
	if w.inBody() || w.t.Field(i) == "initializer" {
		return
	}
	w.declarators(i, func(name int, isFunction bool) {
		container, at := w.cppName(name)
		switch {
		case isFunction || w.is(at, "operator_cast"):
			w.cMethod(symbol.Prototype, container, at, i)
		case w.inClass():
			w.add(symbol.Field, at, i)
		default:
			w.addIn(symbol.Variable, joined(w.scope().name, container), w.text(at), at, i)
		}
	})
}

func cField(w *walker, i int) {
	if w.inBody() {
		return
	}
	w.declarators(i, func(name int, isFunction bool) {
		if isFunction {
			w.cMethod(symbol.Prototype, "", name, i)
			return
		}
		w.add(symbol.Field, name, i)
		if t := w.child(i, "type"); t >= 0 && w.child(t, "name") < 0 {
			w.named[t] = w.text(name)
		}
	})
}

// cTypedef is the rule for a typedef. It adds the declared names. An anonymous struct gets the first name.
func cTypedef(w *walker, i int) {
	t := w.child(i, "type")
	kind := symbol.Type
	anonymous := t >= 0 && w.child(t, "body") >= 0 && w.child(t, "name") < 0
	if anonymous {
		switch {
		case w.is(t, "struct_specifier"):
			kind = symbol.Struct
		case w.is(t, "union_specifier"):
			kind = symbol.Union
		case w.is(t, "enum_specifier"):
			kind = symbol.Enum
		}
	}
	w.declarators(i, func(name int, _ bool) {
		w.add(kind, name, i)
		if anonymous && w.named[t] == "" {
			w.named[t] = w.text(name)
		}
	})
}
