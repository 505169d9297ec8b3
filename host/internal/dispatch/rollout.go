package dispatch

import (
	"context"
	"time"

	"toolhost.dev/sdk/tape"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/notes"
	"toolhost.dev/host/internal/rollout"
)

// rollout counts the calls of both versions while a new version of a plugin is taken into service.
//
// A read-only call that the new version loses runs once more on the old one. The new version loses a call if it crashes, fails,
// sends too much or does not answer in time.
// After a read-only call of the old version, a share of the calls also runs on the new one, without effects.
func (d *Dispatcher) rollout() Stage {
	if d.Rollouts == nil {
		return Stage{}
	}
	return Stage{Name: "rollout", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			r := c.Identity.Rollout
			switch {
			case r == nil:
				return next(ctx, c)
			case c.Identity.Standby != nil:
				return d.tryNew(ctx, c, r, next)
			}
			res, o := onOld(ctx, c, r, next)
			if c.Identity.Tool.Definition.Traits.ReadOnly && ctx.Err() == nil && r.Shadow() {
				d.shadow(ctx, c, r, res, o.Sent)
			}
			return res
		}
	}}
}

// chooseVersion leases the new version of a plugin for a session that it serves. The lease of the old version stays.
func (d *Dispatcher) chooseVersion(c *Call) {
	id := &c.Identity
	id.Rollout = nil
	if d.Rollouts == nil || c.Request.Exchange != nil {
		return
	}
	if id.Rollout = d.Rollouts.Of(id.Tool.Plugin); id.Rollout == nil || !id.Rollout.Serves(c.Request.Session.ID) {
		return
	}
	if lease := id.Rollout.Candidate(c.Request.Session.Principal.Owner()); lease != nil {
		id.Lease, id.Standby = lease, id.Lease
	}
}

// onOld runs a call on the old version.
func onOld(ctx context.Context, c *Call, r *rollout.Rollout, next Handler) (*tool.Result, rollout.Outcome) {
	m := measured(c, nil, 0)
	defer m.end(c)
	began := time.Now()
	res := next(ctx, c)
	o := outcome(res, began)
	o.Sent = m.total()
	r.Served(0, o)
	return res, o
}

// tryNew runs a call on the new version.
func (d *Dispatcher) tryNew(ctx context.Context, c *Call, r *rollout.Rollout, next Handler) *tool.Result {
	traits := c.Identity.Tool.Definition.Traits
	repeatable := traits.ReadOnly || traits.Idempotent
	tried, cancel := context.WithCancel(ctx)
	if end, limited := ctx.Deadline(); limited && traits.ReadOnly {
		cancel()
		tried, cancel = context.WithTimeout(ctx, r.Patience(time.Until(end)))
	}
	defer cancel()
	var m *meter
	if repeatable {
		m = measured(c, cancel, r.MaxSent(-1))
	} else {
		m = measured(c, nil, 0)
	}
	number, began := r.Begin(), time.Now()
	res := next(tried, c)
	m.end(c)
	o := outcome(res, began)
	o.Sent = m.total()
	gone := tried.Err() != nil || lost(res)
	failedRead := traits.ReadOnly && res.Error != nil && res.Error.Kind != tool.PermissionDenied && !m.asked.Load()
	if ctx.Err() != nil || !repeatable || !gone && !failedRead {
		r.Served(number, o) // the call is over, or must not be repeated
		return res
	}
	if gone && !m.flooded.Load() {
		r.Served(number, o) // at once, because the rules need not know what the old version does
		number = 0
	}
	id := &c.Identity
	id.Lease.Release()
	id.Lease, id.Standby = id.Standby, nil
	again, old := onOld(ctx, c, r, next)
	reason := "did not answer"
	switch {
	case number == 0:
	case m.flooded.Load():
		reason = "sent too much"
		o.Flooded = o.Sent > r.MaxSent(old.Sent)
		o.Failed = o.Flooded // the old version sends as much
		r.Served(number, o)
	default:
		reason = "failed"
		same := again.Error != nil && again.Error.Kind == res.Error.Kind
		o.Failed = o.Failed && !same
		r.Served(number, o)
		if same {
			return again
		}
	}
	notes.Annotate(again, "rollout", "repeated on the old version, because the new one "+reason)
	return again
}

// lost reports whether a plugin ended or broke the protocol during a call.
func lost(res *tool.Result) bool {
	return res.Error != nil && (res.Error.Kind == tool.Unavailable || res.Error.Kind == tool.Internal) && res.Error.Source == tool.SourcePlugin
}

// outcome returns the outcome of a call for a rollout.
func outcome(res *tool.Result, began time.Time) rollout.Outcome {
	return rollout.Outcome{Failed: failed(res), Duration: time.Since(began)}
}

// shadow runs a call of the old version on the new one in the background, and compares the results. Its effects are dropped.
func (d *Dispatcher) shadow(ctx context.Context, c *Call, r *rollout.Rollout, res *tool.Result, oldSent int64) {
	owner := c.Request.Session.Principal.Owner()
	candidate := r.Candidate(owner)
	if candidate == nil {
		r.Dropped(0)
		return
	}
	limit := d.Timeout
	if end, limited := ctx.Deadline(); limited {
		limit = time.Until(end)
	}
	limit = r.Patience(limit)
	sent := *c.Decision.Sent
	sent.Commands, sent.Trace = nil, nil
	s := &shadowCall{d: d, rollout: r, number: r.Begin(), sent: sent, session: c.Request.Session.ID, plugin: c.Identity.Tool.Plugin, owner: owner, tool: c.Identity.Tool.Definition, name: c.Identity.Tool.FullName()}
	served := *res // later stages change the result
	if res.Error != nil {
		e := *res.Error
		served.Error = &e
	}
	s.want = tape.NewResult(&served)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	s.meter = &meter{limit: r.MaxSent(oldSent), stop: cancel}
	go func() {
		defer cancel()
		defer candidate.Release()
		s.compare(ctx, candidate)
	}()
}

// shadowCall is a call that runs on the new version in the background.
type shadowCall struct {
	d             *Dispatcher
	rollout       *rollout.Rollout
	number        uint64
	sent          tool.Call
	session       string
	plugin, owner string
	tool          tool.Definition
	name          string
	want          tape.Result
	meter         *meter // of the new version
}

func (s *shadowCall) compare(ctx context.Context, candidate call.Lease) {
	began := time.Now()
	got := s.run(ctx, candidate, s.meter, "-shadow")
	shadow := rollout.Outcome{Failed: failed(got), Duration: time.Since(began), Sent: s.meter.total(), Flooded: s.meter.flooded.Load()}
	switch {
	case shadow.Flooded:
		shadow.Failed = true
		s.rollout.Compared(s.number, nil, shadow)
		return
	case s.want.Error != nil:
		shadow.Failed = shadow.Failed && got.Error.Kind != s.want.Error.Kind // both fail in the same way
	case ctx.Err() != nil || lost(got): // a failure, and not another answer
		shadow.Failed = true
		s.rollout.Compared(s.number, nil, shadow)
		return
	}
	now := tape.NewResult(got)
	verdict, differences := tape.Compare(&s.tool, &s.want, &now)
	if verdict == tape.Different && s.changed(ctx, &now) {
		verdict = tape.Equal
	}
	if verdict != tape.Different {
		s.rollout.Compared(s.number, nil, shadow)
		return
	}
	arguments, _ := s.d.State.MaskJSON(s.sent.Arguments)
	for i := range differences {
		differences[i].Want, _ = s.d.State.MaskText(differences[i].Want)
		differences[i].Got, _ = s.d.State.MaskText(differences[i].Got)
	}
	s.rollout.Compared(s.number, &rollout.Case{At: time.Now(), Tool: s.name, Arguments: string(arguments), Differences: differences}, shadow)
}

// changed reports whether the old version now returns the same as the new one, or something else than before. Then files
// changed meanwhile, and the difference says nothing about the new version.
func (s *shadowCall) changed(ctx context.Context, now *tape.Result) bool {
	old := s.d.latest().Plugins.Reserve(s.plugin, s.owner)
	if old == nil {
		return true // the rollout is over
	}
	defer old.Release()
	again := tape.NewResult(s.run(ctx, old, new(meter), "-again"))
	if ctx.Err() != nil {
		return now.Error == nil // the new version took the time that the old one would have needed
	}
	same, _ := tape.Compare(&s.tool, &s.want, &again)
	return same == tape.Different
}

func (s *shadowCall) run(ctx context.Context, lease call.Lease, m *meter, suffix string) *tool.Result {
	sent := s.sent
	sent.ID += suffix
	return lease.Call(ctx, &sent, shadowPeer{s, m})
}

// shadowPeer is the host for a shadow call: nobody answers, and nothing is shown.
type shadowPeer struct {
	*shadowCall
	meter *meter
}

func (p shadowPeer) Progress(title string, metadata map[string]any) {
	p.meter.progress(title, metadata)
}

func (p shadowPeer) Output(_ tool.Stream, chunk []byte) { p.meter.add(len(chunk)) }

// Log implements [tool.Logger].
func (p shadowPeer) Log(m tool.LogMessage) { p.meter.add(len(m.Data)) }

func (shadowPeer) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.Declined, Message: "this is a shadow call"}, nil
}

func (p shadowPeer) FileStates(_ context.Context, paths ...string) (map[string]tool.FileState, error) {
	out := make(map[string]tool.FileState, len(paths))
	for _, path := range paths {
		s, ok, err := p.d.State.FileState(p.session, path)
		if err != nil {
			return nil, err
		}
		if ok {
			out[path] = s
		}
	}
	return out, nil
}
