package router_test

import (
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/host/router"
)

// TestHelpFunction checks the function "help" (requirement A6), which describes tools to callers of functions.
func TestHelpFunction(t *testing.T) {
	for arguments, want := range map[string]string{
		``: "", `{}`: "", `{"name":"read"}`: "read", `{"tool":"read"}`: "read", `{"command":"tool:read"}`: "read", `{"name":"field:jira"}`: "", `{"name":"jira:search"}`: "search",
		`"{\"name\": \"read\"}"`: "read",
	} {
		c := router.Function("help", json.RawMessage(arguments), tools)
		if c.Error != nil || !c.IsHelp || c.Name != want || c.Rule != router.RuleHelp {
			t.Errorf("%s: %+v, %v", arguments, c, c.Error)
		}
	}
	for arguments, want := range map[string]string{
		`{"name":"raed"}`: `Did you mean "read"?`, `{"name":1}`: "help takes one argument", `{"a":"read","b":"read"}`: "help takes one argument", `[]`: "not a JSON object", `{"name":""}`: "Unknown tool",
	} {
		if c := router.Function("help", json.RawMessage(arguments), tools); c.Error == nil || !strings.Contains(c.Error.Message, want) {
			t.Errorf("%s: %v", arguments, c.Error)
		}
	}
}

// TestLine checks which scripts of a function call of bash are command lines for the router. They are lines that bash
// would refuse, and requests for help. bash runs all others.
func TestLine(t *testing.T) {
	call := func(arguments map[string]any) *router.Command {
		b, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		return router.Function("bash", b, tools).Line(tools)
	}
	for script, want := range map[string]string{
		"read go.mod": "read", "read": "read", "read main.go --limit 2": "read", "grep Hello --glob '*.go'": "grep", "help": "", "help read": "read", "read --help": "read",
		"tool:read x": "read", "tool:help read": "read", "help --search x": "", "tool:help --search x": "", "field:jira search x": "search", "write a --content b": "write",
		"ls": "bash", "grep Hello main.go": "bash", "read x; echo $x": "bash", "read x <<< y": "bash", "read a b | cat": "bash", "bash -c true": "bash", "help cd": "bash", "echo '": "bash",
	} {
		c := call(map[string]any{"command": script})
		line := c.Rule != router.RuleFunction
		if c.Name != want || line == (want == "bash") || strings.Contains(script, "--search") && c.Search == nil {
			t.Errorf("%s: %s, wanted %q: %+v", script, c.Name, want, c)
		}
		if c := call(map[string]any{"command": script, "timeout": 5}); c.Name != "bash" {
			t.Errorf("%s with a timeout: %+v", script, c)
		}
	}
}
