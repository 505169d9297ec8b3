package call

import (
	"encoding/json"
	"maps"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
)

// Message returns the call as a message for the plugin.
func (c *Call) Message() *tool.Call {
	r := &c.Request
	return &tool.Call{
		ID: r.ID, MessageID: r.MessageID, Tool: c.Identity.Tool.Definition.Name, Arguments: Object(c.Decision.Arguments),
		SessionID: r.Session.ID, Cwd: r.Session.Cwd, Roots: r.Session.Roots,
	}
}

// Question returns the call as a request for the policy.
func (c *Call) Question() *policy.Request {
	e := c.Identity.Tool
	return &policy.Request{
		Name: e.FullName(), Definition: &e.Definition, Schema: e.Schema(), Call: c.Decision.Sent, Args: c.Decision.Arguments,
		Workspace: c.Request.Session.Workspace, Shell: e.Definition.Name == Shell, Gated: c.Identity.Gated, Bundled: e.Bundled,
	}
}

// Refused returns the result of a call that the host refuses.
func Refused(err error) *tool.Result {
	e := tool.AsError(err)
	if e.Source == "" {
		e = e.From(tool.SourceHost)
	}
	return &tool.Result{Error: e}
}

// Object returns a JSON object with the given values. All values must be valid JSON.
func Object(values map[string]json.RawMessage) json.RawMessage {
	size := len("{}")
	for name, v := range values {
		size += len(name) + len(v) + len(`"":,`)
	}
	out := append(make(json.RawMessage, 0, size), '{')
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, err := json.Marshal(name)
		if err != nil { // impossible for strings
			panic(err)
		}
		out = append(append(append(out, key...), ':'), values[name]...)
	}
	return append(out, '}')
}
