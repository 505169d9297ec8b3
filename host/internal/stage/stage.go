// Package stage defines the stages of a call. A stage wraps all later stages, so it can act before and after them.
// Package dispatch lists the stages in order. Stages that need little of package dispatch are in packages below this
// one.
package stage

import (
	"context"

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
