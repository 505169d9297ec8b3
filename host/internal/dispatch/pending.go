package dispatch

import (
	"context"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/router"
)

// Pending is a call that was resolved and queued.
type Pending struct {
	d    *Dispatcher // of the generation whose plugin the call has leased
	call Call
}

// Begin resolves and queues the request without blocking. The caller must call Run on the result. The calls
// of a session run in the order in which they were begun.
func (d *Dispatcher) Begin(req Request) *Pending {
	p := d.pending(req, nil)
	p.resolve(d.parse(req))
	if c := &p.call; c.Identity.Answer == nil {
		c.ticket = d.Scheduler.Enqueue(req.Session.ID, c.Identity.Tool.Definition.Traits.ConcurrencySafe)
	}
	return p
}

// pending returns a call that starts now, inside its parent if there is one.
func (d *Dispatcher) pending(req Request, parent *Call) *Pending {
	p := &Pending{d: d, call: Call{Request: req}}
	c := &p.call
	c.Identity.Started = time.Now()
	if parent != nil {
		c.Identity.Parent, c.Identity.Depth = parent.Request.ID, parent.Identity.Depth+1
	}
	c.startSpan(d.Tracer)
	return p
}

// Native reports whether the shell runs the command as it is.
func (p *Pending) Native() bool { return p.call.Identity.Command.Layer == router.Native }

// ReadOnly reports whether the call changes nothing.
func (p *Pending) ReadOnly() bool {
	e := p.call.Identity.Tool
	return e == nil || e.Definition.Traits.ReadOnly
}

// Run carries out the call and returns its result, which is never nil.
func (p *Pending) Run(ctx context.Context, front Front) *tool.Result {
	c := &p.call
	defer c.release()
	c.front, c.shown, c.held = front, front, make([]func(), 0, 6)
	p.d.prepare()
	if c.Identity.Answer != nil {
		return p.d.answer(ctx, c)
	}
	c.Decision.Sent = c.message()
	return p.d.run(ctx, c)
}
