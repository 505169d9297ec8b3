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
