package stage

import (
	"context"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tape"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/state"
)

// Versions selects the versions of plugins for calls. Its fields must not change after the first call.
type Versions struct {
	// Rollouts contains the rollouts of new versions of plugins.
	Rollouts *rollout.Set
	State    *state.DB
	// Timeout is the timeout for calls of tools without a configured timeout.
	Timeout time.Duration
	Plugins Reserver
}

// Reserver are the plugins of the current generation.
type Reserver interface {
	// Reserve leases the current instance of a plugin to a call of an owner. It returns nil if a reload replaced the
	// plugin.
	Reserve(plugin, owner string) call.Lease
}

// Stage counts the calls of both versions during the rollout of a new version of a plugin.
//
// A read-only call runs once more on the old version if the new version crashes, fails, sends too much or does not
// answer in time. Stage also repeats a share of the read-only calls of the old version on the new version. The effects
// of a repeated call are dropped.
func (v *Versions) Stage() Stage {
	if v.Rollouts == nil {
		return Stage{}
	}
	return Stage{Name: "rollout", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			r := c.Identity.Rollout
			switch {
			case r == nil:
				return next(ctx, c)
			case c.Identity.Standby != nil:
				return v.tryNew(ctx, c, r, next)
			}
			res, o := onOld(ctx, c, r, next)
			if c.Identity.Tool.Definition.Traits.ReadOnly && ctx.Err() == nil && r.Shadow() {
				v.shadow(ctx, c, r, res, o.Sent)
			}
			return res
		}
	}}
}

// ChooseVersion adds a call to the running rollout of its plugin. It leases the new version if the new version serves
// the session of the call. The call also keeps its lease of the old version.
func ChooseVersion(r *rollout.Rollout, c *call.Call) {
	id := &c.Identity
	if id.Rollout = r; !r.Serves(c.Request.Session.ID) {
		return
	}
	if lease := r.Candidate(c.Request.Session.Principal.Owner()); lease != nil {
		id.Lease, id.Standby = lease, id.Lease
	}
}

// onOld runs a call on the old version.
func onOld(ctx context.Context, c *call.Call, r *rollout.Rollout, next Handler) (*tool.Result, rollout.Outcome) {
	m := measured(c, nil, 0)
	defer m.end(c)
	r.Serve()
	began := time.Now()
	res := next(ctx, c)
	o := outcomeOf(res, began)
	o.Sent = m.total()
	r.Served(0, o)
	return res, o
}

// tryNew runs a call on the new version.
func (v *Versions) tryNew(ctx context.Context, c *call.Call, r *rollout.Rollout, next Handler) *tool.Result {
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
	o := outcomeOf(res, began)
	o.Sent = m.total()
	gone := tried.Err() != nil || lost(res)
	failedRead := traits.ReadOnly && res.Error != nil && res.Error.Kind != tool.PermissionDenied && !m.asked.Load()
	if ctx.Err() != nil || !repeatable || !gone && !failedRead {
		r.Served(number, o) // the call is over, or must not be repeated
		return res
	}
	if gone && !m.flooded.Load() {
		r.Served(number, o) // count it now, because the rules do not need the result of the old version
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
		o.Failed = o.Flooded // not a failure of the new version if the old version sends as much
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
	call.Annotate(again, "rollout", "repeated on the old version, because the new one "+reason)
	return again
}

// lost reports whether a plugin exited or violated the protocol during a call.
func lost(res *tool.Result) bool {
	return res.Error != nil && (res.Error.Kind == tool.Unavailable || res.Error.Kind == tool.Internal) &&
		res.Error.Source == tool.SourcePlugin
}

// outcomeOf returns the outcome of a call for a rollout.
func outcomeOf(res *tool.Result, began time.Time) rollout.Outcome {
	return rollout.Outcome{Failed: Failed(res), Duration: time.Since(began)}
}

// shadow repeats a call of the old version on the new version, in the background. It compares the two results and drops
// the effects of the repeated call.
func (v *Versions) shadow(ctx context.Context, c *call.Call, r *rollout.Rollout, res *tool.Result, oldSent int64) {
	limit := v.Timeout
	if end, limited := ctx.Deadline(); limited {
		limit = time.Until(end)
	}
	sent := *c.Decision.Sent
	sent.Commands, sent.Trace = nil, nil
	s := &shadowCall{v: v, rollout: r, sent: sent, session: c.Request.Session.ID, plugin: c.Identity.Tool.Plugin,
		owner: c.Request.Session.Principal.Owner(), tool: c.Identity.Tool.Definition, name: c.Identity.Tool.FullName()}
	served := *res // later stages change the result
	if res.Error != nil {
		e := *res.Error
		served.Error = &e
	}
	s.want = tape.NewResult(&served)
	ctx = context.WithoutCancel(ctx)
	r.Later(func() { s.start(ctx, limit, oldSent) })
}

// shadowCall is a call that runs on the new version in the background.
type shadowCall struct {
	v             *Versions
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

// start runs the call on the new version. The argument "limit" is the time limit of the original call. The argument
// "oldSent" is the number of bytes that the old version sent for the original call.
func (s *shadowCall) start(ctx context.Context, limit time.Duration, oldSent int64) {
	candidate := s.rollout.Candidate(s.owner)
	if candidate == nil {
		s.rollout.Dropped(0)
		return
	}
	defer candidate.Release()
	s.number = s.rollout.Begin()
	ctx, cancel := context.WithTimeout(ctx, s.rollout.Patience(limit))
	defer cancel()
	s.meter = &meter{limit: s.rollout.MaxSent(oldSent), stop: cancel}
	s.compare(ctx, candidate)
}

func (s *shadowCall) compare(ctx context.Context, candidate call.Lease) {
	began := time.Now()
	got := s.run(ctx, candidate, s.meter, "-shadow")
	shadow := rollout.Outcome{
		Failed: Failed(got), Duration: time.Since(began), Sent: s.meter.total(), Flooded: s.meter.flooded.Load(),
	}
	switch {
	case shadow.Flooded:
		shadow.Failed = true
		s.rollout.Compared(s.number, nil, shadow)
		return
	case s.want.Error != nil:
		shadow.Failed = shadow.Failed && got.Error.Kind != s.want.Error.Kind // no failure if both fail in the same way
	case ctx.Err() != nil || lost(got): // the new version failed, so there is no result to compare
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
	arguments, _ := s.v.State.MaskJSON(s.sent.Arguments)
	for i := range differences {
		differences[i].Want, _ = s.v.State.MaskText(differences[i].Want)
		differences[i].Got, _ = s.v.State.MaskText(differences[i].Got)
	}
	s.rollout.Compared(s.number,
		&rollout.Case{At: time.Now(), Tool: s.name, Arguments: string(arguments), Differences: differences}, shadow)
}

// changed runs the call on the old version again. It reports whether the old version now returns the same result as the
// new version, or a different result than in its first run. In both cases, files have changed meanwhile, so the earlier
// difference is not the fault of the new version.
func (s *shadowCall) changed(ctx context.Context, now *tape.Result) bool {
	old := s.v.Plugins.Reserve(s.plugin, s.owner)
	if old == nil {
		return true // the rollout is over
	}
	defer old.Release()
	again := tape.NewResult(s.run(ctx, old, new(meter), "-again"))
	if ctx.Err() != nil {
		return now.Error == nil // timeout: the repetition proves nothing, so only a failure of the new version counts
	}
	same, _ := tape.Compare(&s.tool, &s.want, &again)
	return same == tape.Different
}

func (s *shadowCall) run(ctx context.Context, lease call.Lease, m *meter, suffix string) *tool.Result {
	sent := s.sent
	sent.ID += suffix
	return lease.Call(ctx, &sent, shadowPeer{s, m})
}

// shadowPeer is the peer of a shadow call. It answers no questions and shows no events.
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
		s, ok, err := p.v.State.FileState(p.session, path)
		if err != nil {
			return nil, err
		}
		if ok {
			out[path] = s
		}
	}
	return out, nil
}

// meter counts the bytes that a running call sends to its client during a rollout. It stops a call that exceeds its
// limit.
type meter struct {
	limit   int64
	stop    context.CancelFunc // a nil stop means no limit
	sent    atomic.Int64
	flooded atomic.Bool
	asked   atomic.Bool // whether the call asked a person
}

// add counts a message. It reports whether the client gets the message.
func (m *meter) add(size int) bool {
	sent := m.sent.Add(int64(max(size, rollout.MessageSize)))
	if m.stop == nil || sent <= m.limit {
		return true
	}
	if m.flooded.CompareAndSwap(false, true) {
		m.stop()
	}
	return false
}

func (m *meter) progress(title string, metadata map[string]any) bool {
	return m.add(len(title) + jsonSize(metadata))
}

// jsonSize returns the approximate number of bytes that a decoded JSON value needs as text.
func jsonSize(v any) int {
	const other = 8 // numbers, booleans and null
	size := 2
	switch v := v.(type) {
	case string:
		return size + len(v)
	case map[string]any:
		for key, value := range v {
			size += len(key) + 4 + jsonSize(value)
		}
		return size
	case []any:
		for _, value := range v {
			size += 1 + jsonSize(value)
		}
		return size
	}
	return other
}

func (m *meter) total() int64 { return m.sent.Load() }

// meteredClient is the client of a call with a meter.
type meteredClient struct {
	call.Client
	*meter
}

// measured replaces the client of a call by a client that counts messages with a meter. The caller must call end after
// the call.
func measured(c *call.Call, stop context.CancelFunc, limit int64) *meter {
	m := &meter{limit: limit, stop: stop}
	c.Shown = meteredClient{c.Shown, m}
	return m
}

// end restores the original client of the call.
func (m *meter) end(c *call.Call) {
	if client, ok := c.Shown.(meteredClient); ok {
		c.Shown = client.Client
	}
}

// Progress implements [call.Client].
func (c meteredClient) Progress(title string, metadata map[string]any) {
	if c.progress(title, metadata) {
		c.Client.Progress(title, metadata)
	}
}

// Output implements [call.Client].
func (c meteredClient) Output(stream tool.Stream, chunk []byte) {
	if c.add(len(chunk)) {
		c.Client.Output(stream, chunk)
	}
}

// Ask implements [call.Client].
func (c meteredClient) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	c.asked.Store(true)
	return c.Client.Ask(ctx, ask)
}

// Log implements [call.Client].
func (c meteredClient) Log(m tool.LogMessage) {
	if c.add(len(m.Data)) {
		c.Client.Log(m)
	}
}
