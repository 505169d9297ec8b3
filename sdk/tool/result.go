package tool

import (
	"encoding/json"
	"maps"
	"time"
)

// Result is the result of a call.
type Result struct {
	// Output is the text for the model. It is ignored if Error is set.
	Output string
	// Error is the error of a failed call. It is nil if the call succeeded.
	Error *Error
	// Title is a short line that a user interface displays.
	Title string
	// Metadata is additional data for a user interface.
	Metadata map[string]any
	// Data is the structured result. It satisfies the tool's output schema. A failed call can also have data.
	Data        json.RawMessage
	Attachments []Attachment
	// Contents lists the parts of the result in their order, for clients of MCP. Nil means one part with the text,
	// followed by the attachments. The text of the result is the concatenation of the parts that have text, with a line
	// feed between them. A hook that changes the result removes Contents.
	Contents []Content

	// The following fields are for the host. The host does not pass them to callers.

	// Effects lists the files that the call read or changed.
	Effects []Effect
	// SessionState is data that the host passes to this plugin's next call in the session. A nil SessionState keeps
	// the previous data. The maximum size is 1 MiB. If it is a JSON object, its member "summary" can be a line of text
	// that the operator sees in the host's status.
	SessionState []byte
	// Cwd is the new working directory of the session. If Cwd is empty, the working directory stays the same.
	Cwd string

	// Run describes how the call ran. The host sets it.
	Run Run
}

// MetadataMCP is the key in [Result.Metadata] for the member _meta of a mounted MCP server's result.
const MetadataMCP = "_meta"

// Run describes how the host ran a call.
type Run struct {
	CallID        string
	Tool          string
	Role          Role // the role of the tool
	Plugin        string
	PluginVersion string
	// QueueTime is the time from the request to the start of the tool. ExecutionTime is the duration of the tool's
	// execution.
	QueueTime     time.Duration
	ExecutionTime time.Duration
	// Attempts is the number of times that the call ran. It is 1 without retries, and 0 if the call never ran.
	Attempts int
	CacheHit bool
	// TraceID is the hexadecimal ID of the call's trace. It is empty if the call has no trace.
	TraceID string
}

// Attachment is a file or an image that belongs to a result.
type Attachment struct {
	// Type is "file" or "image".
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
	// MediaType is a MIME type such as "image/png".
	MediaType string `json:"media_type,omitempty"`
	// Content is the content of the attachment. In JSON, it is encoded in base64. It can be empty if Path is set.
	Content []byte `json:"content,omitempty"`
}

// Operation is the operation that an [Effect] describes.
type Operation string

// The values of [Operation].
const (
	OpRead   Operation = "read"
	OpCreate Operation = "create"
	OpModify Operation = "modify"
	OpDelete Operation = "delete"
)

// Effect describes one file that a call has read or changed.
type Effect struct {
	Operation Operation
	// File is the state of the file after the operation. For OpDelete, File is the state before the operation.
	File FileState
	// HashBefore is the SHA-256 hash of the content before a change. It is nil for OpRead and OpCreate.
	HashBefore *[32]byte
}

// Failed returns the result of a call that failed with err. [AsError] determines the kind of the error.
func Failed(err error) *Result { return &Result{Error: AsError(err)} }

// Success reports whether the call succeeded.
func (r *Result) Success() bool { return r.Error == nil }

// resultJSON is the JSON form of a result. Success, output and error are always present. Exactly one of output and
// error is null.
type resultJSON struct {
	Success     bool            `json:"success"`
	Output      *string         `json:"output"`
	Error       *Error          `json:"error"`
	Title       string          `json:"title,omitempty"`
	Metadata    map[string]any  `json:"metadata,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	Attachments []Attachment    `json:"attachments,omitempty"`
}

// MarshalJSON returns the JSON form of a result. The object "metadata" contains the fields of [Run] under the names
// tool, plugin, plugin_version, call_id, execution_ms, queue_ms, attempts and cache_hit. A call in a trace also has
// trace_id. These fields replace metadata of the tool with the same names.
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
	m["call_id"], m["tool"], m["plugin"], m["plugin_version"] = r.Run.CallID, r.Run.Tool, r.Run.Plugin,
		r.Run.PluginVersion
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
