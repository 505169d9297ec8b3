package supervisor

import (
	"encoding/json"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestStrikesOfACall checks that strikes count only for exactly the same call. Another session, tool, directory or
// session state, or other arguments, make a different call.
func TestStrikesOfACall(t *testing.T) {
	base := tool.Call{SessionID: "s", Tool: "bash", Arguments: json.RawMessage(`{"command":"./x"}`), Cwd: "/w", SessionState: []byte("A=1")}
	var p poisons
	p.strike(&base, "exit status 7", false)
	if got := p.strikesOf(&base).n; got != 1 {
		t.Fatalf("%d strikes", got)
	}
	for name, change := range map[string]func(*tool.Call){
		"session":   func(c *tool.Call) { c.SessionID = "other" },
		"tool":      func(c *tool.Call) { c.Tool = "read" },
		"arguments": func(c *tool.Call) { c.Arguments = json.RawMessage(`{}`) },
		"directory": func(c *tool.Call) { c.Cwd = "/w/d" },
		"state":     func(c *tool.Call) { c.SessionState = []byte("A=2") },
	} {
		c := base
		change(&c)
		if got := p.strikesOf(&c).n; got != 0 {
			t.Errorf("another %s: %d strikes", name, got)
		}
	}
}
