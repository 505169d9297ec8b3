// Package hook has others take part in the life of tools and calls: the embedder, the
// operator's programs, and plugins. All of them are a [tool.Hook].
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

// DefaultTimeout of a hook.
const DefaultTimeout = 10 * time.Second

// clockGrace is how far two processes may be apart about when a time is over.
const clockGrace = 100 * time.Millisecond

// Hook is a hook with what decides when it is called.
type Hook struct {
	// Name, unique; it stands in refusals, in the audit log and in the metadata of results.
	Name string
	// On are the events it is called for; at least one.
	On []tool.HookEvent
	// Tools are globs over full names, such as "bash" and "jira:*"; none: it is about all tools.
	Tools []string
	// Priority among the hooks of an event; higher goes first. Those of the same go in the order
	// in which they are given.
	Priority int
	// Timeout of each time it is called; 0: [DefaultTimeout].
	Timeout time.Duration
	// AllowOnFailure has a call go on as if the hook were not there when it fails or takes too
	// long. Otherwise that refuses the call.
	AllowOnFailure bool
	// Place is where the operator configured it, as "file:line"; empty: it is the embedder's.
	Place string
	// Handler is called from several goroutines. One that does not heed its context is left
	// behind when its time is over.
	Handler tool.Hook
}

// Check says what keeps the hook from working.
func (h *Hook) Check() error {
	switch {
	case h.Name == "":
		return errors.New("a hook has no name")
	case h.Handler == nil:
		return fmt.Errorf("the hook %q has no handler", h.Name)
	case len(h.On) == 0:
		return fmt.Errorf("the hook %q is for no event: name one of %q", h.Name, Events)
	}
	for _, e := range h.On {
		if !slices.Contains(Events, e) {
			return fmt.Errorf("the hook %q is for an event %q, which there is not: use one of %q", h.Name, e, Events)
		}
	}
	for _, g := range h.Tools {
		if !doublestar.ValidatePattern(g) {
			return fmt.Errorf("the hook %q has a glob %q that is none: use *, ?, [a-z] and {a,b}", h.Name, g)
		}
	}
	return nil
}

// Events lists those there are.
var Events = []tool.HookEvent{tool.HookRegister, tool.HookUnregister, tool.HookBefore, tool.HookAfter}

func (h *Hook) about(event tool.HookEvent, name string) bool {
	return slices.Contains(h.On, event) && (len(h.Tools) == 0 || slices.ContainsFunc(h.Tools, func(g string) bool { return doublestar.MatchUnvalidated(g, name) }))
}

// String names the hook to who reads a refusal.
func (h *Hook) String() string {
	if h.Place == "" {
		return fmt.Sprintf("hook %q", h.Name)
	}
	return fmt.Sprintf("hook %q (%s)", h.Name, h.Place)
}

// call has the hook answer in its time.
func (h *Hook) call(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	timeout := cmp.Or(h.Timeout, DefaultTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it took longer than %s", timeout))
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
				o = outcome{err: fmt.Errorf("it panicked: %v\n%s", p, debug.Stack())}
			}
			done <- o
		}()
		o.answer, o.err = h.Handler.Hook(limited, &input)
	}()
	select {
	case o := <-done:
		if o.err != nil && tool.AsError(o.err).Kind == tool.Timeout { // another process may have looked at its clock first
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

// What a hook can have done.
const (
	Changed = "changed"
	Denied  = "denied"
	Asked   = "asked"  // and the person agreed
	Failed  = "failed" // and did not count
)

// Outcome is what a hook did to a call.
type Outcome struct {
	Hook    string         `json:"hook"`
	Event   tool.HookEvent `json:"event"`
	Outcome string         `json:"outcome"`
	Reason  string         `json:"reason,omitempty"`
}

// String is the outcome in one line.
func (o Outcome) String() string {
	s := fmt.Sprintf("%s %s %s", o.Hook, o.Event, o.Outcome)
	if o.Reason != "" {
		s += ": " + o.Reason
	}
	return s
}

// Set is hooks in their order. It is not changed, and safe for concurrent use; nil: none.
type Set struct{ hooks []Hook }

// New makes a set; nil when there are no hooks.
func New(hooks []Hook) *Set {
	if len(hooks) == 0 {
		return nil
	}
	s := &Set{hooks: slices.Clone(hooks)}
	slices.SortStableFunc(s.hooks, func(a, b Hook) int { return cmp.Compare(b.Priority, a.Priority) })
	return s
}

// For gives the hooks of an event of a tool.
func (s *Set) For(event tool.HookEvent, name string) []*Hook {
	if s == nil {
		return nil
	}
	var out []*Hook
	for i := range s.hooks {
		if s.hooks[i].about(event, name) {
			out = append(out, &s.hooks[i])
		}
	}
	return out
}

// RefusalError is why a hook keeps a call from being made, or its result from being seen.
type RefusalError struct {
	By     *Hook
	Reason string
	// Failed: it was not the hook's answer.
	Failed bool
}

func (r *RefusalError) Error() string {
	if r.Failed {
		return fmt.Sprintf("%s failed, and what it cannot judge is refused: %s. Mend it; on_failure = \"allow\" does without it", r.By, r.Reason)
	}
	return fmt.Sprintf("%s: %s", r.By, r.Reason)
}

// Caller is who made the call, as far as hooks before it concern it.
type Caller struct {
	// Check completes changed arguments, or says what is wrong with them.
	Check func(args json.RawMessage) (json.RawMessage, error)
	// Ask asks a person; the error says why the call is not to be made.
	Ask func(ctx context.Context, by *Hook, args json.RawMessage, reason string) error
}

// Before has the hooks judge a call. It gives the arguments they changed it to; nil: they did
// not. The error is a [RefusalError], or the end of ctx.
func Before(ctx context.Context, hooks []*Hook, in tool.HookInput, caller Caller) (args json.RawMessage, log []Outcome, err error) {
	for _, h := range hooks {
		note := func(outcome, reason string) {
			log = append(log, Outcome{Hook: h.Name, Event: in.Event, Outcome: outcome, Reason: reason})
		}
		a, err := h.call(ctx, &in)
		var changed json.RawMessage
		if err == nil && a.Decision != tool.HookDeny && a.Arguments != nil {
			if changed, err = caller.Check(a.Arguments); err != nil {
				err = fmt.Errorf("it gave the call arguments that are not valid: %w", err)
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
		default: // a decision that is not known must not let a call pass
			reason := cmp.Or(a.Reason, "it gave no reason")
			note(Denied, reason)
			return nil, log, &RefusalError{By: h, Reason: reason}
		}
	}
	return args, log, nil
}

// After has the hooks see a result. It gives the one they changed it to, which has nothing of
// what only the host is told; nil: they did not. The error is a [RefusalError], or the end of ctx.
func After(ctx context.Context, hooks []*Hook, in tool.HookInput) (res *tool.Result, log []Outcome, err error) {
	for _, h := range hooks {
		note := func(outcome, reason string) {
			log = append(log, Outcome{Hook: h.Name, Event: in.Event, Outcome: outcome, Reason: reason})
		}
		a, err := h.call(ctx, &in)
		if err == nil && a.Decision == tool.HookAsk {
			err = errors.New("it wants to ask, which is too late after a call")
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
			reason := cmp.Or(a.Reason, "it gave no reason")
			note(Denied, reason)
			return nil, log, &RefusalError{By: h, Reason: reason}
		case a.Result != nil:
			in.Result, res = a.Result, a.Result
			note(Changed, "")
		}
	}
	return res, log, nil
}

// Tell calls a hook whose answer does not count.
func (h *Hook) Tell(ctx context.Context, in *tool.HookInput) error {
	_, err := h.call(ctx, in)
	return err
}
