package dispatch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/sessionlock"
)

// DefaultMaxWait limits the time that a call waits for other calls.
const DefaultMaxWait = 2 * time.Minute

// renewAfter limits the wait after which a call can use the session that it loaded earlier. After a longer wait, it
// always loads the session again, because the session's directory can be gone.
const renewAfter = time.Second

// The method "turn" waits for the call's turn in its session. If the call waited for calls that can change the session, turn
// loads the session again, because earlier calls can change the working directory and the roots. If the route depends
// on the directory, turn also determines the route again. Hooks, path checks and the policy run after turn, so they
// always use the current directory. If the call cannot run, turn sets the call's result.
func (p *Pending) turn(ctx context.Context) {
	c := &p.call
	c.EnterPhase(p.d.Tracer, "wait")
	defer c.EnterPhase(p.d.Tracer, "")
	c.Outcome.Waited = c.Ticket.Waits()
	limited := ctx
	if c.Outcome.Waited || p.exclusive { // a call that does not wait needs no timer, because it starts at once
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, p.d.maxWait())
		defer cancel()
	}
	done, err := c.Ticket.Wait(limited)
	if err != nil {
		waited := c.Ticket.WaitedFor()
		c.Ticket = nil // the method Wait ended the ticket
		c.Identity.Answer = p.d.notStarted(ctx, c, err, waited.String())
		return
	}
	c.Start(done)
	renewed, err := p.lock(limited)
	if err != nil {
		c.Identity.Answer = p.d.notStarted(ctx, c, err, c.WaitsFor())
		return
	}
	// Otherwise the session is unchanged since Begin: the call started at once, or it only waited for calls that read.
	changed := renewed || c.Outcome.Waited && (c.Ticket.Follows() || time.Since(c.Identity.Started) > renewAfter)
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
// result "renewed" reports whether another process can have changed the session since the last call in this process. The
// lock is released at the end of the call.
func (p *Pending) lock(ctx context.Context) (renewed bool, err error) {
	if !p.exclusive {
		return false, nil
	}
	c := &p.call
	release, fresh, err := p.d.Locks.Take(ctx, c.Request.Session.ID, p.label, func(h sessionlock.Holder) {
		c.Outcome.Waited = true
		c.WaitFor(h.String() + ", which uses the same session")
		c.Client.Progress("waits for "+c.WaitsFor(), map[string]any{"activity": "waits for " + c.WaitsFor(), "holder_pid": h.PID})
	})
	switch {
	case ctx.Err() != nil:
		if err == nil {
			release()
		}
		return false, ctx.Err()
	case err != nil: // continue, because calls must be able to free space on a full disk
		p.d.logger().Warn("a session is not locked: other processes that use it at the same time can lose its state", "session", c.Request.Session.ID, "why", err)
		return true, nil
	}
	c.WaitFor("")
	c.Hold(release)
	if fresh {
		if err := p.d.State.Recover(); err != nil { // the last holder of the lock can have been killed
			p.d.logger().Warn("a host was killed, and its last changes of the session can be missing", "session", c.Request.Session.ID, "why", err)
		}
	}
	return fresh, nil
}

// renew loads the current session. If the session cannot be read, renew sets the call's result and returns false.
func (p *Pending) renew() bool {
	c := &p.call
	if c.Request.Renew == nil {
		return true
	}
	s, err := c.Request.Renew(c.Request.Session)
	if err != nil {
		c.Identity.Answer = call.Refused(err)
		return false
	}
	c.Request.Session = s
	return true
}

// notStarted returns the result of a call that ended while it waited. The argument "err" is the reason for the end. The
// argument "waitedFor" is empty if the call ended before it had to wait for anything.
func (d *Dispatcher) notStarted(ctx context.Context, c *Call, err error, waitedFor string) *tool.Result {
	waitedFor = cmp.Or(waitedFor, "its turn")
	switch {
	case ctx.Err() != nil:
		err = canceledBefore(ctx, c, waitedFor)
	case errors.Is(err, context.DeadlineExceeded):
		err = tool.Errorf(tool.Timeout, "%s did not start, because it waited longer than %s for %s. Nothing was run. Try again later, or raise the limit in the configuration: host { max_wait = \"…\" }.",
			c.Name(), d.maxWait(), waitedFor)
	}
	res := call.Refused(err)
	res.Run.QueueTime = time.Since(c.Identity.Started)
	return res
}

// notPermitted returns the result of a call that a hook or a rule denied. If the caller ended the call during the
// decision, the result reports this instead.
func notPermitted(ctx context.Context, c *Call, err error) *tool.Result {
	if ctx.Err() != nil {
		err = canceledBefore(ctx, c, "hooks or a person's answer")
	}
	return call.Refused(err)
}

// canceledBefore returns the error of a call that its caller ended during a wait.
func canceledBefore(ctx context.Context, c *Call, waitedFor string) *tool.Error {
	if errors.Is(context.Cause(ctx), ErrStopped) {
		return tool.Errorf(tool.Canceled, "%s did not start, because the host was stopped while it waited for %s. Nothing was run. Call it again when a host runs.", c.Name(), waitedFor)
	}
	kind := canceled(ctx, c.Name()).Kind
	return tool.Errorf(kind, "%s did not start, because its caller ended it while it waited for %s. Nothing was run.", c.Name(), waitedFor)
}

func (d *Dispatcher) maxWait() time.Duration {
	if d.MaxWait > 0 {
		return d.MaxWait
	}
	return DefaultMaxWait
}
