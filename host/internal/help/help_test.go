package help_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/router"
	"toolhost.dev/sdk/tool"
)

func filled(t *testing.T) *registry.Registry {
	t.Helper()
	r := registry.New()
	off := tool.Definition{Name: "off", Description: "Not seen.", Input: json.RawMessage(`{"type":"object"}`), Traits: tool.Traits{Disabled: true}}
	write := tool.Definition{
		Name: "write", Description: "Write a file.\n\n  Use it for v1.2 files. More.", StdinParameter: "content", Examples: []string{"write a b", "write a <<'E'\nx\nE"},
		Input: json.RawMessage(`{"type":"object","required":["path","content"],"properties":{"path":{"type":"string","description":"where\n  to"},"content":{"type":"string"},
			"mode":{"type":"string","enum":["a","b"],"default":"a"},"n":{"type":["integer","null"],"default":5},"tags":{"type":"array","items":{"type":"string"}},"any":{},"guess":{"type":"string","x-toolhost-hidden":true}}}`),
	}
	search := tool.Definition{Name: "search", Description: "Search issues", Input: json.RawMessage(`{"type":"object","required":["q"],"properties":{"q":{"type":"string"}}}`)}
	none := func(string) registry.Settings { return registry.Settings{} }
	if err := r.Add("p", "", &tool.Description{Tools: []tool.Definition{write, off}}, false, none); err != nil {
		t.Fatal(err)
	}
	if err := r.Add("q", "jira", &tool.Description{Tools: []tool.Definition{search}}, false, none); err != nil {
		t.Fatal(err)
	}
	for _, a := range []registry.Alias{
		{Name: "file_write", Tool: "write", Habit: registry.Habit{Params: map[string]string{"file": "path", "filename": "path", "-n": "n", "body": "content"}}},
		{Name: "tickets", Namespace: "jira", Tool: "search", Habit: registry.Habit{Params: map[string]string{"query": "q"}}},
		{Name: "hidden", Tool: "off"},
	} {
		if err := r.AddAlias(a); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestHelp compares each level of help for a tool, a field and an alias with a golden file.
func TestHelp(t *testing.T) {
	r := filled(t)
	for file, command := range map[string]string{
		"overview":          "help",
		"tool-short":        "write -h",
		"tool-long":         "write --help",
		"alias-short":       "file_write -h",
		"alias-long":        "file_write --help",
		"namespace-short":   "field:jira -h",
		"namespace-long":    "field:jira --help",
		"field-short":       "field:jira search -h",
		"field-long":        "field:jira search --help",
		"field-alias-long":  "tickets --help",
		"field-mcp-form":    "jira:search --help",
		"tool-by-help":      "help write",
		"namespace-by-help": "help field:jira",
	} {
		c := router.Parse(command, r, router.Options{})
		if !c.IsHelp {
			t.Errorf("%s asks for no help: %v", command, c.Error)
			continue
		}
		got := help.Result(help.View{Registry: r}, c).Output + "\n"
		path := filepath.Join("testdata", file+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s:\n%s\nwanted\n%s(-update writes it anew)", command, got, want)
		}
	}
	gone := &router.Command{IsHelp: true, Name: "gone"}
	if res := help.Result(help.View{Registry: r}, gone); res.Error == nil || res.Error.Kind != tool.NotFound {
		t.Errorf("%+v", res)
	}
}

// TestRestrictedHelp checks that help and the answers to searches contain only tools that the caller may call, and what
// the policy decides about them.
func TestRestrictedHelp(t *testing.T) {
	r := filled(t)
	v := help.View{Registry: r, Allowed: func(e *registry.Entry) bool { return e.Namespace == "" }}
	parse := func(command string) *router.Command { return router.Parse(command, r, router.Options{}) }
	if text := help.Result(v, parse("help")).Output; strings.Contains(text, "jira") || strings.Contains(text, "tickets") || !strings.Contains(text, "write") {
		t.Error(text)
	}
	if res := help.Result(v, parse("field:jira search --help")); res.Error == nil || res.Error.Kind != tool.NotFound {
		t.Errorf("%+v", res)
	}
	write := r.Lookup("", "write")
	for effect, want := range map[policy.Effect]string{
		policy.Ask: "needs a permission: why (the rule)", policy.Depends: "its arguments decide about the permission: why (the rule)", policy.Allow: "", policy.Deny: "",
	} {
		outlook := func(*registry.Entry) policy.Outlook {
			return policy.Outlook{Effect: effect, Rule: "the rule", Reason: "why"}
		}
		hit := help.Hit{Tool: write, Score: 3, Matches: []help.Match{{In: "name", Words: []string{"write"}}}}
		text := help.Found(&help.Answer{Hits: []help.Hit{hit}}, outlook, "save", true)
		if strings.Contains(text, "permission") != (want != "") || !strings.Contains(text, want) || !strings.Contains(text, "name: write") ||
			!strings.Contains(text, "score: 3.00\n") || !strings.Contains(text, `{"type":"object"`) {
			t.Errorf("%s: %s", effect, text)
		}
	}
}
