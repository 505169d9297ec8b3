package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/state"
)

// Turns decides when a call starts in its session. Its fields must not change after the first call.
type Turns struct {
	Scheduler *scheduler.Scheduler
	Limits    *stage.Limits
	// Locks coordinates sessions that several processes use. A nil Locks means that no other process uses the sessions.
	Locks *state.Locks
	Log   *slog.Logger
}

// renewAfter limits the wait after which a call can use the session that it loaded earlier. After a longer wait, it
// always loads the session again, because the session's directory can be gone.
const renewAfter = time.Second

// turn waits for the call's turn in its session. If the call waited for calls that can change the session, turn
// loads the session again, because earlier calls can change the working directory and the roots. If the route depends
// on the directory, turn also determines the route again. Hooks, path checks and the policy run after turn, so they
// always use the current directory. If the call cannot run, turn sets the call's result.
func (p *Pending) turn(ctx context.Context) {
	c := &p.call
	c.EnterPhase(p.d.tracer, "wait")
	defer c.EnterPhase(p.d.tracer, "")
	c.Outcome.Waited = c.Ticket.Waits()
	limited := ctx
	if c.Outcome.Waited || p.exclusive { // a call that does not wait needs no timer, because it starts at once
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, p.d.turns.Limits.Wait())
		defer cancel()
	}
	done, err := c.Ticket.Wait(limited)
	if err != nil {
		waited := c.Ticket.WaitedFor()
		c.Ticket = nil // the method Wait ended the ticket
		c.Identity.Answer = p.d.turns.Limits.NotStarted(ctx, c, err, waited.String())
		return
	}
	c.Start(done)
	c.Hold(p.release)
	renewed, err := p.lock(limited)
	if err != nil {
		c.Identity.Answer = p.d.turns.Limits.NotStarted(ctx, c, err, c.WaitsFor())
		return
	}
	// Otherwise the session is unchanged since it was loaded: the call started at once, or it only waited for calls
	// that read.
	changed := renewed || c.Ticket.Follows() || c.Outcome.Waited && time.Since(c.Identity.Started) > renewAfter
	if changed {
		if p.renew() && p.unsettled {
			c.ReleaseLease()
			if c.Arrival != nil { // the tool can differ from the earlier tool
				c.Arrival.Leave()
				c.Arrival = nil
			}
			p.resolve(p.parse())
		}
	}
	settle := p.unsettled || changed
	p.unsettled = false
	if settle && c.Identity.Answer == nil {
		c.Ticket.Settle(p.claim()) // now the route and the directory are known
	}
}

// lock locks the session for a call that can change it. The lock prevents concurrent changes by other processes. The
// result "renewed" reports whether another process can have changed the session since the last call in this process.
// The lock is released at the end of the call.
func (p *Pending) lock(ctx context.Context) (renewed bool, err error) {
	if !p.exclusive {
		return false, nil
	}
	c := &p.call
	release, fresh, err := p.d.turns.Locks.Take(ctx, c.Request.Session.ID, p.label, func(h state.Holder) {
		c.Outcome.Waited = true
		c.WaitFor(h.String() + ", which uses the same session")
		c.Client.Progress("waits for "+c.WaitsFor(), map[string]any{
			"activity": "waits for " + c.WaitsFor(), "holder_pid": h.PID,
		})
	})
	switch {
	case ctx.Err() != nil:
		if err == nil {
			release()
		}
		return false, ctx.Err()
	case err != nil: // continue, because calls must be able to free space on a full disk
		p.d.turns.Log.Warn("a session is not locked: other processes that use it at the same time can lose its state", "session", c.Request.Session.ID, "why", err)
		return true, nil
	}
	c.WaitFor("")
	p.unlock = release
	if fresh {
		if err := p.d.state.Recover(); err != nil { // the last holder of the lock can have been killed
			p.d.turns.Log.Warn("a host was killed, and its last changes of the session can be missing", "session", c.Request.Session.ID, "why", err)
		}
	}
	return fresh, nil
}

// park releases the turn and the lock of the call while it waits for a person who may never answer. The caller must
// call back, which takes them again. If the session has changed since the question, the call must not run, because the
// answer is about the session before the change.
func (p *Pending) park() (back func(context.Context) error) {
	c, locked := &p.call, p.unlock != nil
	before, unread := p.condition()
	returns := c.Ticket.Park()
	p.release()
	return func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, p.d.turns.Limits.Wait())
		defer cancel()
		err := returns(limited)
		if err == nil && locked {
			_, err = p.lock(limited)
		}
		if err != nil {
			return p.d.turns.Limits.NotStarted(ctx, c, err, "other calls after the answer").Error
		}
		now, err := p.condition()
		switch {
		case err != nil || unread != nil:
			return errors.Join(err, unread)
		case now != before:
			return tool.Errorf(tool.Conflict, "%s was allowed, but other calls changed the session while the question was open, so it was not carried out. Call it again.", c.Name())
		}
		c.Outcome.Waited = true
		return nil
	}
}

// condition returns what a command depends on besides files: the directory of the session and the plugin's state.
func (p *Pending) condition() (string, error) {
	id := p.call.Request.Session.ID
	s, _, err := p.d.state.Session(id)
	if err != nil {
		return "", err
	}
	state, err := p.d.state.PluginState(id, p.call.Identity.Tool.Plugin)
	return s.Cwd + "\x00" + string(state), err
}

// release releases the lock of the session.
func (p *Pending) release() {
	if p.unlock != nil {
		p.unlock()
		p.unlock = nil
	}
}

// renew loads the current session. If the session cannot be read, renew sets the call's result and returns false.
func (p *Pending) renew() bool {
	s := &p.call.Request.Session
	now, known, err := p.d.state.Session(s.ID)
	if err != nil {
		p.call.Identity.Answer = call.Refused(fmt.Errorf("the session %s cannot be read: %w", s.ID, err))
		return false
	}
	if known {
		s.Session = now
	}
	p.complete()
	return true
}
