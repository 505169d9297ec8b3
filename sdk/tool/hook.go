package tool

import (
	"context"
	"encoding/json"
)

// CapabilityHooks is the capability of a plugin that implements [Hook]. The operator's
// configuration selects the hooks that it serves.
const CapabilityHooks = "hooks"

// HookEvent is the event that a hook is called for.
type HookEvent string

// The events.
const (
	// HookRegister means that a tool can be called from now on. The answer is ignored.
	HookRegister HookEvent = "register"
	// HookUnregister means that a tool can no longer be called. The answer is ignored.
	HookUnregister HookEvent = "unregister"
	// HookBefore comes before the rules decide about a call. The answer may veto the call or
	// change its arguments.
	HookBefore HookEvent = "before_call"
	// HookAfter comes after a call has run. The answer may change its result or withhold it.
	HookAfter HookEvent = "after_call"
)

// Hook receives events about tools and calls. Implementations are safe for concurrent use.
type Hook interface {
	// Hook handles one event. It must return soon after ctx ends. A nil answer changes nothing. An
	// error is a failure of the hook, and vetoes the call unless the operator configured otherwise.
	Hook(ctx context.Context, in *HookInput) (*HookAnswer, error)
}

// HookInput is one event. A hook must not change it.
type HookInput struct {
	Event HookEvent
	// Hook is the name of the hook in the configuration.
	Hook string
	// Tool is the full name: "bash", "jira:search".
	Tool string
	// Definition is the definition of the tool for HookRegister, and nil for other events.
	Definition *Definition

	// The fields below belong to a call and are empty for other events.

	CallID, MessageID, SessionID string
	// Cwd and Workspace are absolute paths of the session.
	Cwd, Workspace string
	// Arguments is a JSON object that satisfies the tool's input schema. For HookAfter it holds
	// the arguments that the call ran with.
	Arguments json.RawMessage
	// Result is the result for HookAfter, and nil for other events.
	Result *Result
}

// HookDecision is the decision of a hook about a call.
type HookDecision string

// The decisions.
const (
	HookProceed HookDecision = ""     // the rules decide
	HookDeny    HookDecision = "deny" // the call is refused; for HookAfter, its result is withheld
	HookAsk     HookDecision = "ask"  // a person decides; only for HookBefore
)

// HookAnswer is the answer of a hook.
type HookAnswer struct {
	Decision HookDecision
	// Reason explains a denial or an ask to the caller.
	Reason string
	// Arguments replace all arguments of the call, for HookBefore. The host checks them like any
	// others. Nil keeps the call's arguments.
	Arguments json.RawMessage
	// Result replaces what the caller sees, for HookAfter: output or error, title, metadata, data
	// and attachments. Nil keeps the call's result.
	Result *Result
}
