package tool

import (
	"context"
	"encoding/json"
)

// CapabilityHooks of a plugin: it implements [Hook], for the hooks that the operator's
// configuration has it serve.
const CapabilityHooks = "hooks"

// HookEvent is what a hook is called for.
type HookEvent string

// The events.
const (
	// HookRegister: a tool can be called from now on. The answer does not count.
	HookRegister HookEvent = "register"
	// HookUnregister: a tool can no longer be called. The answer does not count.
	HookUnregister HookEvent = "unregister"
	// HookBefore: a call is about to be judged by the rules. The answer may veto it or change
	// its arguments.
	HookBefore HookEvent = "before_call"
	// HookAfter: a call has run. The answer may change its result or withhold it.
	HookAfter HookEvent = "after_call"
)

// Hook is told of tools and calls. Implementations are safe for concurrent use.
type Hook interface {
	// Hook must return soon after ctx ends. A nil answer leaves everything as it is. An error
	// is a failure of the hook, which vetoes the call unless the operator says otherwise.
	Hook(ctx context.Context, in *HookInput) (*HookAnswer, error)
}

// HookInput is what a hook is told. It must not be changed.
type HookInput struct {
	Event HookEvent
	// Hook is the name under which it is configured.
	Hook string
	// Tool is the full name: "bash", "jira:search".
	Tool string
	// Definition of the tool, for HookRegister; else nil.
	Definition *Definition

	// The rest is of a call, and empty for other events.

	CallID, MessageID, SessionID string
	// Cwd and Workspace of the session, absolute.
	Cwd, Workspace string
	// Arguments is a JSON object that satisfies the tool's input schema: for HookAfter, as the
	// call was run.
	Arguments json.RawMessage
	// Result, for HookAfter; else nil.
	Result *Result
}

// HookDecision is what a hook makes of a call.
type HookDecision string

// The decisions.
const (
	HookProceed HookDecision = ""     // the rules decide
	HookDeny    HookDecision = "deny" // for HookAfter: the result is withheld
	HookAsk     HookDecision = "ask"  // a person decides; only for HookBefore
)

// HookAnswer is what a hook says of a call.
type HookAnswer struct {
	Decision HookDecision
	// Reason of a denial or an ask, for who made the call.
	Reason string
	// Arguments, for HookBefore, take the place of the call's, all of them; nil: they stay.
	// They are checked as any are.
	Arguments json.RawMessage
	// Result, for HookAfter, takes the place of what a caller sees of the call's: output or
	// error, title, metadata, data and attachments; nil: it stays.
	Result *Result
}
