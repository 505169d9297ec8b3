package call

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/scratch"
)

// Message returns the call as a message for the plugin.
func (c *Call) Message() *tool.Call {
	r := &c.Request
	if x := r.Exchange; x != nil {
		return &tool.Call{
			ID: r.ID, MessageID: r.MessageID, Method: x.Method, Arguments: Object(c.Decision.Arguments),
			Client:    r.Client,
			SessionID: r.Session.ID, Cwd: r.Session.Cwd, Roots: r.Session.Roots, Continuation: r.Continuation,
		}
	}
	out := &tool.Call{
		Client: r.Client, ID: r.ID, MessageID: r.MessageID, Tool: c.Identity.Tool.Definition.Name,
		Arguments: Object(c.Decision.Arguments),
		SessionID: r.Session.ID, Cwd: r.Session.Cwd, Roots: r.Session.Roots, Continuation: r.Continuation,
	}
	if tmp := r.Session.Temporary; tmp.Path != "" {
		s := r.Session
		s.Temporary = c.Identity.Confinement.Temporary(tmp)
		out.Roots = s.All()
		if rel, in := tmp.Rel(out.Cwd); in && s.Temporary.Path == "" && len(out.Roots) > 0 {
			out.Cwd = out.Roots[0].Path
		} else if in && s.Temporary.Path != tmp.Path && scratch.OnHost(r.Session.All(), out.Cwd) != out.Cwd {
			out.Cwd = filepath.Join(s.Temporary.Path, rel)
		}
	}
	return out
}

// UsesTemporary reports whether the call can use the temporary directory of its session. Only such calls run in a
// process that sees this directory. All other calls run in a process that several sessions can share.
func (c *Call) UsesTemporary() bool {
	tmp := c.Request.Session.Temporary
	switch {
	case tmp.Path == "" || c.Request.Exchange != nil:
		return false
	case c.Identity.Tool.Commands, tmp.Contains(c.Decision.Sent.Cwd) &&
		scratch.OnHost(c.Request.Session.All(), c.Decision.Sent.Cwd) != c.Decision.Sent.Cwd:
		return true
	}
	// A text argument can contain paths, for example a patch. An argument of a read-only tool can also be a pattern
	// that begins with the path of the directory.
	mark := tmp.Path + "/"
	if c.Identity.Tool.Definition.Traits.ReadOnly {
		mark = `"` + tmp.Path
	}
	return c.contains(mark, tmp.Path) || c.changesUnnamed() && !scratch.Empty(tmp.Source)
}

// contains reports whether the arguments contain a text that begins with a path. It ignores paths in the
// session's roots.
func (c *Call) contains(text, path string) bool {
	rest := c.Decision.Sent.Arguments
	for {
		i := bytes.Index(rest, []byte(text))
		if i < 0 {
			return false
		}
		at := rest[i+len(text)-len(strings.TrimLeft(text, `"`)):]
		rest = rest[i+len(text):]
		if !slices.ContainsFunc(c.Request.Session.Roots,
			func(r tool.Root) bool { return len(r.Path) > len(path) && bytes.HasPrefix(at, []byte(r.Path)) }) {
			return true
		}
	}
}

// changesUnnamed reports whether the call can change files that its arguments do not name, as an undo does.
func (c *Call) changesUnnamed() bool {
	if c.Identity.Tool.Definition.Traits.ReadOnly {
		return false
	}
	unnamed := false
	for _, p := range c.Identity.Tool.Schema().Params() {
		if p.Path == "" || p.Path == tool.PathRead {
			continue
		}
		if raw, given := c.Decision.Arguments[p.Name]; given && string(raw) != `""` {
			return false
		}
		unnamed = true
	}
	return unnamed
}

// Question returns the call as a request for the policy.
func (c *Call) Question() *policy.Request {
	e := c.Identity.Tool
	return &policy.Request{
		Name: e.FullName(), Definition: &e.Definition, Schema: e.Schema(), Call: c.Decision.Sent,
		Args:      c.Decision.Arguments,
		Workspace: c.Request.Session.Top(), Shell: e.Definition.Role == tool.RoleShell, Gated: c.Identity.Gated,
		Bundled: e.Bundled, Past: c.Request.Session.Past,
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
	names := make([]string, 0, 16) // on the stack
	for name, v := range values {
		names = append(names, name)
		size += len(name) + len(v) + len(`"":,`)
	}
	slices.Sort(names)
	out := append(make(json.RawMessage, 0, size), '{')
	for _, name := range names {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(appendText(out, name), ':'), values[name]...)
	}
	return append(out, '}')
}

// appendText appends a text as JSON.
func appendText(out []byte, text string) []byte {
	if tool.ValidName(text) { // most names need no escapes, and the encoder allocates
		return append(append(append(out, '"'), text...), '"')
	}
	b, err := json.Marshal(text)
	if err != nil { // impossible for strings
		panic(err)
	}
	return append(out, b...)
}
