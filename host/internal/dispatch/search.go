package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/find"
	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
)

// searching marks the answer of a call that searches for tools. The search runs with the call and not when the call is
// queued, because the first search builds the index.
var searching = new(tool.Result)

// reply returns the result of a call without a plugin.
func (d *Dispatcher) reply(ctx context.Context, c *Call) *tool.Result {
	switch {
	case c.Identity.Answer != searching:
		return c.Identity.Answer
	case d.Finder == nil:
		return call.Refused(tool.Errorf(tool.Unavailable, "This host cannot search its tools. Run help for a list."))
	}
	return help.Search(ctx, d.Finder, d.callable(c), c.Identity.Command.Search, caller(c))
}

// caller returns who makes a call, for what searches learn from calls.
func caller(c *Call) find.Caller {
	s := &c.Request.Session
	if s.Principal == nil {
		return find.Caller{}
	}
	return find.Caller{UsageScope: state.UsageScope{Workspace: s.Workspace, Principal: s.Principal.Owner()}, Session: s.ID}
}

// learn lets later searches rank the tool of a successful call higher. Bundled tools are called all the time, so their
// calls rarely belong to a search.
func (d *Dispatcher) learn(c *Call, res *tool.Result) {
	if e := c.Identity.Tool; d.Finder != nil && e != nil && !e.Bundled && c.Request.Exchange == nil && res.Success() {
		d.Finder.Usage.Called(caller(c), e.FullName())
	}
}

// visible returns the tools that the caller may see, which are the tools that it may call.
func (d *Dispatcher) visible(c *Call) help.View {
	p := c.Request.Session.Principal
	return help.View{Registry: d.Registry, Allowed: func(e *registry.Entry) bool { return p != nil && p.ToolAllowed(e.Namespace, e.Definition.Name) }}
}

// callable returns the visible tools without the tools whose calls a rule always denies.
func (d *Dispatcher) callable(c *Call) help.View {
	v := d.visible(c)
	allowed := v.Allowed
	v.Allowed = func(e *registry.Entry) bool {
		return allowed(e) && !d.Policy.Forbids(e.FullName(), e.Definition.Traits)
	}
	return v
}
