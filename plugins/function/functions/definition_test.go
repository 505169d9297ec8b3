package functions

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const schema = `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["a"]}`
	for name, c := range map[string]struct {
		given any
		names string // expected names, or text in the expected error
	}{
		"chat completions":    {`{"type":"function","function":{"name":"getA","description":"x","parameters":` + schema + `}}`, "getA geta"},
		"responses":           {`{"type":"function","name":"a","description":"x","parameters":` + schema + `,"strict":true}`, "a a"},
		"anthropic":           {`{"name":"a-b","description":"x","input_schema":` + schema + `}`, "a-b a-b"},
		"anthropic, typed":    {`{"type":"custom","name":"a","input_schema":` + schema + `}`, "a a"},
		"mcp":                 {`{"name":"a","inputSchema":` + schema + `}`, "a a"},
		"a list":              {`[{"name":"a"},{"type":"function","function":{"name":"b"}}]`, "a a b b"},
		"a request":           {`{"model":"m","tools":[{"name":"a"},{"name":"b"}]}`, "a a b b"},
		"the old request":     {`{"functions":[{"name":"a"}]}`, "a a"},
		"decoded":             {map[string]any{"name": "a", "parameters": map[string]any{"type": "object"}}, "a a"},
		"no parameters":       {`{"name":"a","parameters":null}`, "a a"},
		"empty":               {`[]`, "at least one"},
		"nothing":             {``, "cannot be read"},
		"a built-in tool":     {`{"type":"web_search"}`, "unsupported type"},
		"no name":             {`[{"name":"a"},{"description":"x"}]`, "Definition 2: the definition has no name"},
		"cut off":             {"{\"name\":\n\"a", "line 2"},
		"a text":              {`"a"`, "not a function definition"},
		"a wrong schema":      {`{"name":"a","parameters":{"type":"string"}}`, "must be \"object\""},
		"a type there is not": {`{"name":"a","parameters":{"type":"object","properties":{"x":{"type":"array","items":{"type":"STRING"}}}}}`, `unknown type "STRING"`},
	} {
		defs, err := parse(c.given)
		var got []string
		for _, d := range defs {
			got = append(got, d.original, d.Name)
			if d.Description == "" || len(d.Input) == 0 {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if err != nil && !strings.Contains(err.Error(), c.names) || err == nil && strings.Join(got, " ") != c.names {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`[{"name":"a"},{"type":"function","function":{"name":"b","parameters":{"type":"object"}}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		defs, err := parse(text)
		if (err == nil) != (len(defs) > 0) {
			t.Errorf("%d definitions, %v", len(defs), err)
		}
	})
}
