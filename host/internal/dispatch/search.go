package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/registry"
)

// searching is the placeholder for the result of a call that searches for tools. The search runs when the call runs,
// and not when it is queued, because the first search builds the index.
var searching = new(tool.Result)

// reply returns the handler of calls without a plugin. A nil finder permits no search.
func (d *Dispatcher) reply(finder *help.Index) Handler {
	return func(_ context.Context, c *Call) *tool.Result {
		switch {
		case c.Identity.Answer != searching:
			return c.Identity.Answer
		case finder == nil:
			return call.Refused(tool.Errorf(tool.Unavailable, "This host cannot search its tools. Run help for a list."))
		}
		return help.Search(finder, d.callable(c), c.Identity.Command.Search)
	}
}

// visible returns the tools that the caller may see. These are the tools that the caller may call.
func (d *Dispatcher) visible(c *Call) help.View {
	p := c.Request.Session.Principal
	return help.View{Registry: d.registry,
		Allowed: func(e *registry.Entry) bool { return p != nil && p.ToolAllowed(e.Namespace, e.Definition.Name) }}
}

// callable returns the visible tools without the tools whose calls the policy always denies.
func (d *Dispatcher) callable(c *Call) help.View {
	v := d.visible(c)
	allowed := v.Allowed
	v.Outlook = d.Outlook
	v.Allowed = func(e *registry.Entry) bool { return allowed(e) && d.Outlook(e).Effect != policy.Deny }
	return v
}

// Outlook returns what the policy decides about calls of a tool while their arguments are unknown.
func (d *Dispatcher) Outlook(e *registry.Entry) policy.Outlook {
	return d.policy.Outlook(&policy.Request{
		Name: e.FullName(), Definition: &e.Definition, Schema: e.Schema(), Shell: e.Definition.Role == tool.RoleShell,
		Bundled: e.Bundled,
	})
}
