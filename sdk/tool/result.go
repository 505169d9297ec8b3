package tool

import (
	"encoding/json"
	"maps"
	"time"
)

// Result is what a call gives back.
type Result struct {
	// Output is the text for the model. Ignored when Error is set.
	Output string
	// Error is set exactly when the call failed.
	Error *Error
	// Title is a short line for a user interface.
	Title string
	// Metadata is for a user interface.
	Metadata map[string]any
	// Data is the structured result, as the tool's output schema says; a failed
	// call may have it too.
	Data        json.RawMessage
	Attachments []Attachment

	// The rest is between a tool and the host; callers do not see it.

	// Effects tell what was read and changed.
	Effects []Effect
	// SessionState, when not nil, is kept by the host and given to this plugin's
	// next call in the session. At most 1 MiB.
	SessionState []byte
	// Cwd, when not empty, is the session's working directory from now on.
	Cwd string

	// Run is filled in by the host.
	Run Run
}

// Run is what the host knows about how a call ran.
type Run struct {
	CallID        string
	Tool          string
	Plugin        string
	PluginVersion string
	// QueueTime is spent before the tool was asked; ExecutionTime by the tool.
	QueueTime     time.Duration
	ExecutionTime time.Duration
	// Attempts is 1 for a call that was not retried, 0 for one that never ran.
	Attempts int
	CacheHit bool
	// TraceID of the trace that the call is in, in hexadecimal; empty: none.
	TraceID string
}

// Attachment is a file or an image that goes with the text.
type Attachment struct {
	// Type is "file" or "image".
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
	// MediaType as in "image/png".
	MediaType string `json:"media_type,omitempty"`
	// Content, where it is sent along; base64 in JSON.
	Content []byte `json:"content,omitempty"`
}

// Operation of an [Effect].
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
	// File is the file afterwards; for OpDelete, before.
	File FileState
	// HashBefore is the SHA-256 before a change; nil for OpRead and OpCreate.
	HashBefore *[32]byte
}

// Failed makes the result of a call that failed with err.
func Failed(err error) *Result { return &Result{Error: AsError(err)} }

// Success reports whether the call did what it was asked.
func (r *Result) Success() bool { return r.Error == nil }

// resultJSON is the published form: success, output and error are always there,
// and exactly one of output and error is null.
type resultJSON struct {
	Success     bool            `json:"success"`
	Output      *string         `json:"output"`
	Error       *Error          `json:"error"`
	Title       string          `json:"title,omitempty"`
	Metadata    map[string]any  `json:"metadata,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	Attachments []Attachment    `json:"attachments,omitempty"`
}

// MarshalJSON returns the published form of a result. What the host knows (see
// [Run]) is in "metadata" under tool, plugin, plugin_version, call_id,
// execution_ms, queue_ms, attempts, cache_hit and, of one in a trace, trace_id, over anything a tool put there.
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
