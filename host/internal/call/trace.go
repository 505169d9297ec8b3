package call

import (
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/telemetry"
)

// EnterPhase ends the span of the current phase. Unless the name is empty, it begins a new span.
func (c *Call) EnterPhase(t *telemetry.Tracer, name string) {
	if c.span == nil || name == c.phaseName {
		return
	}
	c.phase.End()
	c.phase, c.phaseName = nil, name
	if name != "" {
		c.phase, _ = t.Start(c.at, name)
	}
}

// TraceContext returns the trace context inside the span of the call.
func (c *Call) TraceContext() telemetry.TraceContext { return c.at }

// RunContext returns the trace context inside the plugin's span. It is valid after [Call.StartRun].
func (c *Call) RunContext() telemetry.TraceContext { return c.within }

// StartSpan begins the span of the call. Without a tracer, the plugin receives the trace context of the caller.
func (c *Call) StartSpan(t *telemetry.Tracer) {
	if t == nil {
		c.at = c.Request.Trace
		return
	}
	c.span, c.at = t.Start(c.Request.Trace, "call")
	c.span.Served()
}

// EndSpan ends the span of the call. The span contains no arguments, results or messages, because they can contain
// secrets.
func (c *Call) EndSpan(res *tool.Result) {
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

// StartRun begins the plugin's span and passes its context to the plugin.
func (c *Call) StartRun(t *telemetry.Tracer) *telemetry.Span {
	if !c.at.Valid() {
		return nil
	}
	s, at := t.Start(c.at, "run "+c.Decision.Sent.Tool)
	s.Asked()
	c.within = at
	c.Decision.Sent.Trace = map[string]string{telemetry.TraceHeader: at.String()}
	return s
}

// EndRun ends the plugin's span. The argument "res" is the plugin's result.
func EndRun(s *telemetry.Span, res *tool.Result) {
	s.Set("toolhost.plugin", res.Run.Plugin)
	s.Set("toolhost.plugin.version", res.Run.PluginVersion)
	s.Set("toolhost.attempts", res.Run.Attempts)
	s.Set("toolhost.cache_hit", res.Run.CacheHit)
	fail(s, res)
	s.End()
}

// fail marks a span as failed. The status contains the kind of the result's error.
func fail(s *telemetry.Span, res *tool.Result) {
	if res.Error != nil {
		s.Set("error.type", string(res.Error.Kind))
		s.Fail(string(res.Error.Kind))
	}
}
