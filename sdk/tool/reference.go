package tool

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// references replaces the local references in a schema by their targets. A schema that refers to itself becomes a graph
// with a cycle, which is as deep as the value that a caller compares with it.
type references struct {
	root    *jsonschema.Schema
	text    string
	doc     any // the root as decoded JSON
	targets map[string]*jsonschema.Schema
	done    map[*jsonschema.Schema]bool
}

func newReferences(raw json.RawMessage, root *jsonschema.Schema) *references {
	r := &references{root: root, text: string(raw), targets: make(map[string]*jsonschema.Schema),
		done: make(map[*jsonschema.Schema]bool)}
	if strings.Contains(r.text, `"$ref"`) {
		_ = json.Unmarshal(raw, &r.doc) // the error cannot occur, because raw was already parsed
	}
	return r
}

// follow returns a schema whose references are replaced. It does not change s. A reference that is not local
// stays. A default beside a reference stays.
func (r *references) follow(s *jsonschema.Schema) *jsonschema.Schema {
	if r.doc == nil {
		return s
	}
	s = s.CloneSchemas()
	return r.replace(s)
}

func (r *references) replace(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil || r.done[s] {
		return s
	}
	r.done[s] = true
	if target := r.target(s.Ref); target != nil {
		if s.Default == nil {
			return target
		}
		out := *target
		out.Default = s.Default
		return &out
	}
	for name, sub := range s.Properties {
		s.Properties[name] = r.replace(sub)
	}
	for _, list := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf, s.AllOf, s.PrefixItems} {
		for i, sub := range list {
			list[i] = r.replace(sub)
		}
	}
	s.Items, s.AdditionalProperties = r.replace(s.Items), r.replace(s.AdditionalProperties)
	return s
}

// target returns the schema to which a reference in the same document leads, or nil.
func (r *references) target(ref string) *jsonschema.Schema {
	pointer, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil
	}
	if known, ok := r.targets[ref]; ok {
		return known
	}
	r.targets[ref] = nil // a reference that leads to itself has no target
	raw, err := json.Marshal(at(r.doc, pointer))
	s := new(jsonschema.Schema)
	if err != nil || string(raw) == "null" || json.Unmarshal(raw, s) != nil {
		return nil
	}
	if s.Ref == "" {
		r.targets[ref] = s
	}
	s = r.replace(s)
	r.targets[ref] = s
	return s
}

// at returns the part of decoded JSON to which a JSON Pointer leads, or nil (RFC 6901).
func at(doc any, pointer string) any {
	if pointer != "" && pointer[0] != '/' { // the name of an anchor
		return nil
	}
	for _, token := range strings.Split(pointer, "/")[1:] {
		if plain, err := url.PathUnescape(token); err == nil {
			token = plain
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch part := doc.(type) {
		case map[string]any:
			doc = part[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(part) {
				return nil
			}
			doc = part[i]
		default:
			return nil
		}
	}
	return doc
}

// alone returns a parameter's schema with the definitions of the whole schema, so that it can be checked without
// the other parameters. It returns nil if a reference leads to another part of the whole schema.
func (r *references) alone(s *jsonschema.Schema) *jsonschema.Schema {
	out := s.CloneSchemas()
	out.Schema = r.root.Schema
	if r.doc == nil {
		return out
	}
	for _, ref := range strings.Split(r.text, `"$ref"`)[1:] {
		if target := strings.TrimLeft(ref, ": \t\r\n\""); !strings.HasPrefix(target, "#/$defs/") &&
			!strings.HasPrefix(target, "#/definitions/") {
			return nil
		}
	}
	root := r.root.CloneSchemas()
	if out.Defs == nil {
		out.Defs = root.Defs
	} else {
		out.Defs = maps.Clone(out.Defs)
		maps.Copy(out.Defs, root.Defs)
	}
	if out.Definitions == nil {
		out.Definitions = root.Definitions
	}
	return out
}

// maxCost limits how many schemas apply to one value.
const maxCost = 20_000

// circle counts the schemas that apply to one value. The count has no end if a reference leads back to itself, and it
// can double with each reference.
type circle struct {
	bases map[uintptr]*url.URL      // the base of references, by the address of the schema with the reference
	named map[string]map[string]any // schemas by their absolute names
	costs map[uintptr]int           // maxCost+1 for a schema that is being counted
}

// endless returns a reference whose check would not end in useful time, or an empty string.
func (r *references) endless() string {
	if r.doc == nil {
		return ""
	}
	c := &circle{
		bases: make(map[uintptr]*url.URL), named: make(map[string]map[string]any), costs: make(map[uintptr]int),
	}
	root, _ := r.doc.(map[string]any) // a root of another type has no references
	c.named[""] = root
	var schemas []map[string]any
	c.collect(root, new(url.URL), &schemas)
	for _, s := range schemas {
		if ref, ok := s["$ref"].(string); ok && c.cost(s) > maxCost {
			return ref
		}
	}
	return ""
}

// collect records the bases and the names of v and of all objects in it.
func (c *circle) collect(v any, base *url.URL, all *[]map[string]any) {
	if list, ok := v.([]any); ok {
		for _, item := range list {
			c.collect(item, base, all)
		}
	}
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, key := range []string{"$id", "$anchor", "$dynamicAnchor"} {
		name, ok := s[key].(string)
		if key != "$id" {
			name = "#" + name
		}
		u, err := base.Parse(name)
		if !ok || err != nil {
			continue
		}
		c.named[strings.TrimSuffix(u.String(), "#")] = s
		if u.Fragment == "" {
			base = u
		}
	}
	c.bases[address(s)] = base
	*all = append(*all, s)
	for key, part := range s {
		if key != "const" && key != "enum" && key != "default" && key != "examples" {
			c.collect(part, base, all)
		}
	}
}

// cost returns the number of schemas that apply to a value of s, at most maxCost+1.
func (c *circle) cost(s map[string]any) int {
	if known, ok := c.costs[address(s)]; ok {
		return known
	}
	c.costs[address(s)] = maxCost + 1
	sum := 1
	if ref, ok := s["$ref"].(string); ok {
		if target := c.target(ref, c.bases[address(s)]); target != nil {
			sum += c.cost(target)
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas",
		"dependencies"} {
		for _, part := range parts(s[key], key) {
			sum = min(sum+c.cost(part), maxCost+1)
		}
	}
	c.costs[address(s)] = min(sum, maxCost+1)
	return c.costs[address(s)]
}

// target returns the schema to which a reference leads, or nil.
func (c *circle) target(ref string, base *url.URL) map[string]any {
	u, err := base.Parse(ref)
	if err != nil {
		return nil
	}
	if s := c.named[strings.TrimSuffix(u.String(), "#")]; s != nil {
		return s
	}
	pointer := u.EscapedFragment()
	u.Fragment, u.RawFragment = "", ""
	s, _ := at(c.named[u.String()], pointer).(map[string]any)
	return s
}

// parts returns the schemas in the value of a keyword.
func parts(v any, key string) (out []map[string]any) {
	var all []any
	switch v := v.(type) {
	case []any:
		all = v
	case map[string]any:
		all = []any{v}
		if strings.HasPrefix(key, "depend") { // the keys are names of properties
			all = slices.Collect(maps.Values(v))
		}
	}
	for _, part := range all {
		if s, ok := part.(map[string]any); ok {
			out = append(out, s)
		}
	}
	return out
}

func address(s map[string]any) uintptr { return reflect.ValueOf(s).Pointer() }
