package mount

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// maxProbes limits how many keywords of an invalid schema are tested one by one.
const maxProbes = 2000

// repair returns a schema that the host accepts, and the keywords that it left out or changed. Some servers list
// schemas that their own clients never check. Examples are the default null for the type string, and keywords of older
// drafts. A tool with such a schema still works. A schema whose type is not "object" stays unchanged.
func repair(raw json.RawMessage) (json.RawMessage, []string) {
	if _, err := tool.ParseSchema(raw); err == nil {
		return raw, nil
	}
	root, err := parseObject(raw)
	if err != nil {
		return raw, nil
	}
	if typ := string(root.get("type")); typ == "" || strings.HasPrefix(typ, "[") && strings.Contains(typ, `"object"`) {
		root.set("type", json.RawMessage(`"object"`))
	}
	declareRequired(&root)
	r := &repairer{left: maxProbes}
	r.repairDefinitions(&root)
	if _, err := tool.ParseSchema(r.defs.json()); err != nil { // the references to definitions are dropped, and the rest stays
		root.remove("$defs")
		root.remove("definitions")
		r.defs, r.dropped = object{{"type", json.RawMessage(`"object"`)}}, append(r.dropped, "definitions")
	}
	out := r.schema(root.json(), "", true)
	if r.weaker {
		r.strict, r.left = true, maxProbes
		root, _ = parseObject(out)
		r.repairDefinitions(&root)
		out = r.schema(root.json(), "", true)
	}
	if _, err := tool.ParseSchema(out); err == nil {
		return out, r.dropped
	}
	if loose, ok := widen(root.json()); ok {
		return loose, append(r.dropped, "all constraints")
	}
	return raw, nil
}

// repairDefinitions repairs the definitions of the root.
func (r *repairer) repairDefinitions(root *object) {
	defs := object{{"type", json.RawMessage(`"object"`)}}
	for _, key := range []string{"$defs", "definitions"} {
		if given := root.get(key); len(given) > 0 {
			root.set(key, r.children(given, key, true))
			defs.set(key, root.get(key))
		}
	}
	r.defs = defs
}

// repairer repairs one schema.
type repairer struct {
	defs    object // a schema for testing keywords; it contains the definitions of the root
	dropped []string
	left    int
	weaker  bool // true if a part of the schema now accepts more
	strict  bool // true if the keywords are dropped that refuse a value because a part of the schema accepts it
}

// opposite maps the keywords that can refuse a value because a part of the schema accepts it to what replaces them.
var opposite = map[string]string{
	"not": "", "if": "", "oneOf": "anyOf", "unevaluatedItems": "", "unevaluatedProperties": "",
}

// schema repairs a schema and the schemas in it. If top is true, the schema is the root.
func (r *repairer) schema(raw json.RawMessage, at string, top bool) json.RawMessage {
	in, err := parseObject(raw)
	if err != nil {
		return raw // a schema can also be true or false
	}
	var out object
	for _, m := range in {
		if top && (m.key == "$defs" || m.key == "definitions") {
			out = append(out, m)
			continue
		}
		within := strings.TrimPrefix(at+"."+m.key, ".")
		value := r.children(m.value, m.key, false)
		value = r.olderDraft(in, m.key, value)
		if instead, ok := opposite[m.key]; ok && r.strict {
			r.dropped = append(r.dropped, within)
			if instead != "" && in.get(instead) == nil {
				out = append(out, member{instead, value})
			}
			continue
		}
		switch {
		case top && m.key == "$schema": // any draft is read
		case top && m.key == "required":
			value = definedOnly(value, in.get("properties"))
		case m.key == "default": // tested below, together with the other keywords
		case value == nil || !r.fits(object{{m.key, value}}):
			r.dropped = append(r.dropped, within)
			r.weaker = r.weaker || string(m.value) != "false" // exclusiveMinimum false has no effect
			continue
		}
		out = append(out, member{m.key, value})
	}
	if !top && out.get("default") != nil && !r.fits(out) {
		r.dropped = append(r.dropped, strings.TrimPrefix(at+".default", "."))
		out.remove("default")
	}
	if top {
		out.remove("default")
	}
	return out.json()
}

// children repairs the schemas in the value of a keyword. If defs is true, the value contains the definitions of the
// root.
func (r *repairer) children(raw json.RawMessage, key string, defs bool) json.RawMessage {
	switch key {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		all, err := parseObject(raw)
		if err != nil {
			return nil
		}
		for i, m := range all {
			if string(m.value) == "null" {
				m.value = json.RawMessage("{}")
			}
			if defs {
				all[i].value = r.definition(m.value)
				continue
			}
			all[i].value = r.schema(m.value, m.key, false)
		}
		return all.json()
	case "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else", "unevaluatedItems",
		"unevaluatedProperties":
		return r.schema(raw, key, false)
	case "anyOf", "oneOf", "allOf", "prefixItems":
		var all []json.RawMessage
		if json.Unmarshal(raw, &all) != nil {
			return nil
		}
		for i := range all {
			all[i] = r.schema(all[i], key, false)
		}
		out, _ := json.Marshal(all) // raw JSON can always be encoded
		return out
	}
	return raw
}

// definition repairs a definition of the root. Its references stay unchanged, because the definitions are not complete
// yet.
func (r *repairer) definition(raw json.RawMessage) json.RawMessage {
	d := &repairer{left: r.left, strict: r.strict}
	out := d.schema(raw, "", false)
	r.weaker = r.weaker || d.weaker
	return out
}

// olderDraft converts the value of a keyword from draft 4 of JSON Schema to the current draft. It returns nil if the
// keyword must be left out, because it has no effect.
func (r *repairer) olderDraft(in object, key string, value json.RawMessage) json.RawMessage {
	limit := map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[key]
	if limit == "" {
		return value
	}
	switch string(value) {
	case "true":
		return in.get(limit) // nil if the limit is missing
	case "false":
		return nil
	}
	return value
}

// fits reports whether the host accepts a property with these keywords.
func (r *repairer) fits(keywords object) bool {
	if r.left--; r.left < 0 {
		return true // widen decides
	}
	if ref := keywords.get("$ref"); r.defs == nil && ref != nil {
		return true
	}
	if r.defs == nil && strings.Contains(string(keywords.json()), `"$ref"`) {
		return true
	}
	probe := append(slices.Clone(r.defs), member{"properties", object{{"x", keywords.json()}}.json()})
	if r.defs == nil {
		probe = append(probe, member{"type", json.RawMessage(`"object"`)})
	}
	_, err := tool.ParseSchema(probe.json())
	return err == nil
}

// declareRequired adds the required properties that a schema does not define. Without them, a call could not have them.
func declareRequired(root *object) {
	var names []string
	properties, err := parseObject(root.get("properties"))
	if json.Unmarshal(root.get("required"), &names) != nil || err != nil && root.get("properties") != nil ||
		string(root.get("additionalProperties")) == "false" {
		return
	}
	for _, name := range names {
		if properties.get(name) == nil {
			properties.set(name, json.RawMessage("{}"))
		}
	}
	if len(properties) > 0 {
		root.set("properties", properties.json())
	}
}

// definedOnly removes from a list of required properties the names that the schema does not define. It returns an empty
// list for an invalid value.
func definedOnly(required, properties json.RawMessage) json.RawMessage {
	var names []string
	_ = json.Unmarshal(required, &names) // an invalid list is an empty list
	defined, _ := parseObject(properties)
	names = slices.DeleteFunc(names, func(name string) bool { return defined.get(name) == nil })
	if names == nil {
		names = []string{}
	}
	out, _ := json.Marshal(names)
	return out
}

// widen returns a schema that has the same parameters and accepts any values.
func widen(raw json.RawMessage) (json.RawMessage, bool) {
	root, err := parseObject(raw)
	if err != nil || string(root.get("type")) != `"object"` {
		return nil, false
	}
	properties, _ := parseObject(root.get("properties"))
	for i, m := range properties {
		sub, _ := parseObject(m.value)
		only := object{}
		for _, key := range []string{"title", "description"} {
			if text := sub.get(key); len(text) > 0 && text[0] == '"' {
				only = append(only, member{key, text})
			}
		}
		properties[i].value = only.json()
	}
	out := object{{"type", json.RawMessage(`"object"`)}, {"properties", properties.json()},
		{"required", definedOnly(root.get("required"), properties.json())}}.json()
	_, err = tool.ParseSchema(out)
	return out, err == nil
}

// object is a JSON object that keeps the order of its members.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

var errNoObject = errors.New("not a JSON object")

func parseObject(raw json.RawMessage) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	out := object{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		name, _ := key.(string) // the keys of an object are strings
		out.set(name, v)
	}
	return out, nil
}

func (o object) get(key string) json.RawMessage {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func (o *object) set(key string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].key == key {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{key, value})
}

func (o *object) remove(key string) {
	*o = slices.DeleteFunc(*o, func(m member) bool { return m.key == key })
}

func (o object) json() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(m.key)
		b.Write(key)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
