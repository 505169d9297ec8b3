package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Call is one use of one tool.
type Call struct {
	// ID is unique in the host.
	ID   string
	Tool string
	// Arguments is a JSON object that satisfies the tool's input schema, with
	// defaults filled in.
	Arguments json.RawMessage
	// SessionID names the session whose file states, working directory and
	// remembered answers apply.
	SessionID string
	// MessageID is the caller's own id of the message that holds the call; may be empty.
	MessageID string
	// Cwd is absolute; relative paths in arguments are relative to it.
	Cwd string
	// Roots is what the call may touch; empty: no file access.
	Roots []Root
	// SessionState is what the plugin last gave in Result.SessionState.
	SessionState []byte
	// Trace holds W3C trace context headers.
	Trace map[string]string
	// Commands is how commands that the call starts reach the host's tools. nil: they
	// cannot.
	Commands *Commands
}

// CapabilityCalls of a plugin: it takes several calls on one stream.
const CapabilityCalls = "calls"

// CapabilityCommands of a plugin: its tools start commands, and are given
// [Call.Commands].
const CapabilityCommands = "commands"

// CapabilityDiscovery of a plugin: it knows its tools only once it is configured. The host
// asks for its description again then.
const CapabilityDiscovery = "discovery"

// Commands lets the commands that a call starts call tools, by the programs
// "tool:NAME" and "field:NAMESPACE". Each of them connects to the host's socket and names
// the call it belongs to, and its call goes through the host as any other does.
type Commands struct {
	// Dir holds the programs. It belongs at the end of the commands' PATH.
	Dir string
	// Address of the host's socket: "fd:N" is a descriptor that the plugin's process has
	// inherited, to be passed on to the commands; anything else is a path. Commands find it
	// in the variable CommandsEnv, as a path: /proc/PID/fd/N for a descriptor.
	Address string
	// Token names the call. Commands find it in the variable CallEnv. It is void when the
	// call has ended.
	Token string
}

// CommandsProgram is the program in [Commands.Dir] that answers for a name that has none,
// which it is given as its own ("exec -a").
const CommandsProgram = "toolhost-shim"

// The environment variables of commands that may call tools.
const (
	CommandsEnv = "TOOLHOST_COMMANDS"
	CallEnv     = "TOOLHOST_CALL"
)

// Peer is the host as a running call sees it. Its methods are safe for concurrent
// use, and do nothing (or fail) once the call has returned.
type Peer interface {
	// Progress replaces the call's title and adds to its metadata while it runs.
	Progress(title string, metadata map[string]any)
	// Output passes on a piece of what the tool prints. The chunk may be reused
	// when Output returns. It may block when the host is slow.
	Output(stream Stream, chunk []byte)
	// Ask waits for a permission or an answer. The error is ctx's, or says that
	// the host is gone; "nobody to ask" is an outcome, not an error.
	Ask(ctx context.Context, ask Ask) (Answer, error)
	// FileStates gives what the session knows of the files at paths, which are
	// absolute and without symbolic links. Unknown files are left out.
	FileStates(ctx context.Context, paths ...string) (map[string]FileState, error)
}

// Stream is one of a command's two outputs.
type Stream int

// The streams.
const (
	Stdout Stream = iota + 1
	Stderr
)

// Ask is a permission request or a question to a person; exactly one is set.
type Ask struct {
	Permission *Permission
	Question   *Question
}

// PermissionEdit is the kind of a permission to change files whose paths are not in the
// call's arguments. Its patterns are the paths, absolute and without symbolic links. The
// host decides by the same rules as for paths in arguments.
const PermissionEdit = "edit"

// Permission is asked for before something that policy did not settle.
type Permission struct {
	// Kind is external_directory, bash, edit, or a tool's name.
	Kind  string `json:"kind"`
	Title string `json:"title"`
	// Patterns are the paths or commands asked for.
	Patterns []string       `json:"patterns"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Question is asked of the user on the model's behalf.
type Question struct {
	Text     string   `json:"text"`
	Options  []string `json:"options"`
	Multiple bool     `json:"multiple"`
	FreeText bool     `json:"free_text"`
}

// Outcome of an [Ask].
type Outcome string

// The outcomes.
const (
	Accepted      Outcome = "accepted"
	Declined      Outcome = "declined"
	NobodyToAsk   Outcome = "unavailable"
	AnswerTimeout Outcome = "timeout"
)

// Answer to an [Ask].
type Answer struct {
	Outcome Outcome
	// Values holds the chosen options or the free text.
	Values  []string
	Message string
}

// FileState is a file as the session last read or wrote it.
type FileState struct {
	// Path is absolute and without symbolic links.
	Path    string
	ModTime time.Time
	// Size in bytes.
	Size int64
	// Hash is the SHA-256 of the whole content.
	Hash [32]byte
	// Partial: only a part of the file was shown.
	Partial bool
}
