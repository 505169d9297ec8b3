// Package stage implements stages of a call. A [Stage] wraps all later stages, so it can act before and after them.
// Each stage is in a file of its name. Package dispatch has the stages that need more than the call, and package
// generation lists all stages in order.
package stage

import (
	"context"
	"errors"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// Handler runs the remaining stages of a call.
type Handler func(ctx context.Context, c *call.Call) *tool.Result

// Stage is a named step of each call. Wrap returns a handler that performs the step and then calls next. To end the
// call, a step returns without calling next. The zero value is the stage of a feature that is off.
type Stage struct {
	Name string
	Wrap func(next Handler) Handler
	// Always reports that the stage is also a stage of calls without a plugin, such as a request for help.
	Always bool
}

// Failed reports whether a call failed. A call that its client canceled did not fail.
func Failed(res *tool.Result) bool { return res.Error != nil && res.Error.Kind != tool.Canceled }

// NotPermitted returns the result of a call that a hook or a rule denied. If the caller ended the call during the
// decision, the result reports this instead.
func NotPermitted(ctx context.Context, c *call.Call, err error) *tool.Result {
	if ctx.Err() != nil {
		err = CanceledBefore(ctx, c, "hooks or a person's answer")
	}
	return call.Refused(err)
}

// CanceledBefore returns the error of a call that its caller ended during a wait.
func CanceledBefore(ctx context.Context, c *call.Call, waitedFor string) *tool.Error {
	if errors.Is(context.Cause(ctx), ErrStopped) {
		return tool.Errorf(tool.Canceled, "%s did not start, because %w while it waited for %s. Nothing was run. Call it again when a host runs.", c.Name(), ErrStopped, waitedFor)
	}
	kind := Canceled(ctx, c.Name()).Kind
	return tool.Errorf(kind, "%s did not start, because %s ended it while it waited for %s. Nothing was run.", c.Name(), canceler(ctx), waitedFor)
}

// canceler returns who canceled the context of a call.
func canceler(ctx context.Context) string {
	var person *call.CanceledError
	if errors.As(context.Cause(ctx), &person) {
		return person.By
	}
	return "its caller"
}

// ErrStopped is [call.ErrStopped].
var ErrStopped = call.ErrStopped

// Canceled returns the error of a call whose caller ended it. The caller's own deadline counts as a timeout.
func Canceled(ctx context.Context, name string) *tool.Error {
	if errors.Is(context.Cause(ctx), ErrStopped) {
		return tool.Errorf(tool.Canceled, "%s was stopped, because %w while it ran. Check what it did, and call it again when a host runs.", name, ErrStopped).From(tool.SourceHost)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tool.Errorf(tool.Timeout, "%s was stopped, because the caller's own deadline passed. Allow more time, or ask for less.", name).From(tool.SourceHost)
	}
	return tool.Errorf(tool.Canceled, "%s was canceled by %s and stopped.", name, canceler(ctx)).From(tool.SourceHost)
}
