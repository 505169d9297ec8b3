package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/router"
)

// Defaults of an entry's Limits.
const (
	maxAttempts = 5
	retryDelay  = 50 * time.Millisecond
)

// admit waits until as few calls run as may. A nested call has room in the one it runs inside of.
func (p *Pending) admit(ctx context.Context) (leave func(), err error) {
	g, l := p.d.Gates, p.entry.Limits
	if g == nil || p.nesting > 0 || l.MaxConcurrent == 0 && p.d.MaxCalls == 0 {
		return func() {}, nil
	}
	name := p.entry.FullName()
	waits := func() { p.waited = true }
	ofTool, err := g.Enter(ctx, name, scheduler.Limits{Max: l.MaxConcurrent, Queue: l.Queue, Waits: waits}, 0)
	if err != nil {
		if full := (*scheduler.FullError)(nil); errors.As(err, &full) {
			err = tool.Errorf(tool.Unavailable, "The tool %s is busy: %d calls run and %d wait, which is all that may. Call it again later, or allow more in the configuration: tool %q { max_concurrent, queue }.",
				name, l.MaxConcurrent, full.Waiting, name)
		}
		return nil, err
	}
	ofHost, err := g.Enter(ctx, "", scheduler.Limits{Max: p.d.MaxCalls, Waits: waits}, l.Priority)
	if err != nil {
		ofTool()
		return nil, err
	}
	return func() { ofHost(); ofTool() }, nil
}

// attempt runs the call, and again when the plugin died under a call that may be repeated.
func (p *Pending) attempt(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	most, delay, traits := p.entry.Limits.Attempts, p.entry.Limits.RetryDelay, p.entry.Definition.Traits
	if most == 0 {
		most = maxAttempts
	}
	if delay == 0 {
		delay = retryDelay
	}
	if !traits.ReadOnly && !traits.Idempotent {
		most = 1
	}
	for attempt := 1; ; attempt++ {
		res := p.place.Call(ctx, call, peer)
		res.Run.Attempts = attempt
		died := res.Error != nil && res.Error.Kind == tool.Unavailable && res.Run.Plugin != ""
		if !died || attempt >= most || ctx.Err() != nil {
			return res
		}
		if attempt == 1 { // as a rule it was an accident
			continue
		}
		select {
		case <-time.After(delay << min(attempt-2, 10)):
		case <-ctx.Done():
			return res
		}
	}
}

// instead tries the operator's fallback for a call that failed because its tool is not available, or
// took too long. When that fails too, the result is the first one's.
func (p *Pending) instead(ctx context.Context, front Front, res *tool.Result) *tool.Result {
	l := p.entry.Limits
	if l.Fallback == "" || res.Error == nil || res.Error.Kind != tool.Unavailable && res.Error.Kind != tool.Timeout || ctx.Err() != nil || p.nesting >= maxNesting {
		return res
	}
	d := p.d.latest()
	e := d.Registry.Find(l.Fallback)
	if e == nil {
		return res
	}
	q := &Pending{
		d: d, started: time.Now(), nesting: p.nesting + 1, parent: p.req.ID,
		req: Request{ID: p.req.ID + ".fallback", MessageID: p.req.MessageID, Session: p.req.Session, Name: l.Fallback, Arguments: translate(p.args, l.FallbackParams, e), Trace: p.at},
	}
	q.trace()
	q.command = router.Function(q.req.Name, q.req.Arguments, d.Registry)
	q.settle()
	other := q.Run(ctx, front)
	if !other.Success() {
		return res
	}
	if other.Metadata == nil {
		other.Metadata = make(map[string]any)
	}
	other.Metadata["fallback_for"], other.Metadata["fallback_because"] = p.entry.FullName(), res.Error.Message
	other.Run.CallID = p.req.ID
	return other
}

// translate gives arguments the names that another tool has for them, and leaves out those that it
// does not take.
func translate(args map[string]json.RawMessage, names map[string]string, e *registry.Entry) json.RawMessage {
	out := make(map[string]json.RawMessage, len(args))
	schema := e.Schema()
	for name, v := range args {
		if to := names[name]; to != "" {
			name = to
		}
		if schema.Param(name) != nil {
			out[name] = v
		}
	}
	return object(out)
}
