package dispatch

import (
	"bytes"
	"context"
	"encoding/json"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/router"
)

// Fallbacks runs the tools that replace tools without an answer. Its fields must not change after the first call.
type Fallbacks struct {
	Host Host
	// Results has the files with long results. A nil Results means that results have no limits.
	Results stage.ResultStores
}

// Stage runs the operator's fallback tool after a call that failed with Unavailable or Timeout. If the fallback tool
// also fails, the call keeps its original result. The metadata of the result then contains the error of the fallback
// tool. The stage "fallback" surrounds the stage "record". Therefore both calls are recorded.
func (f *Fallbacks) Stage() Stage {
	return Stage{Name: "fallback", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			res := next(ctx, c)
			if !wantsFallback(c, res) || ctx.Err() != nil {
				return res
			}
			d := f.Host.Latest()
			e := d.registry.Find(c.Identity.Tool.Limits.Fallback)
			if e == nil {
				return res
			}
			other := d.pendingFallback(c, e).Run(ctx, c.Client)
			if !other.Success() {
				call.Annotate(res, "fallback_error", other.Error.Message)
				return res
			}
			call.Annotate(other, "fallback_for", c.Identity.Tool.FullName())
			call.Annotate(other, "fallback_because", res.Error.Message)
			other.Run.CallID = c.Request.ID
			return stage.ApplyBounds(c, other, f.Results) // a child call is not shortened, but this one has the caller as its reader
		}
	}}
}

// wantsFallback reports whether the fallback tool can run after the result "res". It returns false if the call failed
// before the stage that checks the limits of its tool, because the fallback tool would also have to wait.
func wantsFallback(c *Call, res *tool.Result) bool {
	return c.Identity.Tool.Limits.Fallback != "" && res.Error != nil &&
		(res.Error.Kind == tool.Unavailable || res.Error.Kind == tool.Timeout) &&
		(c.Outcome.Ran || c.Outcome.Full) && c.Identity.Depth < call.MaxDepth
}

// pendingFallback returns a call of the tool e that replaces the call c. The new call uses the queue position and the
// concurrency slots of c.
func (d *Dispatcher) pendingFallback(c *Call, e *registry.Entry) *Pending {
	limits := c.Identity.Tool.Limits
	req := call.Request{
		ID: c.Request.ID + ".fallback", MessageID: c.Request.MessageID, Session: c.Request.Session,
		Name:      limits.Fallback,
		Arguments: translate(c.Decision.Arguments, limits.FallbackParams, c.Identity.Tool, e), Trace: c.TraceContext(),
		Changed: c.Request.Changed,
	}
	return d.beginInside(c, req, func(r *registry.Registry) *router.Command {
		return router.Function(req.Name, req.Arguments, r)
	})
}

// translate converts arguments of one tool to arguments of another tool. It renames arguments according to the map
// "names". If the new name of an argument is "", it removes the argument. It also removes arguments that the other tool
// does not support. It removes default values, because the other tool has different default values.
func translate(args map[string]json.RawMessage, names map[string]string, from, to *registry.Entry) json.RawMessage {
	out := make(map[string]json.RawMessage, len(args))
	given, wanted := from.Schema(), to.Schema()
	for name, v := range args {
		if p := given.Param(name); p != nil && p.Default != nil && equalJSON(p.Default, v) {
			continue
		}
		if other, renamed := names[name]; renamed {
			name = other
		}
		if wanted.Param(name) != nil {
			out[name] = v
		}
	}
	return call.Object(out)
}

// equalJSON reports whether two JSON values are equal except for white space.
func equalJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
