// Package tape reads and writes tapes. A tape is a recording of calls at the boundary between a host and its plugins,
// with the files of the workspace at the beginning. Most callers want [Open] and [Compare].
//
// A tape is a text of JSON Lines, one [Header], any number of other entries, and an [End]. Each line contains a hash of
// all lines before it and of its own content. Open therefore refuses a tape that was truncated or changed by accident,
// and names the line. The hashes are no signature: anybody can make a tape with other content and correct hashes.
//
// Paths inside of the workspace begin with [Workspace] in a tape, so that a tape can be replayed elsewhere.
package tape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"toolhost.dev/sdk/tool"
)

// Format is the version of the format of tapes. A reader refuses tapes with a later version.
const Format = 1

// Workspace stands for the path of the workspace in a tape.
const Workspace = "{workspace}"

// Kinds of entries.
const (
	kindHeader  = "header"
	kindBlob    = "blob"
	kindFile    = "file"
	kindTool    = "tool"
	kindSession = "session"
	kindCall    = "call"
	kindEnd     = "end"
)

// Header is the first entry of a tape.
type Header struct {
	Format int `json:"format"`
	// Host is the version of the host that recorded.
	Host string `json:"host"`
	// Workspace is the path that [Workspace] stands for.
	Workspace string    `json:"workspace"`
	Began     time.Time `json:"began"`
	// LeftOut describes files of the workspace that the tape does not contain, with the reason.
	LeftOut []string `json:"left_out,omitempty"`
}

// File is a file of the workspace when the recording began.
type File struct {
	// Path is relative to the workspace, with slashes.
	Path string `json:"path"`
	// Mode contains the permissions, in octal.
	Mode    string    `json:"mode,omitempty"`
	ModTime time.Time `json:"mod_time,omitzero"`
	// Link is the target of a symbolic link. Directory reports whether the file is a directory. Otherwise, Content is
	// the SHA-256 of the content, which is in a blob entry.
	Link      string `json:"link,omitempty"`
	Directory bool   `json:"directory,omitempty"`
	Content   string `json:"content,omitempty"`
}

// Tool is a tool as it was when its first call was recorded.
type Tool struct {
	// Plugin is the name of the plugin's block in the configuration.
	Plugin     string          `json:"plugin"`
	Namespace  string          `json:"namespace,omitempty"`
	Definition tool.Definition `json:"definition"`
}

// FullName returns the name of the tool in calls, such as "read" or "jira:search".
func (t *Tool) FullName() string {
	if t.Namespace == "" {
		return t.Definition.Name
	}
	return t.Namespace + ":" + t.Definition.Name
}

// FileState is a file that a session knew at its first recorded call.
type FileState struct {
	Path string `json:"path"`
	Hash string `json:"hash"`
	// Partial reports that the session knew only a part of the file.
	Partial bool `json:"partial,omitempty"`
}

// Session is the state of a session at its first recorded call.
type Session struct {
	ID    string      `json:"id"`
	Cwd   string      `json:"cwd"`
	Files []FileState `json:"files,omitempty"`
	// States maps each plugin to the data that it stored in the session.
	States map[string]Bytes `json:"states,omitempty"`
}

// Bytes is data. In JSON, data in UTF-8 is a readable text, and all other data is encoded in base64.
type Bytes []byte

// MarshalJSON implements json.Marshaler.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return json.Marshal(map[string]string{"text": string(b)})
	}
	return json.Marshal(map[string][]byte{"data": b})
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	var v struct {
		Text string
		Data []byte
	}
	err := json.Unmarshal(raw, &v)
	if *b = v.Data; v.Data == nil {
		*b = Bytes(v.Text)
	}
	return err
}

// Relocate returns a copy of a value of a tape. In every text of the copy, the path "to" replaces the path "from".
func Relocate[T any](v T, from, to string) (T, error) {
	var out T
	raw, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	quoted := func(s string) []byte {
		b, _ := json.Marshal(s) // no error is possible for a string
		return b[1 : len(b)-1]
	}
	err = json.Unmarshal(bytes.ReplaceAll(raw, quoted(from), quoted(to)), &out)
	return out, err
}

// Event is something that a tool sent during a call.
type Event struct {
	// At is the time since the beginning of the call, in milliseconds.
	At int64 `json:"at_ms"`
	// Kind is "output", "progress" or "ask".
	Kind string `json:"kind"`
	// Stream is the stream of an output. Text is the chunk of an output, or the title of a progress report or an ask.
	Stream string `json:"stream,omitempty"`
	Text   string `json:"text,omitempty"`
	// Outcome is the answer to an ask.
	Outcome string `json:"outcome,omitempty"`
}

// Effect is a file that a call read or changed.
type Effect struct {
	Operation tool.Operation `json:"operation"`
	Path      string         `json:"path"`
	// Hash is the SHA-256 of the content after the call. It is empty for a removed file.
	Hash string `json:"hash,omitempty"`
}

// Result is the result of a call.
type Result struct {
	Output      string            `json:"output,omitempty"`
	Error       *tool.Error       `json:"error,omitempty"`
	Title       string            `json:"title,omitempty"`
	Data        json.RawMessage   `json:"data,omitempty"`
	Attachments []tool.Attachment `json:"attachments,omitempty"`
	Effects     []Effect          `json:"effects,omitempty"`
	Cwd         string            `json:"cwd,omitempty"`
}

// Call is a recorded call. The entries of a tape are in the order in which the calls ended.
type Call struct {
	ID string `json:"id"`
	// Parent is the ID of the call whose command made this call. It is empty for a call of a client.
	Parent  string `json:"parent,omitempty"`
	Session string `json:"session"`
	// Tool is the full name of the tool. Definition is the hash of its definition; see [Hash].
	Tool          string          `json:"tool"`
	Definition    string          `json:"definition"`
	Plugin        string          `json:"plugin"`
	PluginVersion string          `json:"plugin_version,omitempty"`
	Arguments     json.RawMessage `json:"arguments"`
	Cwd           string          `json:"cwd"`
	Roots         []tool.Root     `json:"roots,omitempty"`
	// Masked reports that a secret in the arguments or in the result was masked. The call cannot be replayed exactly.
	Masked bool      `json:"masked,omitempty"`
	Began  time.Time `json:"began"`
	// Duration is the time that the tool took, in milliseconds.
	Duration int64   `json:"duration_ms"`
	Events   []Event `json:"events,omitempty"`
	Result   Result  `json:"result"`
}

// End is the last entry of a tape.
type End struct {
	// Calls is the number of calls in the tape.
	Calls int `json:"calls"`
}

// Hash returns a hash of the parts of a definition that affect calls. It ignores the version and the parts that are
// only for people.
func Hash(d *tool.Definition) string {
	c := *d
	c.Version, c.Icons, c.Title, c.OriginalName, c.Keywords, c.Role, c.Program = "", nil, "", "", nil, "", nil
	b, err := json.Marshal(&c)
	if err != nil { // impossible: definitions are made from JSON
		return ""
	}
	return sum("", b)
}

// NewResult returns a result in the form of a tape.
func NewResult(r *tool.Result) Result {
	out := Result{Error: r.Error, Title: r.Title, Data: r.Data, Attachments: r.Attachments, Cwd: r.Cwd}
	if r.Error == nil {
		out.Output = r.Output
	}
	for _, e := range r.Effects {
		rec := Effect{Operation: e.Operation, Path: e.File.Path}
		if e.Operation != tool.OpDelete {
			rec.Hash = fmt.Sprintf("%x", e.File.Hash)
		}
		out.Effects = append(out.Effects, rec)
	}
	return out
}

// Result returns the recorded result as a [tool.Result]. It omits the effects and the new working directory.
func (r *Result) Result() *tool.Result {
	return &tool.Result{Output: r.Output, Error: r.Error, Title: r.Title, Data: r.Data, Attachments: r.Attachments}
}
