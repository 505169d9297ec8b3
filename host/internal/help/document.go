package help

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/registry"
)

// maxDepth is the maximum depth of nested objects that are searched for parameters.
const maxDepth = 4

// texts returns the words of each column for a tool. It omits words that most descriptions contain, except in keywords
// and in a name that consists of nothing else. A query can have such words, and finds only these tools by them.
func texts(e *registry.Entry) [len(columns)][]string {
	text := strings.TrimSpace(e.Definition.Description)
	summary, rest := text, ""
	if i := strings.Index(text, ". "); i > 0 {
		summary, rest = text[:i], text[i:]
	} else if i := strings.IndexByte(text, '\n'); i > 0 {
		summary, rest = text[:i], text[i:]
	}
	var s schema
	_ = json.Unmarshal(e.Definition.Input, &s) // error ignored: registration checks schemas, and the name can still be found
	var p parameters
	p.add(&s, 0)
	return [...][]string{nameWords(&e.Definition), prose(e.Namespace), prose(summary), prose(rest), p.names, p.texts,
		p.choices, every(strings.Join(slices.Concat(e.Definition.Keywords, e.Keywords), " "))}
}

// nameWords returns the words of a tool's name. A name from a mounted server, such as getWeather, has lost its
// capitals. Its words are therefore taken from the original name.
func nameWords(d *tool.Definition) []string {
	name := d.Name
	if d.OriginalName != "" {
		name = firstCharacters(d.OriginalName, maxOriginal)
	}
	if ws := prose(name); len(ws) > 0 {
		return ws
	}
	return every(name)
}

// maxOriginal limits the indexed part of an original name, in characters.
const maxOriginal = 200

// schema contains the parts of a JSON schema that have words for the search.
type schema struct {
	Description string
	Properties  map[string]*schema
	Items       *schema
	Enum        []any
}

// UnmarshalJSON accepts every JSON value, because parts of a schema can be true, false or a list.
func (s *schema) UnmarshalJSON(b []byte) error {
	type plain schema
	var raw map[string]json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		return nil //nolint:nilerr // a value without words
	}
	out := (*plain)(s)
	for key, to := range map[string]any{"description": &out.Description, "properties": &out.Properties,
		"items": &out.Items, "enum": &out.Enum} {
		if v, ok := raw[key]; ok {
			_ = json.Unmarshal(v, to) // error ignored: a part of another type has no words
		}
	}
	return nil
}

// parameters contains the words of a tool's parameters.
type parameters struct{ names, texts, choices []string }

func (p *parameters) add(s *schema, depth int) {
	if s == nil || depth > maxDepth {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p.names = append(p.names, words(name)...)
		inner := s.Properties[name]
		if inner == nil {
			continue
		}
		p.texts = append(p.texts, prose(inner.Description)...)
		for _, choice := range inner.Enum {
			if text, ok := choice.(string); ok {
				p.choices = append(p.choices, words(text)...)
			}
		}
		p.add(inner, depth+1)
	}
	p.add(s.Items, depth)
}
