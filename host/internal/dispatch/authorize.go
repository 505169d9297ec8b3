package dispatch

import (
	"context"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
)

// authorize applies the policy. The policy can deny the call, ask a person, or set arguments.
func (d *Dispatcher) authorize() Stage {
	return Stage{Name: "authorize", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *Call) *tool.Result {
			q := d.question(c)
			q.Person = c.Client.ReachesPerson()
			var err error
			asker := &previewer{Client: c.Client, d: d, call: c, run: next}
			c.Decision.Policy, err = d.Policy.Check(ctx, q, asker, c.Answers(d.State))
			if len(c.Decision.Policy.Rewritten) > 0 || c.Decision.Policy.Pinned {
				c.Decision.Arguments, c.Decision.Sent.Arguments = q.Args, call.Object(q.Args)
			}
			if later := answered(c); later != "" {
				c.Decision.Policy.Answered = later
			}
			if c.Request.Session.Later != nil { // a child call: what it did counts only if a person allows its parent
				c.Decision.Policy.Answered = strings.TrimPrefix(c.Decision.Policy.Answered+" in the preview of its parent", " ")
			}
			if asker.ran { // the audit log must show that the command ran, even if the person denied the call
				c.Decision.Policy.Answered += " after a preview"
			}
			if err != nil {
				return notPermitted(ctx, c, err)
			}
			if asker.result != nil {
				return asker.result
			}
			return next(ctx, c)
		}
	}}
}

// maxSession limits the age of files that count as created by the session. The limit is needed because a session can
// last for weeks, and the user also creates files in this time.
const maxSession = 24 * time.Hour

// question returns the request with which the policy decides about a call.
func (d *Dispatcher) question(c *Call) *policy.Request {
	q := c.Question()
	q.Answers = c.Answers(d.State)
	if q.Shell && d.Policy.Careful() {
		q.Since = d.State.Began(c.Request.Session.ID)
		if oldest := c.Identity.Started.Add(-maxSession); q.Since.IsZero() {
			q.Since = c.Identity.Started
		} else if q.Since.Before(oldest) {
			q.Since = oldest
		}
	}
	return q
}
