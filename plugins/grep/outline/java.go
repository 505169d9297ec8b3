package outline

import (
	"strings"

	"toolhost.dev/plugins/grep/symbol"
)

var javaRules = rules{
	"class_declaration":                   enclose(symbol.Class, inClass),
	"interface_declaration":               enclose(symbol.Interface, inClass),
	"annotation_type_declaration":         enclose(symbol.Interface, inClass),
	"enum_declaration":                    enclose(symbol.Enum, inClass),
	"record_declaration":                  javaRecord,
	"method_declaration":                  function,
	"annotation_type_element_declaration": declare(symbol.Method),
	"constructor_declaration":             javaConstructor,
	"compact_constructor_declaration":     javaConstructor,
	"field_declaration":                   javaField,
	"constant_declaration":                javaField,
	"enum_constant":                       enclose(symbol.Member, inClass),
	"static_initializer":                  body,
	"lambda_expression":                   body,
}

func javaConstructor(w *walker, i int) {
	name := w.child(i, "name")
	w.add(symbol.Constructor, name, i)
	w.open(i, inBody, w.text(name))
}

func javaRecord(w *walker, i int) {
	name := w.child(i, "name")
	w.add(symbol.Record, name, i)
	w.open(i, inClass, w.text(name))
	if list := w.child(i, "parameters"); list >= 0 {
		w.children(list, func(c int) bool {
			w.add(symbol.Field, w.child(c, "name"), c)
			return true
		})
	}
}

func javaField(w *walker, i int) {
	kind := symbol.Field
	if w.is(i, "constant_declaration") {
		kind = symbol.Constant
	}
	if m := w.childOf(i, "modifiers"); m >= 0 {
		words := strings.Fields(w.text(m))
		static, final := false, false
		for _, word := range words {
			static, final = static || word == "static", final || word == "final"
		}
		if static && final {
			kind = symbol.Constant
		}
	}
	w.children(i, func(c int) bool {
		if w.t.Field(c) == "declarator" {
			w.add(kind, w.child(c, "name"), i)
		}
		return true
	})
}
