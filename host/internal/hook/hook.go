// Package hook runs hooks before and after calls, and when tools appear or disappear.
//
// [Before] and [After] run the hooks of a [Set] for one call. Hooks of the embedding program, programs of the operator
// and plugins all implement [tool.Hook].
package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
)

// DefaultTimeout is the timeout for hooks without a timeout of their own.
const DefaultTimeout = 10 * time.Second

// clockGrace is the maximum expected difference between the clocks of two processes when a timeout ends.
const clockGrace = 100 * time.Millisecond

// Hook is a hook with settings that determine when the hook runs.
type Hook struct {
	// Name is the unique name of the hook. It appears in denials, in the audit log and in the metadata of results.
	Name string
	// On lists the events for which the hook runs. It must not be empty.
	On []tool.HookEvent
	// Tools contains globs for full tool names, such as "bash" and "jira:*". An empty list means all tools.
	Tools []string
	// Priority determines the order of the hooks for an event. The highest priority runs first. Hooks with equal
	// priority keep their order.
	Priority int
	// Timeout limits the duration of each run. Zero means [DefaultTimeout].
	Timeout time.Duration
	// AllowOnFailure permits the call if the hook fails or times out. By default, such a call is denied.
	AllowOnFailure bool
	// Place is the position of the hook in the configuration, as "file:line". It is empty for hooks of the embedding
	// program.
	Place string
	// Handler implements the hook. Several goroutines call it. At the timeout, the host continues even if Handler
	// ignores its context.
	Handler tool.Hook
}

// Check returns an error if the hook is invalid.
func (h *Hook) Check() error {
	switch {
	case h.Name == "":
		return errors.New("a hook has no name; set Name")
	case h.Handler == nil:
		return fmt.Errorf("hook %q: no handler; set Handler", h.Name)
	case len(h.On) == 0:
		return fmt.Errorf("hook %q: no event; use one of %q", h.Name, Events)
	}
	for _, e := range h.On {
		if !slices.Contains(Events, e) {
			return fmt.Errorf("hook %q: unknown event %q; use one of %q", h.Name, e, Events)
		}
	}
	for _, g := range h.Tools {
		if !doublestar.ValidatePattern(g) {
			return fmt.Errorf("hook %q: invalid glob %q; use *, ?, [a-z] and {a,b}", h.Name, g)
		}
	}
	return nil
}

// Events lists all events for which hooks can run.
var Events = []tool.HookEvent{tool.HookRegister, tool.HookUnregister, tool.HookBefore, tool.HookAfter}

func (h *Hook) matches(event tool.HookEvent, name string) bool {
	return slices.Contains(h.On, event) && (len(h.Tools) == 0 || slices.ContainsFunc(h.Tools, func(g string) bool {
		return doublestar.MatchUnvalidated(g, name)
	}))
}

// String returns the hook's name and position for error messages.
func (h *Hook) String() string {
	if h.Place == "" {
		return fmt.Sprintf("hook %q", h.Name)
	}
	return fmt.Sprintf("hook %q (%s)", h.Name, h.Place)
}

// call runs the hook with its timeout.
func (h *Hook) call(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	timeout := cmp.Or(h.Timeout, DefaultTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the hook took longer than %s", timeout))
	defer cancel()
	type outcome struct {
		answer *tool.HookAnswer
		err    error
	}
	done := make(chan outcome, 1)
	input := *in
	input.Hook = h.Name
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o = outcome{err: fmt.Errorf("the hook panicked: %v\n%s", p, debug.Stack())}
			}
			done <- o
		}()
		o.answer, o.err = h.Handler.Hook(limited, &input)
	}()
	select {
	case o := <-done:
		if o.err != nil && tool.AsError(o.err).Kind == tool.Timeout { // the hook's process can notice the timeout before the host
			select {
			case <-limited.Done():
			case <-time.After(clockGrace):
			}
		}
		if o.err != nil && limited.Err() != nil {
			return nil, context.Cause(limited)
		}
		if o.answer == nil {
			o.answer = new(tool.HookAnswer)
		}
		return o.answer, o.err
	case <-limited.Done():
		return nil, context.Cause(limited)
	}
}

// Outcomes of a hook before or after a call.
const (
	Changed = "changed"
	Denied  = "denied"
	Asked   = "asked"  // a person permitted the call
	Failed  = "failed" // the host ignored the failure of the hook
)

// Outcome describes the effect of a hook on a call.
type Outcome struct {
	Hook    string         `json:"hook"`
	Event   tool.HookEvent `json:"event"`
	Outcome string         `json:"outcome"`
	Reason  string         `json:"reason,omitempty"`
}

// String returns the outcome in one line.
func (o Outcome) String() string {
	s := fmt.Sprintf("%s %s %s", o.Hook, o.Event, o.Outcome)
	if o.Reason != "" {
		s += ": " + o.Reason
	}
	return s
}

// Set is an immutable, ordered set of hooks. It is safe for concurrent use. A nil Set is empty.
type Set struct{ hooks []Hook }

// New returns a set of hooks. The result is nil for an empty list.
func New(hooks []Hook) *Set {
	if len(hooks) == 0 {
		return nil
	}
	s := &Set{hooks: slices.Clone(hooks)}
	slices.SortStableFunc(s.hooks, func(a, b Hook) int { return cmp.Compare(b.Priority, a.Priority) })
	return s
}

// For returns the hooks that must run for an event of a tool.
func (s *Set) For(event tool.HookEvent, name string) []*Hook {
	if s == nil {
		return nil
	}
	var out []*Hook
	for i := range s.hooks {
		if s.hooks[i].matches(event, name) {
			out = append(out, &s.hooks[i])
		}
	}
	return out
}

// RefusalError reports that a hook denied a call or withheld its result.
type RefusalError struct {
	By     *Hook
	Reason string
	// Failed reports whether the hook failed. If Failed is false, the hook denied the call.
	Failed bool
}

func (r *RefusalError) Error() string {
	if r.Failed {
		return fmt.Sprintf("%s failed: %s. Fix the hook, or set on_failure = \"allow\" to ignore its failures", r.By, r.Reason)
	}
	return fmt.Sprintf("%s: %s", r.By, r.Reason)
}

// Caller contains functions that [Before] calls.
type Caller struct {
	// Check validates arguments that a hook changed and adds default values.
	Check func(args json.RawMessage) (json.RawMessage, error)
	// Ask asks a person to permit the call. If Ask returns an error, the call is denied.
	Ask func(ctx context.Context, by *Hook, args json.RawMessage, reason string) error
}

// Before runs the hooks before a call. If hooks changed the arguments, it returns the new arguments, otherwise nil. The
// error is a [RefusalError], or the reason why ctx ended.
func Before(ctx context.Context, hooks []*Hook, in tool.HookInput,
	caller Caller) (args json.RawMessage, log []Outcome, err error) {
	for _, h := range hooks {
		note := func(outcome, reason string) {
			log = append(log, Outcome{Hook: h.Name, Event: in.Event, Outcome: outcome, Reason: reason})
		}
		a, err := h.call(ctx, &in)
		var changed json.RawMessage
		if err == nil && a.Decision != tool.HookDeny && a.Arguments != nil {
			if changed, err = caller.Check(a.Arguments); err != nil {
				err = fmt.Errorf("the hook set invalid arguments: %w", err)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, log, context.Cause(ctx)
		case err != nil && h.AllowOnFailure:
			note(Failed, err.Error())
			continue
		case err != nil:
			note(Denied, err.Error())
			return nil, log, &RefusalError{By: h, Reason: err.Error(), Failed: true}
		}
		if changed != nil {
			in.Arguments, args = changed, changed
			note(Changed, "")
		}
		switch a.Decision {
		case tool.HookProceed:
		case tool.HookAsk:
			if err := caller.Ask(ctx, h, in.Arguments, a.Reason); err != nil {
				if ctx.Err() != nil {
					return nil, log, context.Cause(ctx)
				}
				note(Denied, err.Error())
				return nil, log, &RefusalError{By: h, Reason: err.Error()}
			}
			note(Asked, a.Reason)
		default: // treat an unknown decision as a denial
			reason := cmp.Or(a.Reason, "no reason given")
			note(Denied, reason)
			return nil, log, &RefusalError{By: h, Reason: reason}
		}
	}
	return args, log, nil
}

// After runs the hooks after a call. If hooks changed the result, it returns the new result, otherwise nil. The new
// result does not contain the fields that only the host can set. The error is a [RefusalError], or the reason why ctx
// ended.
func After(ctx context.Context, hooks []*Hook, in tool.HookInput) (res *tool.Result, log []Outcome, err error) {
	for _, h := range hooks {
		note := func(outcome, reason string) {
			log = append(log, Outcome{Hook: h.Name, Event: in.Event, Outcome: outcome, Reason: reason})
		}
		a, err := h.call(ctx, &in)
		if err == nil && a.Decision == tool.HookAsk {
			err = errors.New("the hook asks for permission after the call; return the decision \"ask\" only for the event before a call")
		}
		switch {
		case ctx.Err() != nil:
			return nil, log, context.Cause(ctx)
		case err != nil && h.AllowOnFailure:
			note(Failed, err.Error())
		case err != nil:
			note(Denied, err.Error())
			return nil, log, &RefusalError{By: h, Reason: err.Error(), Failed: true}
		case a.Decision != tool.HookProceed:
			reason := cmp.Or(a.Reason, "no reason given")
			note(Denied, reason)
			return nil, log, &RefusalError{By: h, Reason: reason}
		case a.Result != nil:
			in.Result, res = a.Result, a.Result
			note(Changed, "")
		}
	}
	return res, log, nil
}

// Notify runs a hook and ignores its answer.
func (h *Hook) Notify(ctx context.Context, in *tool.HookInput) error {
	_, err := h.call(ctx, in)
	return err
}
