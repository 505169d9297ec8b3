package tool

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// CapabilityRelay is the capability of a plugin that implements [Relay]. Such a plugin offers features of MCP besides
// its tools.
const CapabilityRelay = "relay"

// CapabilityRequests is the capability of a host that passes the [ClientRequest] values of an [Ask] on to the client.
const CapabilityRequests = "requests"

// ItemKind is the kind of an [Item].
type ItemKind string

// The values of [ItemKind]. Prompts, resources and templates have definitions. The other kinds are abilities of a
// server, without definitions.
const (
	ItemPrompt       ItemKind = "prompt"
	ItemResource     ItemKind = "resource"
	ItemTemplate     ItemKind = "template"
	ItemCompletion   ItemKind = "completion"
	ItemLogging      ItemKind = "logging"
	ItemSubscription ItemKind = "subscription"
)

// Item is something that a plugin offers to clients of MCP besides its tools.
type Item struct {
	Kind ItemKind `json:"kind"`
	// Name is the name of a prompt, the URI of a resource, or a URI template.
	Name string `json:"name,omitempty"`
	// Definition is the item as MCP lists it.
	Definition json.RawMessage `json:"definition,omitempty"`
}

// FullName returns the name of the item in rules and in the audit log, such as "prompt/review".
func (i Item) FullName() string { return string(i.Kind) + "/" + i.Name }

// Defined returns the tools and the items as definitions. Callers compare these with the definitions of another
// version.
func (d *Description) Defined() []Definition {
	out := slices.Clone(d.Tools)
	for _, i := range d.Items {
		out = append(out, Definition{
			Name: i.FullName(), Description: string(i.Definition), Input: json.RawMessage(`{"type":"object"}`),
			Category: CategoryRelay,
		})
	}
	return out
}

// Relay is implemented by a [Plugin] with [CapabilityRelay].
type Relay interface {
	// Exchange carries out one request of a client of MCP. The method is in call.Method, and its parameters are in
	// call.Arguments. Result.Data is the result of the method.
	Exchange(ctx context.Context, call *Call, peer Peer) *Result
	// Listen calls notify for each notification that belongs to no call. It returns after ctx ends.
	Listen(ctx context.Context, notify func(Notification)) error
}

// MethodPing is a method of the host, which no client of MCP can send. A plugin for a mounted server answers it with a
// [Pong]. Other plugins answer with [NotFound].
const MethodPing = "toolhost/ping"

// Pong describes a mounted server that has answered a ping.
type Pong struct {
	// Protocol is the revision of MCP that the server speaks.
	Protocol string `json:"protocol"`
	// Name and Version are the name and version that the server reports.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Capabilities are the names of the capabilities that the server announces, such as "tools" and
	// "resources.subscribe". They are sorted. An older plugin sends none.
	Capabilities []string `json:"capabilities,omitempty"`
	// Tools, Prompts, Resources and Templates are the numbers of such items that the server has. They include items
	// that the operator does not offer to clients.
	Tools     int `json:"tools"`
	Prompts   int `json:"prompts"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
	// RoundTrip is the time between a request and its answer, in nanoseconds.
	RoundTrip time.Duration `json:"round_trip"`
}

// The methods of [Notification].
const (
	NotifyResourceUpdated  = "notifications/resources/updated"
	NotifyResourcesChanged = "notifications/resources/list_changed"
	NotifyPromptsChanged   = "notifications/prompts/list_changed"
	NotifyToolsChanged     = "notifications/tools/list_changed"
)

// metaKnown is the member of a result's metadata that [Subscribed] sets.
const metaKnown = "toolhost.dev/known"

// Subscribed returns the result of the method resources/subscribe. The argument "known" is true if the session already
// had the subscription before this request. In this case, the host knows that the session has missed no change.
func Subscribed(known bool) any {
	if !known {
		return struct{}{}
	}
	return map[string]any{"_meta": map[string]bool{metaKnown: true}}
}

// WasSubscribed reports whether a result of the method resources/subscribe says that the session already had the
// subscription.
func WasSubscribed(result json.RawMessage) bool {
	var r struct {
		Meta map[string]any `json:"_meta"`
	}
	return json.Unmarshal(result, &r) == nil && r.Meta[metaKnown] == true
}

// Notification is a notification of MCP.
type Notification struct {
	Method string
	Params json.RawMessage
	// SessionID is the session to which the notification belongs. Empty means all sessions.
	SessionID string
}

// ClientInfo describes the client of MCP that makes a call.
type ClientInfo struct {
	// Capabilities are the client's capabilities, as MCP defines them.
	Capabilities json.RawMessage
	// LogLevel is the lowest level of the log messages that the client wants. Empty means that it wants no log
	// messages.
	LogLevel string
	// Protocol is the revision of MCP that the client speaks.
	Protocol string
}

// The methods of [ClientRequest].
const (
	MethodElicit   = "elicitation/create"
	MethodSampling = "sampling/createMessage"
	MethodRoots    = "roots/list"
)

// ClientRequest is a request to the client that made a call.
type ClientRequest struct {
	// Key is the name of the request in the answer; see [Answer.Content].
	Key string `json:"key"`
	// Method is one of the constants above. Params are its parameters, as MCP defines them.
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// LogMessage is a log message for the client of MCP that made a call.
type LogMessage struct {
	// Level is a level of MCP, such as "info".
	Level  string
	Logger string
	Data   json.RawMessage
}

// Logger is implemented by a [Peer] that passes on log messages.
type Logger interface {
	Log(m LogMessage)
}

// Content is one part of a result; see [Result.Contents].
type Content struct {
	// Text is the number of bytes of the result's text that belong to this part.
	Text int
	// Attachment is the number of an attachment, beginning with 1. Zero means that the part is no attachment.
	Attachment int
	// Block is a content block as MCP defines it. If the part is an attachment or a text, Block contains only the
	// members that the attachment or the text does not have. Nil means no block.
	Block json.RawMessage
}
