package dispatch

import (
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/trace"
)

// trace begins the span of the call. Without a tracer the call passes on what it is a part of.
func (p *Pending) trace() {
	p.span, p.at = p.d.Tracer.Start(p.req.Trace, "call")
	p.span.Served()
}

// step begins the span of a part of the call.
func (p *Pending) step(name string) *trace.Span {
	if p.span == nil {
		return nil
	}
	s, _ := p.d.Tracer.Start(p.at, name)
	return s
}

// enter begins the span of what the plugin does, and tells it of that.
func (p *Pending) enter(call *tool.Call) *trace.Span {
	if !p.at.Valid() {
		return nil
	}
	s, at := p.d.Tracer.Start(p.at, "run "+call.Tool)
	s.Asked()
	p.within = at
	call.Trace = map[string]string{trace.Header: at.String()}
	return s
}

func leaveSpan(s *trace.Span, res *tool.Result) {
	s.Set("toolhost.plugin", res.Run.Plugin)
	s.Set("toolhost.plugin.version", res.Run.PluginVersion)
	s.Set("toolhost.attempts", res.Run.Attempts)
	s.Set("toolhost.cache_hit", res.Run.CacheHit)
	fail(s, res)
	s.End()
}

// ended ends the span of the call. What stands in arguments, results and messages stays out of
// it: it may be secret.
func (p *Pending) ended(res *tool.Result) {
	s := p.span
	if s == nil {
		return
	}
	p.span = nil
	if res.Run.Tool != "" {
		s.Rename("call " + res.Run.Tool)
	}
	s.Set("toolhost.tool", res.Run.Tool)
	s.Set("toolhost.layer", string(p.command.Layer))
	s.Set("toolhost.call", p.req.ID)
	s.Set("toolhost.session", p.req.Session.ID)
	s.Set("toolhost.parent", p.parent)
	fail(s, res)
	s.End()
}

func fail(s *trace.Span, res *tool.Result) {
	if res.Error != nil {
		s.Set("error.type", string(res.Error.Kind))
		s.Fail(string(res.Error.Kind))
	}
}
