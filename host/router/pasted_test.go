package router_test

import (
	"strings"
	"testing"

	"toolhost.dev/host/router"
)

// TestPastedCalls checks commands that are tool calls in JSON.
func TestPastedCalls(t *testing.T) {
	for command, want := range map[string]string{
		`{"type":"tool_use","id":"x","name":"read","input":{"file_path":"f"}}`:                           "read",
		`{"id":"x","type":"function","function":{"name":"read","arguments":"{\"file_path\":\"f\"}"}}`:    "read",
		`{"type":"function_call","name":"read","arguments":"{\"file_path\":\"f\"}"}`:                     "read",
		` {"functionCall":{"name":"read","args":{"file_path":"f"}}} `:                                    "read",
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"read","arguments":{"file_path":"f"}}}`: "read",
		`{"tool":"read","parameters":{"file_path":"f"}}`:                                                 "read",
		`{"tool_calls":[{"name":"read","arguments":{"file_path":"f"}}]}`:                                 "read",
		`[{"type":"tool_use","name":"read","input":{"file_path":"f"}}]`:                                  "read",
		`{"type":"function_call","name":"jira_search","arguments":"{\"q\":\"x\"}"}`:                      "search",
		`{"type":"function_call","name":"jira_missing","arguments":"{}"}`:                                "error: Unknown tool",
		`{"type":"function_call","name":"read","arguments":"{\"file_path\":"}`:                           "error: not a JSON object",
		"{\"name\":\"read\",\"input\":{\"file_path\":\"\xff\"}}":                                         "error: not valid UTF-8",
		`{"name":"nothing","input":{}}`:                                                                  "error: Unknown tool",
		`{"name":"read","input":{}}`:                                                                     "error: missing required parameter",
		`[{"name":"read","input":{}},{"name":"read","input":{}}]`:                                        "error: 2 tool calls",
		`{"tool_calls":[{"name":"read","input":{}},{"name":"read","input":{}}]}`:                         "error: 2 tool calls",
		`{ echo "a"; }`:           "native",
		`[ -f "a" ]`:              "native",
		`{"a":1}`:                 "native",
		`{"name":"read"}`:         "native",
		`{"name":5,"input":{}}`:   "native",
		`[]`:                      "native",
		`{"method":"tools/call"}`: "native",
		strings.Repeat(`{"function":`, 9) + `{"name":"read","input":{}}` + strings.Repeat("}", 9): "native",
	} {
		c := router.Parse(command, tools, options)
		got := c.Name
		switch {
		case c.Error != nil:
			got = "error: " + c.Error.Message
		case c.Layer == router.Native:
			got = "native"
		}
		if got != want && (!strings.HasPrefix(want, "error: ") || !strings.Contains(got, want[len("error: "):]) || !strings.HasPrefix(got, "error")) {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// TestWrongArguments checks arguments that are no JSON object, or not UTF-8: a plugin would get the bytes.
func TestWrongArguments(t *testing.T) {
	for arguments, want := range map[string]string{
		"{\"file_path\":\"\xff\"}": "not UTF-8",
		`"{\"file_path\":[1,}"`:    "not a JSON object: invalid character '}'",
		`"{\"file_path\":"`:        "not a JSON object: unexpected end",
		`"no JSON"`:                "not a JSON object: invalid character 'o'",
		`[1]`:                      "not a JSON object: they are of the type array",
		`"[1]"`:                    "not a JSON object: they are of the type array",
	} {
		if err := router.Function("read", []byte(arguments), tools).Error; err == nil || !strings.Contains(err.Message, want) {
			t.Errorf("%s: the error is %v, want %q", arguments, err, want)
		}
	}
}
