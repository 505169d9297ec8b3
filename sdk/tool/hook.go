package tool

import (
	"context"
	"encoding/json"
)

// CapabilityHooks is the capability of a plugin that implements [Hook]. The operator's configuration selects which
// hooks the plugin serves.
const CapabilityHooks = "hooks"

// HookEvent is the kind of event for which a hook is called.
type HookEvent string

// The values of [HookEvent].
const (
	// HookRegister means that a tool has become available. The hook's answer is ignored.
	HookRegister HookEvent = "register"
	// HookUnregister means that a tool is no longer available. The hook's answer is ignored.
	HookUnregister HookEvent = "unregister"
	// HookBefore occurs before the rules decide about a call. The hook's answer can refuse the call or change its
	// arguments.
	HookBefore HookEvent = "before_call"
	// HookAfter occurs after a call has run. The hook's answer can change or withhold the result.
	HookAfter HookEvent = "after_call"
)

// Hook receives events about tools and calls. Implementations must be safe for concurrent use.
type Hook interface {
	// Hook handles one event. It must return soon after ctx ends. A nil answer changes nothing. An error means that
	// the hook has failed. After an error, the call is refused unless the operator has configured otherwise.
	Hook(ctx context.Context, in *HookInput) (*HookAnswer, error)
}

// HookInput describes one event. A hook must not change it.
type HookInput struct {
	Event HookEvent
	// Hook is the name of the hook in the configuration.
	Hook string
	// Tool is the full name of the tool, such as "bash" or "jira:search".
	Tool string
	// Definition is the definition of the tool in a HookRegister event. It is nil in other events.
	Definition *Definition

	// The following fields describe the call. They are empty in HookRegister and HookUnregister events.

	CallID, MessageID, SessionID string
	// Cwd and Workspace are the absolute paths of the session's working directory and workspace.
	Cwd, Workspace string
	// Arguments is a JSON object that satisfies the tool's input schema. In a HookAfter event, it contains the
	// arguments with which the call ran.
	Arguments json.RawMessage
	// Result is the result of the call in a HookAfter event. It is nil in other events.
	Result *Result
}

// HookDecision is the decision of a hook about a call.
type HookDecision string

// The values of [HookDecision].
const (
	HookProceed HookDecision = ""     // continue with the call; the rules decide about it
	HookDeny    HookDecision = "deny" // refuse the call, or in a HookAfter event withhold its result
	HookAsk     HookDecision = "ask"  // ask a person to decide; valid only in a HookBefore event
)

// HookAnswer is the answer of a hook.
type HookAnswer struct {
	Decision HookDecision
	// Reason explains to the caller why the call is refused or a person is asked.
	Reason string
	// Arguments replaces all arguments of the call in a HookBefore event. The host checks the new arguments in the
	// same manner as the old ones. A nil Arguments means that the hook changes no arguments.
	Arguments json.RawMessage
	// Result replaces the result in a HookAfter event. It replaces only the fields that the caller receives: the output
	// or error, title, metadata, data and attachments. A nil Result means that the hook does not change the result.
	Result *Result
}
