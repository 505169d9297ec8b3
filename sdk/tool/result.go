package tool

import (
	"encoding/json"
	"maps"
	"time"
)

// Result is the result of a call.
type Result struct {
	// Output is the text for the model. Ignored when Error is set.
	Output string
	// Error is set if, and only if, the call failed.
	Error *Error
	// Title is a short line for a user interface.
	Title string
	// Metadata is for a user interface.
	Metadata map[string]any
	// Data is the structured result, which satisfies the tool's output schema. A failed call may
	// have data too.
	Data        json.RawMessage
	Attachments []Attachment

	// The fields below are for the host. Callers do not see them.

	// Effects are the files that the call read and changed.
	Effects []Effect
	// SessionState, if not nil, is kept by the host and passed to this plugin's next call in the
	// session. It has at most 1 MiB.
	SessionState []byte
	// Cwd, if not empty, becomes the session's working directory.
	Cwd string

	// Run is set by the host.
	Run Run
}

// Run describes how the host ran a call.
type Run struct {
	CallID        string
	Tool          string
	Plugin        string
	PluginVersion string
	// QueueTime is the time before the tool was called, ExecutionTime the time that the tool took.
	QueueTime     time.Duration
	ExecutionTime time.Duration
	// Attempts is 1 for a call that was not retried, and 0 for a call that never ran.
	Attempts int
	CacheHit bool
	// TraceID is the hexadecimal id of the call's trace. It is empty if there is no trace.
	TraceID string
}

// Attachment is a file or an image that goes with the text.
type Attachment struct {
	// Type is "file" or "image".
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
	// MediaType as in "image/png".
	MediaType string `json:"media_type,omitempty"`
	// Content may be empty if Path is set. It is base64 in JSON.
	Content []byte `json:"content,omitempty"`
}

// Operation is the kind of an [Effect].
type Operation string

// The operations.
const (
	OpRead   Operation = "read"
	OpCreate Operation = "create"
	OpModify Operation = "modify"
	OpDelete Operation = "delete"
)

// Effect is one file read or changed by a call.
type Effect struct {
	Operation Operation
	// File is the state after the operation, for OpDelete the state before it.
	File FileState
	// HashBefore is the SHA-256 before a change. It is nil for OpRead and OpCreate.
	HashBefore *[32]byte
}

// Failed returns the result of a call that failed with err. See [AsError] for its kind.
func Failed(err error) *Result { return &Result{Error: AsError(err)} }

// Success reports whether the call did what it was asked.
func (r *Result) Success() bool { return r.Error == nil }

// resultJSON is the published form. Success, output and error are always present, and exactly one
// of output and error is null.
type resultJSON struct {
	Success     bool            `json:"success"`
	Output      *string         `json:"output"`
	Error       *Error          `json:"error"`
	Title       string          `json:"title,omitempty"`
	Metadata    map[string]any  `json:"metadata,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	Attachments []Attachment    `json:"attachments,omitempty"`
}

// MarshalJSON returns the published form of a result. Its "metadata" holds what the host knows
// (see [Run]) under tool, plugin, plugin_version, call_id, execution_ms, queue_ms, attempts and
// cache_hit, and under trace_id for a call in a trace. These replace what the tool put there.
func (r *Result) MarshalJSON() ([]byte, error) {
	out := resultJSON{
		Success: r.Success(), Error: r.Error, Title: r.Title, Data: r.Data, Attachments: r.Attachments,
		Metadata: maps.Clone(r.Metadata),
	}
	if out.Metadata == nil {
		out.Metadata = make(map[string]any)
	}
	if r.Success() {
		out.Output = &r.Output
	}
	m := out.Metadata
	m["call_id"], m["tool"], m["plugin"], m["plugin_version"] = r.Run.CallID, r.Run.Tool, r.Run.Plugin, r.Run.PluginVersion
	m["execution_ms"], m["queue_ms"] = milliseconds(r.Run.ExecutionTime), milliseconds(r.Run.QueueTime)
	m["attempts"], m["cache_hit"] = r.Run.Attempts, r.Run.CacheHit
	if r.Run.TraceID != "" {
		m["trace_id"] = r.Run.TraceID
	} else {
		delete(m, "trace_id")
	}
	return json.Marshal(out)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
