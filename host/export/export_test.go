package export_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host"
	"toolhost.dev/host/export"
	"toolhost.dev/sdk/tool"
)

var update = flag.Bool("update", false, "write the golden files")

func define(full, schema string) host.Tool {
	t := host.Tool{Definition: tool.Definition{Name: full, Description: "Does " + full + ` to <a> & "b".`, Input: json.RawMessage(schema)}, FullName: full, FunctionName: strings.ReplaceAll(full, ":", "_"), Enabled: true}
	if ns, name, ok := strings.Cut(full, ":"); ok {
		t.Namespace, t.Name = ns, name
	}
	return t
}

// tools returns tools whose schemas use all features. The order of the properties is not alphabetical.
func tools() []host.Tool {
	off := define("off", `{"type":"object"}`)
	off.Enabled = false
	return []host.Tool{
		define("put", `{"type":"object","properties":{"path":{"type":"string","description":"Where.","x-toolhost-path":"write"},
			"mode":{"type":"string","enum":["a","b"],"default":"a","description":"How."},"count":{"type":"integer","minimum":1},"any_of":{"anyOf":[{"type":"string"},{"type":"number"}]},
			"edits":{"type":"array","items":{"type":"object","properties":{"old":{"type":"string"},"all":{"type":"boolean","default":false},"at":{"type":"string","x-toolhost-path":"read"}},"required":["old"],"additionalProperties":false}},
			"deep":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"array","items":{"type":"string"}}}}},"required":["path"],"additionalProperties":false}`),
		define("jira:search", `{"type":"object","properties":{"q":{"type":"string"},"fields":{"type":"object"}},"required":["q"]}`),
		define("none", `{"type":"object","properties":{},"additionalProperties":false}`),
		off,
	}
}

func TestFormats(t *testing.T) {
	functions, err := export.Functions(tools())
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range export.Formats {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			if err := export.Write(&out, format, append(slices.Clone(functions), export.Single(tools()))); err != nil {
				t.Fatal(err)
			}
			got := out.Bytes()
			var indented bytes.Buffer
			if json.Indent(&indented, got, "", "  ") == nil {
				got = indented.Bytes()
			}
			golden := filepath.Join("testdata", string(format))
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v\n%s", err, got)
			}
			for _, never := range []string{"x-toolhost", `"off"`} {
				if bytes.Contains(got, []byte(never)) {
					t.Errorf("it has %s", never)
				}
			}
		})
	}
	if err := export.Write(&bytes.Buffer{}, "yaml", functions); err == nil || !strings.Contains(err.Error(), "use anthropic, openai") {
		t.Error(err)
	}
}

// TestStrict checks that all schemas marked as strict follow the rules for strict schemas.
func TestStrict(t *testing.T) {
	functions, err := export.Functions(tools())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := export.Write(&out, export.OpenAIResponses, functions); err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name       string
		Strict     bool
		Parameters map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if want := f.Name != "jira_search"; f.Strict != want { // the tool "jira_search" accepts an object with any properties
			t.Errorf("%s: strict is %v", f.Name, f.Strict)
		}
		if f.Strict {
			closed(t, f.Name, f.Parameters)
		}
	}
}

func closed(t *testing.T, at string, v any) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	if props, ok := s["properties"].(map[string]any); ok {
		required, _ := s["required"].([]any)
		if s["additionalProperties"] != false || len(required) != len(props) {
			t.Errorf("%s: %v", at, s)
		}
		for name, sub := range props {
			closed(t, at+"."+name, sub)
		}
	}
	for _, never := range []string{"default", "allOf", "oneOf", "not", "patternProperties"} {
		if _, has := s[never]; has {
			t.Errorf("%s has %s", at, never)
		}
	}
	closed(t, at+"[]", s["items"])
	if list, ok := s["anyOf"].([]any); ok {
		for i, sub := range list {
			closed(t, fmt.Sprint(at, i), sub)
		}
	}
}

// TestBadSchema checks that Functions returns an error for a tool with an invalid schema and still exports all other
// tools.
func TestBadSchema(t *testing.T) {
	functions, err := export.Functions([]host.Tool{define("bad", `{"type":`), define("good", `{"type":"object"}`)})
	if err == nil || !strings.Contains(err.Error(), "the schema of bad") || len(functions) != 1 || functions[0].Name != "good" {
		t.Errorf("%v %v", functions, err)
	}
}
