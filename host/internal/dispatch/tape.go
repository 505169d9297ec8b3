package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"toolhost.dev/sdk/tape"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/recorder"
)

// tape records the call if its session is recorded. The tape contains what the plugin got and returned, or what the cache
// returned in place of the plugin.
func (d *Dispatcher) tape() Stage {
	if d.Recorder == nil {
		return Stage{}
	}
	return Stage{Name: "tape", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			if c.Request.Exchange != nil {
				return next(ctx, c)
			}
			d.beginTape(&c.Request.Session)
			rec := d.Recorder.Of(c.Request.Session.ID)
			if rec == nil {
				return next(ctx, c)
			}
			workspace := c.Request.Session.Workspace
			rec.Session(c.Request.Session.ID, func() (tape.Session, error) { return d.snapshot(c) })
			e := c.Identity.Tool
			definition := tape.Hash(&e.Definition)
			rec.Tool(definition, tape.Tool{Plugin: e.Plugin, Namespace: e.Namespace, Definition: e.Definition})
			events := &events{Client: c.Shown, began: time.Now()}
			shown := c.Shown
			c.Shown = events
			res := next(ctx, c)
			c.Shown = shown
			t := d.recorded(c, res, events)
			t.Definition = definition
			if moved, err := tape.Relocate(t, workspace, tape.Workspace); err == nil { // no error is possible, because the call is valid JSON
				t = moved
			}
			rec.Call(t)
			return res
		}
	}}
}

// RecordPlan describes a recording that the host begins. See [recorder.Recorder.Begin].
type RecordPlan struct {
	ID   string // of the session, as its client named it
	Keep int
	Plan func() (recorder.Settings, error)
}

// beginTape begins the recording of a session if the configuration demands it, and ends it if it does so no longer.
func (d *Dispatcher) beginTape(s *call.Session) {
	if d.Record != nil {
		if p := d.Record(s); p != nil {
			d.Recorder.Begin(s.ID, p.ID, p.Keep, p.Plan)
			return
		}
	}
	d.Recorder.End(s.ID)
}

// snapshot returns the state of the session at the beginning of the recording.
func (d *Dispatcher) snapshot(c *Call) (tape.Session, error) {
	s, _, err := d.State.Snapshot(c.Request.Session.ID)
	if err != nil {
		return tape.Session{}, fmt.Errorf("the session cannot be read: %w", err)
	}
	out := tape.Session{ID: c.Request.Session.ID, Cwd: c.Request.Session.Cwd, States: make(map[string]tape.Bytes)}
	for _, f := range s.Files {
		out.Files = append(out.Files, tape.FileState{Path: f.Path, Hash: fmt.Sprintf("%x", f.Hash), Partial: f.Partial})
	}
	for plugin, state := range s.Plugins {
		if masked, secrets := d.State.MaskText(string(state)); secrets {
			state = []byte(masked)
		}
		out.States[plugin] = state
	}
	return tape.Relocate(out, c.Request.Session.Workspace, tape.Workspace)
}

// recorded returns a call for the tape, with secrets masked.
func (d *Dispatcher) recorded(c *Call, res *tool.Result, events *events) tape.Call {
	sent := c.Decision.Sent
	out := tape.Call{
		ID: c.Request.ID, Parent: c.Identity.Parent, Session: c.Request.Session.ID, Tool: c.Identity.Tool.FullName(),
		Plugin: c.Identity.Tool.Plugin, PluginVersion: res.Run.PluginVersion, Cwd: sent.Cwd, Roots: sent.Roots,
		Began: events.began, Duration: time.Since(events.began).Milliseconds(), Result: tape.NewResult(res),
	}
	mask := func(s *string) {
		masked, secrets := d.State.MaskText(*s)
		*s, out.Masked = masked, out.Masked || secrets
	}
	var secrets bool
	out.Arguments, secrets = d.State.MaskJSON(sent.Arguments)
	out.Masked = secrets
	r := &out.Result
	r.Data, secrets = d.State.MaskJSON(r.Data)
	out.Masked = out.Masked || secrets
	mask(&r.Output)
	mask(&r.Title)
	if r.Error != nil {
		e := *r.Error
		mask(&e.Message)
		e.Data, _ = d.State.MaskJSON(e.Data)
		r.Error = &e
	}
	for _, e := range events.take() {
		mask(&e.Text)
		out.Events = append(out.Events, e)
	}
	return out
}

// Limits for the events of a call on a tape. Later events are left out, because results contain the whole output.
const (
	maxEvents    = 1000
	maxEventText = 64 << 10
)

// events is a client that records the events of a call.
type events struct {
	call.Client
	began time.Time

	mu    sync.Mutex
	all   []tape.Event
	bytes int
}

func (e *events) add(v tape.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes += len(v.Text); len(e.all) < maxEvents && e.bytes <= maxEventText {
		v.At = time.Since(e.began).Milliseconds()
		e.all = append(e.all, v)
	}
}

func (e *events) take() []tape.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all
}

// Output implements [call.Client].
func (e *events) Output(stream tool.Stream, chunk []byte) {
	e.add(tape.Event{Kind: "output", Stream: fmt.Sprint(stream), Text: string(chunk)})
	e.Client.Output(stream, chunk)
}

// Progress implements [call.Client].
func (e *events) Progress(title string, metadata map[string]any) {
	e.add(tape.Event{Kind: "progress", Text: title})
	e.Client.Progress(title, metadata)
}

// Ask implements [call.Client].
func (e *events) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	a, err := e.Client.Ask(ctx, ask)
	title := ""
	if ask.Permission != nil {
		title = ask.Permission.Title
	}
	e.add(tape.Event{Kind: "ask", Text: title, Outcome: string(a.Outcome)})
	return a, err
}

// ReachesPerson reports whether a person can answer the asks of the client at once.
func (e *events) ReachesPerson() bool { return call.ReachesPerson(e.Client) }

// Log implements [tool.Logger].
func (e *events) Log(m tool.LogMessage) { call.Log(e.Client, m) }
