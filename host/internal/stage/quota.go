package stage

import (
	"context"
	"errors"
	"fmt"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/quota"
)

// Quotas refuses calls that are over a limit of their field or of their principal. A call of a field counts at every
// depth, because commands can call fields. For a principal, only the calls that the principal itself makes are counted.
// The child calls of these calls are not counted.
func Quotas(set *quota.Set, rules quota.Rules) Stage {
	if len(rules) == 0 || set == nil {
		return Stage{}
	}
	return Stage{Name: "quota", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result {
			pass, err := set.Enter(rules, subjects(c)...)
			if over := (*quota.OverError)(nil); errors.As(err, &over) {
				c.Outcome.Full = true
				return call.Refused(overQuota(rules, c, over))
			}
			res := next(ctx, c)
			pass.Leave(quota.Outcome{Bytes: callSize(c, res), Ran: c.Outcome.Ran, Failed: Failed(res), Down: down(res)})
			return res
		}
	}}
}

// subjects returns the subjects whose quotas apply to a call.
func subjects(c *call.Call) (out []quota.Subject) {
	if p := c.Request.Session.Principal; c.Identity.Depth == 0 && p != nil && p.Name != "" {
		out = append(out, quota.Principal(p.Name))
	}
	if ns := c.Identity.Tool.Namespace; ns != "" {
		out = append(out, quota.Field(ns))
	}
	return out
}

// overQuota returns the error for a call that a quota refuses.
func overQuota(rules quota.Rules, c *call.Call, over *quota.OverError) error {
	kind, name, _ := quota.ParseSubject(string(over.Subject))
	seconds := max(1, int(over.RetryAfter.Seconds()+0.5))
	what := fmt.Sprintf("the %s %s is over its quota, %s = %d", kind, name, over.Limit, over.Maximum)
	if over.Limit == "breaker" {
		what = fmt.Sprintf("the last %d calls of the %s %s failed, so its breaker is open", over.Maximum, kind, name)
	}
	err := tool.Errorf(tool.Unavailable, "%s was not run, because %s. Call it again in %d s. The operator changes the limit in the block quota %q.", c.Identity.Tool.FullName(), what, seconds, rules.Block(over.Subject))
	err.RetryAfter = over.RetryAfter
	return err
}

// callSize returns the number of bytes of the arguments and the result of a call.
func callSize(c *call.Call, res *tool.Result) int {
	n := len(c.Decision.Sent.Arguments) + len(res.Output) + len(res.Data)
	for _, a := range res.Attachments {
		n += len(a.Content)
	}
	return n
}

// down reports whether a call failed because its tool does not work.
func down(res *tool.Result) bool {
	return res.Error != nil &&
		(res.Error.Kind == tool.Unavailable || res.Error.Kind == tool.Timeout || res.Error.Kind == tool.Internal)
}
