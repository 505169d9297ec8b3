package dispatch

import (
	"context"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/trace"
)

// phases are the spans that cover what happens before the call runs, by stage. A phase lasts until a stage of
// another phase begins.
var phases = map[string]string{"hooks": "permit", "authorize": "permit", "queue": "wait", "limit": "wait"}

// traced records the phase that the stage belongs to.
func (d *Dispatcher) traced(stage string, next Handler) Handler {
	if d.Tracer == nil {
		return next
	}
	name := phases[stage]
	return func(ctx context.Context, c *Call) *tool.Result {
		c.enterPhase(d.Tracer, name)
		defer c.enterPhase(d.Tracer, "") // a stage that ends the call ends its phase
		return next(ctx, c)
	}
}

// enterPhase ends the current phase and begins another one. An empty name begins none.
func (c *Call) enterPhase(t *trace.Tracer, name string) {
	if c.span == nil || name == c.phaseName {
		return
	}
	c.phase.End()
	c.phase, c.phaseName = nil, name
	if name != "" {
		c.phase, _ = t.Start(c.at, name)
	}
}

// startSpan begins the span of the call. Without a tracer the plugin gets the caller's trace context.
func (c *Call) startSpan(t *trace.Tracer) {
	c.span, c.at = t.Start(c.Request.Trace, "call")
	c.span.Served()
}

// endSpan ends the span of the call. It contains no arguments, results or messages, because they may be secret.
func (c *Call) endSpan(res *tool.Result) {
	s := c.span
	if s == nil {
		return
	}
	c.span = nil
	if res.Run.Tool != "" {
		s.Rename("call " + res.Run.Tool)
	}
	s.Set("toolhost.tool", res.Run.Tool)
	s.Set("toolhost.layer", string(c.Identity.Command.Layer))
	s.Set("toolhost.call", c.Request.ID)
	s.Set("toolhost.session", c.Request.Session.ID)
	s.Set("toolhost.parent", c.Identity.Parent)
	fail(s, res)
	s.End()
}

// startRun begins the span of what the plugin does, and passes its context to the plugin.
func (c *Call) startRun(t *trace.Tracer) *trace.Span {
	if !c.at.Valid() {
		return nil
	}
	s, at := t.Start(c.at, "run "+c.Decision.Sent.Tool)
	s.Asked()
	c.within = at
	c.Decision.Sent.Trace = map[string]string{trace.Header: at.String()}
	return s
}

func endRun(s *trace.Span, res *tool.Result) {
	s.Set("toolhost.plugin", res.Run.Plugin)
	s.Set("toolhost.plugin.version", res.Run.PluginVersion)
	s.Set("toolhost.attempts", res.Run.Attempts)
	s.Set("toolhost.cache_hit", res.Run.CacheHit)
	fail(s, res)
	s.End()
}

// fail marks a span with the kind of the result's error.
func fail(s *trace.Span, res *tool.Result) {
	if res.Error != nil {
		s.Set("error.type", string(res.Error.Kind))
		s.Fail(string(res.Error.Kind))
	}
}
