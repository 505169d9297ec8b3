package dispatch

import (
	"context"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/state"
)

// Permissions decides whether a call is permitted. Its fields must not change after the first call.
type Permissions struct {
	Policy *policy.Policy
	State  *state.DB
	Host   Host
}

// Authorize applies the policy. The policy can deny the call, ask a person, or set arguments.
func (p *Permissions) Authorize() Stage {
	return Stage{Name: "authorize", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			q := question(c, p.Policy, p.State)
			q.Person = c.Client.ReachesPerson()
			var err error
			asker := &previewer{Client: c.Client, permissions: p, call: c, run: next}
			c.Decision.Policy, err = p.Policy.Check(ctx, q, asker, c.Answers(p.State))
			if len(c.Decision.Policy.Rewritten) > 0 || c.Decision.Policy.Pinned {
				c.Decision.Arguments, c.Decision.Sent.Arguments = q.Args, call.Object(q.Args)
			}
			if later := answered(c); later != "" {
				c.Decision.Policy.Answered = later
			}
			if c.Request.Session.Later != nil { // a child call: what it did counts only if a person allows its parent
				c.Decision.Policy.Answered = strings.TrimPrefix(c.Decision.Policy.Answered+
					" in the preview of its parent", " ")
			}
			if asker.ran { // the audit log must show that the command ran, even if the person denied the call
				c.Decision.Policy.Answered += " after a preview"
			}
			if asker.stopped {
				var stop context.CancelCauseFunc
				ctx, stop = context.WithCancelCause(ctx)
				stop(call.ErrStopped)
			}
			switch {
			case err != nil && ctx.Err() != nil && asker.ran:
				return call.Refused(canceledPreview(ctx, c))
			case err != nil:
				return stage.NotPermitted(ctx, c, err)
			}
			if asker.result != nil {
				return asker.result
			}
			return next(ctx, c)
		}
	}}
}

// canceledPreview returns the error of a call that was ended before its preview was answered.
func canceledPreview(ctx context.Context, c *Call) *tool.Error {
	err := stage.Canceled(ctx, c.Name())
	err.Message += " It ran on a copy of the files, so that a person could see the changes before they are made. No file of the workspace was changed, but what it did in the network, to other processes or in /tmp is done."
	return err
}

// maxSession limits the age of files that count as created by the session. The limit is needed because a session can
// last for weeks, and the user also creates files in this time.
const maxSession = 24 * time.Hour

// Since returns the start of the session of a call. It is zero if the policy does not need it.
func (p *Permissions) Since(c *Call) time.Time { return question(c, p.Policy, p.State).Since }

// question returns the request with which the policy decides about a call.
func question(c *Call, p *policy.Policy, db *state.DB) *policy.Request {
	q := c.Question()
	q.Answers = c.Answers(db)
	if q.Shell && p.Careful() {
		q.Since = db.Began(c.Request.Session.ID)
		if oldest := c.Identity.Started.Add(-maxSession); q.Since.IsZero() {
			q.Since = c.Identity.Started
		} else if q.Since.Before(oldest) {
			q.Since = oldest
		}
	}
	return q
}
