package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"toolhost.dev/sdk/tool"
)

// SchemaFor infers a JSON Schema from the struct T. Each field defines a parameter. The name of the parameter is the
// field's JSON name. A parameter is required unless the json tag contains omitempty or omitzero. A field can have
// these additional tags:
//
//	jsonschema:"text"    the description of the parameter
//	default:"10"         the default as JSON or as a bare string; makes the parameter optional
//	enum:"a,b,c"         the allowed values; for a slice, the allowed values of its elements
//	min:"0" max:"9"      the smallest and the largest allowed number
//	path:"read"          a workspace path that is read ("read") or changed ("write"), or a
//	                     unified diff that changes files ("diff")
//	rare:"true"          a parameter that few calls need; help shows it, but the definitions for models omit it
//	hidden:"true"        a parameter that callers guess and the tool does not have: it is accepted and shown
//	                     nowhere, so that the tool can name the way to do it
//	deprecated:"text"    a parameter that will be removed; the text names the replacement
//
// A field of a nested struct can also have a default. If a call omits the whole nested struct, this default applies
// only if the field of the nested struct has the tag default:"{}".
func SchemaFor[T any]() (json.RawMessage, error) { return schemaFor(reflect.TypeFor[T]()) }

func schemaFor(t reflect.Type) (json.RawMessage, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		return nil, err
	}
	if err := applyTags(s, t); err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

func applyTags(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
		if s != nil && s.Items != nil {
			s = s.Items
		}
	}
	if t.Kind() != reflect.Struct || s == nil {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		p := s.Properties[name]
		if p == nil {
			continue
		}
		optionalPointer(p)
		if err := applyField(s, p, name, f.Tag); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		if err := applyTags(p, f.Type); err != nil {
			return err
		}
	}
	return nil
}

// optionalPointer replaces the type "T or null" by T, because a caller omits an optional parameter instead of
// sending null.
func optionalPointer(p *jsonschema.Schema) {
	if len(p.Types) == 2 && p.Types[0] == "null" {
		p.Type, p.Types = p.Types[1], nil
	}
}

func applyField(parent, p *jsonschema.Schema, name string, tag reflect.StructTag) error {
	if v, ok := tag.Lookup("default"); ok {
		raw := json.RawMessage(v)
		if p.Type == "string" || !json.Valid(raw) {
			raw, _ = json.Marshal(v)
		}
		p.Default = raw
		var required []string
		for _, r := range parent.Required {
			if r != name {
				required = append(required, r)
			}
		}
		parent.Required = required
	}
	if v := tag.Get("enum"); v != "" {
		of := p
		if p.Items != nil {
			of = p.Items
		}
		for e := range strings.SplitSeq(v, ",") {
			value, err := enumValue(of, e)
			if err != nil {
				return err
			}
			of.Enum = append(of.Enum, value)
		}
	}
	for key, bound := range map[string]**float64{"min": &p.Minimum, "max": &p.Maximum} {
		if v := tag.Get(key); v != "" {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return fmt.Errorf("tag %s: %w", key, err)
			}
			*bound = &n
		}
	}
	if v := tag.Get("path"); v != "" {
		if p.Extra == nil {
			p.Extra = make(map[string]any)
		}
		p.Extra[tool.PathKeyword] = v
	}
	if text, ok := tag.Lookup("deprecated"); ok {
		p.Deprecated = true
		p.Description = strings.TrimSpace(p.Description + " Deprecated: " + text)
	}
	for key, keyword := range map[string]string{"rare": tool.RareKeyword, "hidden": tool.HiddenKeyword} {
		if tag.Get(key) != "true" {
			continue
		}
		if p.Extra == nil {
			p.Extra = make(map[string]any)
		}
		p.Extra[keyword] = true
	}
	return nil
}

// enumValue parses an allowed value of a parameter. The type of the field determines the format.
func enumValue(p *jsonschema.Schema, text string) (any, error) {
	if p.Type == "string" {
		return text, nil
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("tag enum: %q is not of type %s", text, p.Type)
	}
	return v, nil
}
