package tool

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"toolhost.dev/sdk/suggest"
)

// Coerce converts arguments that have another JSON type than the schema wants, if the conversion loses nothing. Models
// often write such arguments. Coerce converts:
//
//   - a string to an array of strings with one element, unless the string is empty
//   - a string that contains JSON text to the array or the object in the text
//   - a string of digits to an integer, and a string that contains a JSON number to a number
//   - the strings "true" and "false" to a boolean
//   - the name of a property in a nested object to the declared name, if the names differ only in case, dashes and
//     underscores, and the schema requires the declared name or permits no other names
//
// All other values stay unchanged, and [Schema.Check] reports them. The values of args must be JSON. Coerce does not
// change args. If no value needs a conversion, Coerce returns args itself. Coerce is safe for concurrent use.
func (s *Schema) Coerce(args map[string]json.RawMessage) map[string]json.RawMessage {
	out, copied := args, false
	for _, p := range s.params {
		raw, given := args[p.Name]
		if !given || !p.nested && p.Is(literalType(raw)) {
			continue
		}
		if v, changed := coerce(raw, p.schema); changed {
			if !copied {
				out, copied = maps.Clone(args), true
			}
			out[p.Name] = v
		}
	}
	return out
}

// coerce converts a value to a type that the schema allows. If changed is false, coerce returns the value unchanged.
func coerce(raw json.RawMessage, s *jsonschema.Schema) (v json.RawMessage, changed bool) {
	if s == nil {
		return raw, false
	}
	types, got := typesOf(s), literalType(raw)
	switch {
	case len(types) == 0:
		return raw, false
	case got == "array" && slices.Contains(types, got):
		return coerceItems(raw, variant(s, got).Items)
	case got == "object" && slices.Contains(types, got):
		return coerceProperties(raw, variant(s, got))
	case got == "string" && !slices.Contains(types, got):
		return coerceText(raw, s, types)
	}
	return raw, false
}

// coerceText converts a string to a type that the schema allows. The caller has checked that the schema does not allow
// a string.
func coerceText(raw json.RawMessage, s *jsonschema.Schema, types []string) (json.RawMessage, bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return raw, false
	}
	inner := json.RawMessage(strings.TrimSpace(text))
	isJSON := json.Valid(inner)
	if got := literalType(inner); isJSON && (got == "array" || got == "object") && slices.Contains(types, got) {
		v, _ := coerce(inner, s)
		return v, true
	}
	switch {
	case slices.Contains(types, "integer") && integerText().MatchString(text),
		slices.Contains(types, "number") && isJSON && isNumber(inner):
		return inner, true
	case slices.Contains(types, "boolean") && (strings.EqualFold(text, "true") || strings.EqualFold(text, "false")):
		return json.RawMessage(strings.ToLower(text)), true
	case slices.Contains(types, "array") && text != "" && !strings.HasPrefix(string(inner), `["`): // a text that begins with [" is probably truncated JSON
		item := raw
		if items := variant(s, "array").Items; items == nil || !slices.Contains(typesOf(items), "string") {
			var ok bool
			if item, ok = coerce(raw, items); !ok {
				return raw, false
			}
		}
		return slices.Concat([]byte{'['}, item, []byte{']'}), true
	}
	return raw, false
}

// integerText matches the decimal form of integers that every program can read exactly.
var integerText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(0|-?[1-9][0-9]{0,14})$`) })

func coerceItems(raw json.RawMessage, s *jsonschema.Schema) (json.RawMessage, bool) {
	var items []json.RawMessage
	if s == nil || json.Unmarshal(raw, &items) != nil {
		return raw, false
	}
	changed := false
	for i := range items {
		v, ok := coerce(items[i], s)
		items[i], changed = v, changed || ok
	}
	if !changed {
		return raw, false
	}
	return encoded(items, raw)
}

func coerceProperties(raw json.RawMessage, s *jsonschema.Schema) (json.RawMessage, bool) {
	var given map[string]json.RawMessage
	if len(s.Properties) == 0 || json.Unmarshal(raw, &given) != nil {
		return raw, false
	}
	changed := false
	out := make(map[string]json.RawMessage, len(given))
	for _, name := range sortedKeys(given) {
		as := name
		if s.Properties[name] == nil {
			as = propertyLike(name, s)
			if _, again := given[as]; again || out[as] != nil {
				as = name
			}
		}
		v, ok := coerce(given[name], s.Properties[as])
		out[as], changed = v, changed || ok || as != name
	}
	if !changed {
		return raw, false
	}
	return encoded(out, raw)
}

// propertyLike returns the declared property whose name differs from the given name only in case, dashes and
// underscores. If no property or several properties match, it returns the given name. It also returns the given name if
// the schema permits other names and does not require the property.
func propertyLike(name string, s *jsonschema.Schema) string {
	found := name
	for p := range s.Properties {
		if suggest.Fold(p) == suggest.Fold(name) {
			if found != name {
				return name
			}
			found = p
		}
	}
	if closed := s.AdditionalProperties != nil && isFalse(s.AdditionalProperties); !closed &&
		!slices.Contains(s.Required, found) {
		return name
	}
	return found
}

// variant returns the part of a schema that allows a type: the schema itself or one of its alternatives.
func variant(s *jsonschema.Schema, typ string) *jsonschema.Schema {
	for _, v := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
		if s.Type == "" && slices.Contains(typesOf(v), typ) {
			return v
		}
	}
	return s
}

// encoded returns a changed value as JSON. An encoding error cannot occur, because the parts of the value are
// valid JSON.
func encoded(v any, raw json.RawMessage) (json.RawMessage, bool) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return raw, false
	}
	return bytes.TrimSpace(b.Bytes()), true
}

// isNumber reports whether a JSON value is a number that programs can represent.
func isNumber(raw json.RawMessage) bool {
	var n float64
	return literalType(raw) == "integer" && json.Unmarshal(raw, &n) == nil
}

// literalType returns the type of a JSON value by its first byte. It returns "integer" for all numbers.
func literalType(raw json.RawMessage) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "integer"
}
