package help_test

import (
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/host/internal/help"
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
			"mode":{"type":"string","enum":["a","b"],"default":"a"},"n":{"type":["integer","null"],"default":5},"tags":{"type":"array","items":{"type":"string"}},"any":{}}}`),
	}
	search := tool.Definition{Name: "search", Description: "Search issues", Input: json.RawMessage(`{"type":"object","required":["q"],"properties":{"q":{"type":"string"}}}`)}
	none := func(string) registry.Settings { return registry.Settings{} }
	if err := r.Add("p", "", &tool.Description{Tools: []tool.Definition{write, off}}, none); err != nil {
		t.Fatal(err)
	}
	if err := r.Add("q", "jira", &tool.Description{Tools: []tool.Definition{search}}, none); err != nil {
		t.Fatal(err)
	}
	return r
}

const detail = `Usage: write <path> <content> [--parameter value …]

Write a file.

  Use it for v1.2 files. More.

Parameters:
  --path (string; required)
      where to
  --content (string; required)
  --mode (string; default a; one of a, b)
  --n (integer; default 5)
  --tags (array of string)
  --any (any)

A heredoc fills --content.

Examples:
  write a b
  write a <<'E'
  x
  E`

func TestHelp(t *testing.T) {
	r := filled(t)
	for command, want := range map[string]string{
		"write -h":             "write: Write a file. Use it for v1.2 files. More.",
		"write --help":         detail,
		"field:jira -h":        "field:jira search: Search issues",
		"field:jira --help":    "Usage: field:jira search <q>\n  Search issues",
		"jira:search --help":   "Usage: field:jira search <q>\n\nSearch issues\n\nParameters:\n  --q (string; required)",
		"field:jira search -h": "field:jira search: Search issues",
	} {
		c := router.Parse(command, r, router.Options{})
		if !c.IsHelp {
			t.Errorf("%s asks for no help: %v", command, c.Error)
			continue
		}
		if res := help.Result(r, c); res.Output != want {
			t.Errorf("%s:\n%s\nwanted\n%s", command, res.Output, want)
		}
	}
	overview := help.Result(r, router.Parse("help", r, router.Options{})).Output
	for _, want := range []string{"\n  write        Write a file.\n", "\nField tools (field:jira --help for more):\n  field:jira search Search issues\n"} {
		if !strings.Contains(overview, want) {
			t.Errorf("it does not say %q:\n%s", want, overview)
		}
	}
	if strings.Contains(overview, "off") {
		t.Errorf("a disabled tool is listed:\n%s", overview)
	}
	gone := &router.Command{IsHelp: true, Name: "gone"}
	if res := help.Result(r, gone); res.Error == nil || res.Error.Kind != tool.NotFound {
		t.Errorf("%+v", res)
	}
}
