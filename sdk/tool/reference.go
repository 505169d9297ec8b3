package tool

import (
	"encoding/json"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// references replaces the local references in a schema by their targets. A schema that refers to itself becomes a graph
// with a cycle, which is as deep as the value that a caller compares with it.
type references struct {
	root    *jsonschema.Schema
	doc     any // the root as decoded JSON
	targets map[string]*jsonschema.Schema
	done    map[*jsonschema.Schema]bool
}

func newReferences(raw json.RawMessage, root *jsonschema.Schema) *references {
	r := &references{root: root, targets: make(map[string]*jsonschema.Schema), done: make(map[*jsonschema.Schema]bool)}
	if strings.Contains(string(raw), `"$ref"`) {
		_ = json.Unmarshal(raw, &r.doc) // the error cannot occur, because raw was already parsed
	}
	return r
}

// The method "follow" returns a schema whose references are replaced. It does not change s. A reference that is not local
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

// The method "target" returns the schema to which a reference in the same document leads, or nil.
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

// The function "at" returns the part of decoded JSON to which a JSON Pointer leads, or nil (RFC 6901).
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

// The method "alone" returns a parameter's schema with the definitions of the whole schema, so that it can be checked without
// the other parameters.
func (r *references) alone(s *jsonschema.Schema) *jsonschema.Schema {
	out := s.CloneSchemas()
	if r.doc == nil {
		return out
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
