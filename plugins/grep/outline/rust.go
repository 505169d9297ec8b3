package outline

import "toolhost.dev/plugins/grep/symbol"

var rustRules = rules{
	"function_item":           function,
	"function_signature_item": function,
	"struct_item":             enclose(symbol.Struct, inClass),
	"enum_item":               enclose(symbol.Enum, inClass),
	"union_item":              enclose(symbol.Union, inClass),
	"trait_item":              enclose(symbol.Trait, inClass),
	"mod_item":                enclose(symbol.Module, inSpace),
	"impl_item":               rustImpl,
	"type_item":               declare(symbol.Type),
	"associated_type":         declare(symbol.Type),
	"const_item":              unlessInBody(symbol.Constant),
	"static_item":             unlessInBody(symbol.Variable),
	"macro_definition":        declare(symbol.Macro),
	"enum_variant":            enclose(symbol.Member, inClass),
	"field_declaration":       declare(symbol.Field),
	"closure_expression":      body,
}

func unlessInBody(kind symbol.Kind) rule {
	return func(w *walker, i int) {
		if !w.inBody() {
			w.add(kind, w.child(i, "name"), i)
		}
	}
}

// rustImpl is the rule for an "impl" block. It opens a scope, so that functions in the block become members of the
// type.
func rustImpl(w *walker, i int) {
	t := w.child(i, "type")
	for w.is(t, "generic_type", "reference_type", "pointer_type") {
		t = w.child(t, "type")
	}
	if w.is(t, "scoped_type_identifier") {
		t = w.child(t, "name")
	}
	w.open(i, inClass, w.text(t))
}
