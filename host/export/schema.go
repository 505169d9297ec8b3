package export

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"toolhost.dev/sdk/tool"
)

// plain returns a schema without the keywords that only the host uses. If short is true, it makes the schema shorter,
// because each request to a model contains the schemas of all tools. It then also omits limits of numbers, defaults
// that are false or zero, parameters that few calls need, and the mark that an object is closed. The host checks these,
// and a model need not know them.
func plain(raw json.RawMessage, short bool) (json.RawMessage, error) {
	s, err := parse(raw)
	if err != nil {
		return nil, err
	}
	walk(s, func(s *jsonschema.Schema) {
		delete(s.Extra, tool.RareKeyword)
		delete(s.Extra, tool.PathKeyword)
		if !short {
			return
		}
		withoutRare(s)
		s.Minimum, s.Maximum = nil, nil
		if d := string(s.Default); d == "false" || d == "0" || d == `""` {
			s.Default = nil
		}
		if text, err := json.Marshal(s.AdditionalProperties); err == nil && string(text) == "false" {
			s.AdditionalProperties = nil
		}
	})
	return json.Marshal(s)
}

// withoutRare removes the optional parameters that few calls need.
func withoutRare(s *jsonschema.Schema) {
	for name, p := range s.Properties {
		if p.Extra[tool.RareKeyword] == true && !slices.Contains(s.Required, name) {
			delete(s.Properties, name)
			s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(n string) bool { return n == name })
		}
	}
}

// parse decodes a schema and keeps the order of its properties. The order determines positional arguments and shows
// which properties are important.
func parse(raw json.RawMessage) (*jsonschema.Schema, error) {
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, err
	}
	return s, order(s, raw)
}

func order(s *jsonschema.Schema, raw json.RawMessage) error {
	var parts struct {
		Properties json.RawMessage
		Items      json.RawMessage
		AnyOf      []json.RawMessage
		OneOf      []json.RawMessage
		AllOf      []json.RawMessage
		Defs       map[string]json.RawMessage `json:"$defs"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return nil //nolint:nilerr // the schema is true or false, not an object
	}
	if len(parts.Properties) > 0 {
		var props map[string]json.RawMessage
		if err := json.Unmarshal(parts.Properties, &props); err != nil {
			return err
		}
		names, err := keys(parts.Properties)
		if err != nil {
			return err
		}
		s.PropertyOrder = names
		for name, sub := range s.Properties {
			if err := order(sub, props[name]); err != nil {
				return err
			}
		}
	}
	if s.Items != nil {
		if err := order(s.Items, parts.Items); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		subs []*jsonschema.Schema
		raw  []json.RawMessage
	}{{s.AnyOf, parts.AnyOf}, {s.OneOf, parts.OneOf}, {s.AllOf, parts.AllOf}} {
		for i, sub := range l.subs {
			if err := order(sub, l.raw[i]); err != nil {
				return err
			}
		}
	}
	for name, sub := range s.Defs {
		if err := order(sub, parts.Defs[name]); err != nil {
			return err
		}
	}
	return nil
}

// keys returns the keys of a JSON object in their order, without duplicates.
func keys(raw json.RawMessage) ([]string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var out []string
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return nil, err
		}
		if key, ok := name.(string); ok && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out, nil
}

func walk(s *jsonschema.Schema, f func(*jsonschema.Schema)) {
	f(s)
	for _, sub := range children(s) {
		walk(sub, f)
	}
}

// children returns the direct subschemas that the function strict must convert too.
func children(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat(s.AnyOf, s.OneOf, s.AllOf)
	for _, sub := range s.Properties {
		out = append(out, sub)
	}
	for _, sub := range s.Defs {
		out = append(out, sub)
	}
	if s.Items != nil {
		out = append(out, s.Items)
	}
	return out
}

// strict converts a schema to a strict schema for OpenAI. In a strict schema, every object is closed and all properties
// are required. Optional properties can be null, which the host treats as missing. ok is false if the schema has no
// strict equivalent.
func strict(raw json.RawMessage) (out json.RawMessage, ok bool) {
	s, err := parse(raw)
	if err != nil {
		return nil, false
	}
	ok = true
	walk(s, func(s *jsonschema.Schema) { ok = ok && canBeStrict(s) })
	if !ok {
		return nil, false
	}
	var objects []*jsonschema.Schema
	walk(s, func(s *jsonschema.Schema) {
		if s.Type == "object" { // collect the names first, because nullable changes Type
			objects = append(objects, s)
		}
	})
	for _, s := range objects {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // JSON encodes this schema as false
		for _, name := range s.PropertyOrder {
			if !slices.Contains(s.Required, name) {
				nullable(s.Properties[name])
			}
			if p := s.Properties[name]; p.Default != nil { // strict schemas do not support default values
				p.Description = strings.TrimSpace(p.Description + " Default: " + string(p.Default) + ".")
				p.Default = nil
			}
		}
		s.Required = slices.Clone(s.PropertyOrder)
		if s.Required == nil {
			s.Required = []string{}
		}
	}
	out, err = json.Marshal(s)
	return out, err == nil
}

// canBeStrict reports whether a schema has a strict equivalent. It does not check the subschemas.
func canBeStrict(s *jsonschema.Schema) bool {
	switch {
	case len(s.AllOf) > 0 || len(s.OneOf) > 0 || s.Not != nil || s.If != nil || s.Then != nil || s.Else != nil,
		len(s.PatternProperties) > 0 || s.PropertyNames != nil || s.UnevaluatedProperties != nil ||
			len(s.DependentSchemas) > 0 || len(s.DependentRequired) > 0,
		len(s.PrefixItems) > 0 || s.Contains != nil || s.UniqueItems:
		return false
	case s.Type == "object" && (s.Properties == nil && s.AdditionalProperties == nil ||
		s.AdditionalProperties != nil && !isFalse(s.AdditionalProperties)):
		return false // the object can have any properties
	case slices.Contains(s.Types, "object"), s.Type == "array" && s.Items == nil:
		return false
	}
	// A schema that permits every value has no strict equivalent.
	return s.Type != "" || len(s.Types) > 0 || len(s.AnyOf) > 0 || s.Ref != "" || len(s.Enum) > 0 || s.Const != nil
}

func isFalse(s *jsonschema.Schema) bool {
	b, err := json.Marshal(s)
	return err == nil && string(b) == "false"
}

// nullable changes a schema so that it also permits null.
func nullable(s *jsonschema.Schema) {
	switch {
	case len(s.Enum) > 0:
		if !slices.ContainsFunc(s.Enum, func(v any) bool { return v == nil }) {
			s.Enum = append(s.Enum, nil)
		}
		fallthrough
	case s.Type != "" || len(s.Types) > 0:
		if s.Type != "" {
			s.Types, s.Type = []string{s.Type}, ""
		}
		if len(s.Types) > 0 && !slices.Contains(s.Types, "null") {
			s.Types = append(s.Types, "null")
		}
	case len(s.AnyOf) > 0:
		s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Type: "null"})
	default: // a reference or a constant
		inner := *s
		*s = jsonschema.Schema{AnyOf: []*jsonschema.Schema{&inner, {Type: "null"}}}
	}
}
