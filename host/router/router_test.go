package router_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/router"
	"toolhost.dev/sdk/tool"
)

// registry implements [router.Tools] with a fixed set of tools.
type registry struct {
	aliases map[string]alias
	absent  map[string]string
	agent   map[string]tool.Signature
	fields  map[string]map[string]tool.Signature
}

func (r registry) Agent(name string) (tool.Signature, bool) { s, ok := r.agent[name]; return s, ok }
func (r registry) Absent(name string) string                { return r.absent[name] }
func (r registry) AgentNames() []string                     { return slices.Sorted(maps.Keys(r.agent)) }
func (r registry) Alias(name string) (string, string, map[string]string, bool) {
	a, ok := r.aliases[name]
	return a.namespace, a.target, a.params, ok
}

func (r registry) FullName(function string) string {
	if namespace, name, found := strings.Cut(function, "_"); found && slices.Contains(r.FieldNames(namespace), name) {
		return namespace + ":" + name
	}
	return ""
}

func (r registry) Habit(name string) (string, map[string]string, router.Converter) {
	a := r.aliases[name]
	return a.target, a.params, a.convert
}

func (r registry) Namespaces() []string { return slices.Sorted(maps.Keys(r.fields)) }
func (r registry) RoleName(role tool.Role) string {
	return map[tool.Role]string{tool.RoleShell: "bash"}[role]
}

func (r registry) FieldNames(ns string) []string { return slices.Sorted(maps.Keys(r.fields[ns])) }

func (r registry) Field(ns, name string) (tool.Signature, bool) {
	s, ok := r.fields[ns][name]
	return s, ok
}

type alias struct {
	namespace, target string
	params            map[string]string
	convert           router.Converter
}

func signature(schema, stdin string) tool.Signature {
	s, err := tool.ParseSchema(json.RawMessage(schema))
	if err != nil {
		panic(err)
	}
	return tool.Signature{Schema: s, Stdin: stdin}
}

func withProgram(p *tool.Program, schema string) tool.Signature {
	s := signature(schema, "")
	if s.Schema.Param("stdin") != nil {
		s.Stdin = "stdin"
	}
	s.Program = p
	return s
}

// gnuGrep returns the description of GNU grep that the bundled tool has.
func gnuGrep() *tool.Program {
	b, err := os.ReadFile("../../plugins/grep/finder/program.json")
	if err != nil {
		panic(err)
	}
	p := new(tool.Program)
	if err := json.Unmarshal(b, p); err != nil {
		panic(err)
	}
	return p
}

var tools = registry{
	aliases: map[string]alias{
		"file_read": {target: "read", params: map[string]string{"path": "file_path", "filename": "file_path"}},
		"Grep":      {target: "grep", params: map[string]string{"-i": "ignore_case", "-A": "after", "-n": "line_numbers"}},
		"Write":     {target: "write"},
		"tickets":   {namespace: "jira", target: "search", params: map[string]string{"query": "q"}},
	},
	agent: map[string]tool.Signature{
		"read": withProgram(&tool.Program{Operand: tool.OperandVariable, Others: strings.Fields("a d e i n N p r s t u")}, `{"type":"object","required":["file_path"],"properties":{"file_path":{"type":"string"},"offset":{"type":"integer"},
			"limit":{"type":"integer"},"show_line_numbers":{"type":"boolean"}},"additionalProperties":false}`),
		"write": signature(`{"type":"object","required":["file_path","content"],"properties":{"file_path":{"type":"string"},"content":{"type":"string"},
			"mode":{"type":"string","enum":["overwrite","append"]},"final_newline":{"type":"boolean"}},"additionalProperties":false}`, "content"),
		"edit": signature(`{"type":"object","required":["file_path"],"properties":{"file_path":{"type":"string"},"old_string":{"type":"string"},
			"new_string":{"type":"string"},"replace_all":{"type":"boolean"},"edits":{"type":"array","items":{"type":"object"}}},"additionalProperties":false}`, "new_string"),
		"grep": withProgram(gnuGrep(), `{"type":"object","required":["pattern"],"properties":{"pattern":{"type":"string"},"path":{"type":"string"},
			"glob":{"type":"array","items":{"type":"string"}},"ignore_case":{"type":"boolean"},"output_mode":{"type":"string","enum":["content","count","files_with_matches"]},
			"head_limit":{"type":"integer","minimum":0},"line_numbers":{"type":"boolean"},"after":{"type":"integer"},"before":{"type":"integer"},"context":{"type":"integer"},
			"dialect":{"type":"string","enum":["rust","bre","ere","fixed"]}},"additionalProperties":false}`),
		"bash": withProgram(&tool.Program{Operand: tool.OperandScript, Others: strings.Fields("c i l s norc login posix version")}, `{"type":"object","required":["command"],"properties":{"command":{"type":"string"},"timeout":{"type":"integer"},"cwd":{"type":"string"},
			"stdin":{"type":"string"}},"additionalProperties":false}`),
		"ls": withProgram(&tool.Program{Operands: 1, First: "path", Options: map[string]tool.ProgramOption{"a": {Argument: "hidden=true"}}, Others: []string{"l", "h", "full-time"}},
			`{"type":"object","properties":{"path":{"type":"string"},"hidden":{"type":"boolean"}},"additionalProperties":false}`),
		"pushd": signature(`{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`, ""),
		"exec":  withProgram(&tool.Program{Operands: 9, First: "path"}, `{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`),
		"old":   withProgram(&tool.Program{Operands: 1}, `{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`),
		"list":  signature(`{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`, ""),
		"calc": signature(`{"type":"object","required":["x"],"properties":{"x":{"type":"number"},"y":{"type":"number"},"n":{"type":"integer"},"opts":{"type":"object"},
			"ids":{"type":"array","items":{"type":"integer"}},"either":{"type":["integer","string"]},"maybe":{"type":["null","integer"]},
			"some":{"type":["string","array"]}},"additionalProperties":false}`, ""),
		"open":   signature(`{"type":"object"}`, ""),
		"many":   signature(`{"type":"object","required":["paths"],"properties":{"paths":{"type":"array","items":{"type":"string"}},"deep":{"type":"boolean"}},"additionalProperties":false}`, ""),
		"helper": signature(`{"type":"object","properties":{"help":{"type":"string"},"json":{"type":"string"}},"additionalProperties":false}`, ""),
		"ambi":   signature(`{"type":"object","properties":{"a_b":{"type":"string"},"aB":{"type":"string"}},"additionalProperties":false}`, ""),
	},
	fields: map[string]map[string]tool.Signature{
		"jira": {
			"search": signature(`{"type":"object","required":["q"],"properties":{"q":{"type":"string"},"limit":{"type":"integer"},"labels":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}`, ""),
			"create": signature(`{"type":"object","required":["title"],"properties":{"title":{"type":"string"},"body":{"type":"string"}},"additionalProperties":false}`, "body"),
		},
		"github": {"issue": signature(`{"type":"object","required":["number"],"properties":{"number":{"type":"integer"}},"additionalProperties":false}`, "")},
	},
}

var options = router.Options{Exists: func(path string) bool { return path == "README" }}

// testCase is one element of testdata/cases.json. The test does not compare fields that are missing in the case. If a
// case contains no error, Parse must not return an error.
type testCase struct {
	Why       string          `json:"why"`
	Command   string          `json:"command"`
	Layer     router.Layer    `json:"layer"`
	Name      *string         `json:"name"`
	Namespace string          `json:"namespace"`
	Alias     string          `json:"alias"`
	Args      []string        `json:"args"`
	Kwargs    map[string]any  `json:"kwargs"`
	Help      string          `json:"help"` // "short" or "long"
	Error     string          `json:"error"`
	Errors    []string        `json:"errors"` // texts that the error message must also contain
	Kind      tool.Kind       `json:"kind"`
	Rule      router.Rule     `json:"rule"`
	Exact     json.RawMessage `json:"exact"` // the expected JSON text of Kwargs
}

func TestCases(t *testing.T) {
	b, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []testCase
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for _, tc := range cases {
		t.Run(tc.Command, func(t *testing.T) { check(t, &tc, router.Parse(tc.Command, tools, options)) })
	}
}

func check(t *testing.T, tc *testCase, c *router.Command) {
	t.Helper()
	if c.Raw != tc.Command {
		t.Errorf("raw: %q", c.Raw)
	}
	if c.Reason == "" || c.Rule == "" {
		t.Error("no rule or reason is given")
	}
	switch {
	case tc.Error == "" && c.Error != nil:
		t.Fatalf("refused: %v", c.Error)
	case tc.Error != "" && c.Error == nil:
		t.Fatalf("not refused; %s %s %v", c.Layer, c.Name, c.Kwargs)
	case tc.Error != "":
		for _, part := range append([]string{tc.Error}, tc.Errors...) {
			if !strings.Contains(c.Error.Message, part) {
				t.Errorf("the error does not say %q: %s", part, c.Error.Message)
			}
		}
		if c.Arguments != nil {
			t.Errorf("refused, and yet with arguments %v", c.Arguments)
		}
		if c.Error.Source != tool.SourceHost {
			t.Errorf("the error's source is %q", c.Error.Source)
		}
	}
	if tc.Kind != "" && c.Error.Kind != tc.Kind {
		t.Errorf("kind %s, wanted %s", c.Error.Kind, tc.Kind)
	}
	if tc.Layer != "" && c.Layer != tc.Layer {
		t.Errorf("layer %s (%s), wanted %s", c.Layer, c.Reason, tc.Layer)
	}
	if tc.Rule != "" && c.Rule != tc.Rule {
		t.Errorf("rule %s, wanted %s", c.Rule, tc.Rule)
	}
	if tc.Name != nil && c.Name != *tc.Name {
		t.Errorf("name %q, wanted %q", c.Name, *tc.Name)
	}
	if c.Namespace != tc.Namespace || c.Alias != tc.Alias {
		t.Errorf("namespace %q, alias %q; wanted %q, %q", c.Namespace, c.Alias, tc.Namespace, tc.Alias)
	}
	if tc.Args != nil && !slices.Equal(c.Args, tc.Args) {
		t.Errorf("args %q, wanted %q", c.Args, tc.Args)
	}
	if c.IsHelp != (tc.Help != "") || c.HelpVerbose != (tc.Help == "long") {
		t.Errorf("help %v, verbose %v; wanted %q", c.IsHelp, c.HelpVerbose, tc.Help)
	}
	if tc.Kwargs != nil {
		if got := decode(t, c.Kwargs); !reflect.DeepEqual(got, tc.Kwargs) {
			t.Errorf("kwargs %v, wanted %v", got, tc.Kwargs)
		}
	}
	if tc.Exact != nil {
		var want map[string]json.RawMessage
		if err := json.Unmarshal(tc.Exact, &want); err != nil {
			t.Fatal(err)
		}
		for k := range want {
			if string(c.Kwargs[k]) != string(want[k]) {
				t.Errorf("%s is %s, wanted %s", k, c.Kwargs[k], want[k])
			}
		}
	}
}

func decode(t *testing.T, kwargs map[string]json.RawMessage) map[string]any {
	t.Helper()
	out := make(map[string]any, len(kwargs))
	for k, raw := range kwargs {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%s is not JSON: %s", k, raw)
		}
		out[k] = v
	}
	return out
}
