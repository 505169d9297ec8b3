package stage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"toolhost.dev/sdk/tape"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/state"
)

// TapePlans decides which recordings begin.
type TapePlans interface {
	// Plan returns the plan for the recording of a session. It returns nil if the host must not begin to record the
	// session.
	Plan(s *call.Session) *TapePlan
}

// Taping records calls. Its fields must not change after the first call.
type Taping struct {
	// Recorder records the calls of sessions on tapes.
	Recorder *recorder.Recorder
	State    *state.DB
	// Plans is nil if the host begins no recordings.
	Plans TapePlans
}

// Stage records the call if its session is recorded. The tape contains what the plugin got and returned, or what the
// cache returned in place of the plugin.
func (t *Taping) Stage() Stage {
	if t.Recorder == nil {
		return Stage{}
	}
	return Stage{Name: "tape", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			if c.Request.Exchange != nil {
				return next(ctx, c)
			}
			t.beginTape(&c.Request.Session)
			rec := t.Recorder.Of(c.Request.Session.ID)
			if rec == nil {
				return next(ctx, c)
			}
			workspace := c.Request.Session.Top()
			rec.Session(c.Request.Session.ID, func() (tape.Session, error) { return t.snapshot(c) })
			e := c.Identity.Tool
			definition := tape.Hash(&e.Definition)
			rec.Tool(definition, tape.Tool{Plugin: e.Plugin, Namespace: e.Namespace, Definition: e.Definition})
			events := &tapeEvents{Client: c.Shown, began: time.Now()}
			shown := c.Shown
			c.Shown = events
			res := next(ctx, c)
			c.Shown = shown
			on := t.recorded(c, res, events)
			on.Definition = definition
			if moved, err := tape.Relocate(on, workspace, tape.Workspace); err == nil { // no error is possible, because the call is valid JSON
				on = moved
			}
			if later := c.Request.Session.Later; later != nil { // a call in a preview counts only once a person has accepted it
				later(func() { rec.Call(on) })
			} else {
				rec.Call(on)
			}
			return res
		}
	}}
}

// TapePlan describes a recording that the host begins. See [recorder.Recorder.Begin].
type TapePlan struct {
	ID   string // ID of the session that its client chose
	Keep int
	Plan func() (recorder.Settings, error)
}

// beginTape begins the recording of a session if the configuration demands a recording. If the configuration no longer
// demands it, beginTape ends the recording.
func (t *Taping) beginTape(s *call.Session) {
	if t.Plans != nil {
		if p := t.Plans.Plan(s); p != nil {
			t.Recorder.Begin(s.ID, p.ID, p.Keep, p.Plan)
			return
		}
	}
	t.Recorder.End(s.ID)
}

// snapshot returns the state of the session at the beginning of the recording.
func (t *Taping) snapshot(c *call.Call) (tape.Session, error) {
	s, _, err := t.State.Snapshot(c.Request.Session.ID)
	if err != nil {
		return tape.Session{}, fmt.Errorf("the session cannot be read: %w", err)
	}
	out := tape.Session{ID: c.Request.Session.ID, Cwd: c.Request.Session.Cwd, States: make(map[string]tape.Bytes)}
	for _, f := range s.Files {
		out.Files = append(out.Files, tape.FileState{Path: f.Path, Hash: fmt.Sprintf("%x", f.Hash), Partial: f.Partial})
	}
	for plugin, state := range s.Plugins {
		if masked, secrets := t.State.MaskText(string(state)); secrets {
			state = []byte(masked)
		}
		out.States[plugin] = state
	}
	return tape.Relocate(out, c.Request.Session.Top(), tape.Workspace)
}

// recorded returns a call for the tape, with secrets masked.
func (t *Taping) recorded(c *call.Call, res *tool.Result, events *tapeEvents) tape.Call {
	sent := c.Decision.Sent
	out := tape.Call{
		ID: c.Request.ID, Parent: c.Identity.Parent, Session: c.Request.Session.ID, Tool: c.Identity.Tool.FullName(),
		Plugin: c.Identity.Tool.Plugin, PluginVersion: res.Run.PluginVersion, Cwd: sent.Cwd, Roots: sent.Roots,
		Began: events.began, Duration: time.Since(events.began).Milliseconds(), Result: tape.NewResult(res),
	}
	mask := func(s *string) {
		masked, secrets := t.State.MaskText(*s)
		*s, out.Masked = masked, out.Masked || secrets
	}
	var secrets bool
	out.Arguments, secrets = t.State.MaskJSON(sent.Arguments)
	out.Masked = secrets
	r := &out.Result
	r.Data, secrets = t.State.MaskJSON(r.Data)
	out.Masked = out.Masked || secrets
	mask(&r.Output)
	mask(&r.Title)
	if r.Error != nil {
		e := *r.Error
		mask(&e.Message)
		e.Data, _ = t.State.MaskJSON(e.Data)
		r.Error = &e
	}
	for _, e := range events.take() {
		mask(&e.Text)
		out.Events = append(out.Events, e)
	}
	return out
}

// Limits for the events of a call on a tape. Events beyond these limits are omitted, because results contain the whole
// output.
const (
	maxEvents    = 1000
	maxEventText = 64 << 10
)

// tapeEvents is a client that records the events of a call.
type tapeEvents struct {
	call.Client
	began time.Time

	mu    sync.Mutex
	all   []tape.Event
	bytes int
}

func (e *tapeEvents) add(v tape.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes += len(v.Text); len(e.all) < maxEvents && e.bytes <= maxEventText {
		v.At = time.Since(e.began).Milliseconds()
		e.all = append(e.all, v)
	}
}

func (e *tapeEvents) take() []tape.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all
}

// Output implements [call.Client].
func (e *tapeEvents) Output(stream tool.Stream, chunk []byte) {
	e.add(tape.Event{Kind: "output", Stream: fmt.Sprint(stream), Text: string(chunk)})
	e.Client.Output(stream, chunk)
}

// Progress implements [call.Client].
func (e *tapeEvents) Progress(title string, metadata map[string]any) {
	e.add(tape.Event{Kind: "progress", Text: title})
	e.Client.Progress(title, metadata)
}

// Ask implements [call.Client].
func (e *tapeEvents) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	a, err := e.Client.Ask(ctx, ask)
	title := ""
	if ask.Permission != nil {
		title = ask.Permission.Title
	}
	e.add(tape.Event{Kind: "ask", Text: title, Outcome: string(a.Outcome)})
	return a, err
}
