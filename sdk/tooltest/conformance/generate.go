package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"toolhost.dev/sdk/tool"
)

// sampleFile is the name of a file in the workspace. Generated arguments contain this name.
const sampleFile = "sample.txt"

// makeUp generates arguments that satisfy a tool's schema. The first result contains only the required arguments. If
// possible, a second result contains all arguments.
func (s *suite) makeUp(d *tool.Definition) ([]json.RawMessage, error) {
	var root jsonschema.Schema
	if err := json.Unmarshal(d.Input, &root); err != nil {
		return nil, err
	}
	var all []json.RawMessage
	var first error
	for _, everything := range []bool{false, true} {
		g := generator{root: &root, everything: everything}
		v, err := g.value(&root, 0)
		var raw json.RawMessage
		if err == nil {
			raw, err = json.Marshal(v)
		}
		if err == nil {
			raw, err = complete(d, raw)
		}
		if err != nil {
			if !everything {
				first = err
			}
			continue
		}
		if len(all) == 0 || string(all[0]) != string(raw) {
			all = append(all, raw)
		}
	}
	if len(all) == 0 {
		return nil, first
	}
	return all, nil
}

type generator struct {
	root       *jsonschema.Schema
	everything bool // true if optional properties are also generated
}

// value generates a value for a schema. It can ignore parts of the schema, because the complete arguments are
// validated afterwards.
func (g *generator) value(s *jsonschema.Schema, depth int) (any, error) {
	if depth > 20 {
		return nil, errors.New("the schema refers to itself")
	}
	if ref, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok && g.root.Defs[ref] != nil {
		return g.value(g.root.Defs[ref], depth+1)
	}
	if s.Ref != "" {
		return nil, fmt.Errorf("the schema refers to %s", s.Ref)
	}
	switch {
	case s.Default != nil:
		var v any
		return v, json.Unmarshal(s.Default, &v)
	case len(s.Examples) > 0:
		return s.Examples[0], nil
	case s.Const != nil:
		return *s.Const, nil
	case len(s.Enum) > 0:
		return s.Enum[0], nil
	case len(s.AnyOf) > 0 && s.Type == "":
		return g.value(s.AnyOf[0], depth+1)
	case len(s.OneOf) > 0 && s.Type == "":
		return g.value(s.OneOf[0], depth+1)
	}
	typ := s.Type
	for _, t := range s.Types {
		if typ == "" && t != "null" {
			typ = t
		}
	}
	switch typ {
	case "object":
		return g.object(s, depth)
	case "array":
		return g.array(s, depth)
	case "integer", "number":
		return number(s), nil
	case "boolean":
		return false, nil
	case "null":
		return nil, nil
	}
	return text(s)
}

func (g *generator) object(s *jsonschema.Schema, depth int) (any, error) {
	out := make(map[string]any)
	for name, p := range s.Properties {
		required := false
		for _, r := range s.Required {
			required = required || r == name
		}
		if !required && !g.everything {
			continue
		}
		v, err := g.value(p, depth+1)
		if err != nil {
			if required {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		out[name] = v
	}
	return out, nil
}

func (g *generator) array(s *jsonschema.Schema, depth int) (any, error) {
	out := []any{}
	n := 1
	if s.MinItems != nil {
		n = *s.MinItems
	}
	if s.MaxItems != nil {
		n = min(n, *s.MaxItems)
	}
	if n > 1000 {
		return nil, fmt.Errorf("the schema needs %d items", n)
	}
	item := s.Items
	if item == nil {
		item = &jsonschema.Schema{Type: "string"}
	}
	for range n {
		v, err := g.value(item, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func number(s *jsonschema.Schema) float64 {
	n := 1.0
	if s.Minimum != nil {
		n = max(n, math.Ceil(*s.Minimum))
	}
	if s.ExclusiveMinimum != nil {
		n = max(n, math.Floor(*s.ExclusiveMinimum)+1)
	}
	if s.Maximum != nil && n > *s.Maximum {
		n = *s.Maximum
	}
	if s.ExclusiveMaximum != nil && n >= *s.ExclusiveMaximum {
		n = math.Ceil(*s.ExclusiveMaximum) - 1
	}
	if m := s.MultipleOf; m != nil && *m > 0 {
		n = math.Ceil(n / *m) * *m
	}
	return n
}

// byFormat maps common formats to valid values.
var byFormat = map[string]string{
	"date": "2001-02-03", "date-time": "2001-02-03T04:05:06Z", "time": "04:05:06Z", "email": "a@example.com", "uri": "http://127.0.0.1:9/",
	"url": "http://127.0.0.1:9/", "uuid": "123e4567-e89b-42d3-a456-426614174000", "ipv4": "127.0.0.1", "hostname": "example.com", "regex": "a",
}

func text(s *jsonschema.Schema) (any, error) {
	if v, ok := byFormat[s.Format]; ok {
		return v, nil
	}
	switch s.Extra[tool.PathKeyword] {
	case "read":
		return sampleFile, nil
	case "write":
		return "made-up.txt", nil
	case "diff":
		return "--- a/" + sampleFile + "\n+++ b/" + sampleFile + "\n@@ -1 +1 @@\n-one\n+1\n", nil
	}
	v := "sample"
	if s.MinLength != nil && len(v) < *s.MinLength {
		if *s.MinLength > 1<<20 {
			return nil, fmt.Errorf("the schema needs %d characters", *s.MinLength)
		}
		v += strings.Repeat("x", *s.MinLength-len(v))
	}
	if s.MaxLength != nil && len(v) > *s.MaxLength {
		v = v[:*s.MaxLength]
	}
	return v, nil
}

// worse returns invalid arguments that a host would never send. Each map key describes the mistake in the
// arguments.
func worse(d *tool.Definition, good json.RawMessage) map[string]json.RawMessage {
	bad := map[string]json.RawMessage{
		"arguments that are not JSON":         json.RawMessage(`{"a":`),
		"arguments that are not an object":    json.RawMessage(`[1,2]`),
		"no arguments, not even an object":    nil,
		"arguments with an unknown parameter": nil,
		"arguments that are nested deeply":    json.RawMessage(`{"a":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`),
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(good, &args) != nil {
		args = make(map[string]json.RawMessage)
	}
	with := func(name string, v json.RawMessage) json.RawMessage {
		changed := make(map[string]json.RawMessage, len(args)+1)
		for k, a := range args {
			changed[k] = a
		}
		if v == nil {
			delete(changed, name)
		} else {
			changed[name] = v
		}
		raw, _ := json.Marshal(changed)
		return raw
	}
	bad["arguments with an unknown parameter"] = with("conformance_unknown", json.RawMessage(`true`))
	schema, err := tool.ParseSchema(d.Input)
	if err != nil {
		return bad
	}
	for _, p := range schema.Params() {
		if p.Required {
			bad["arguments without "+p.Name] = with(p.Name, nil)
		}
		for typ, v := range map[string]string{"object": `{"of":{"another":"type"}}`, "number": "17.5",
			"string": `"of another type"`, "null": "null"} {
			if !p.Is(typ) {
				bad[fmt.Sprintf("a %s as %s", typ, p.Name)] = with(p.Name, json.RawMessage(v))
			}
		}
	}
	return bad
}
