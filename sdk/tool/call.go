package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Call is one call of one tool, as the host sends it to the plugin. A handler must not change it.
type Call struct {
	// ID is unique in the host.
	ID string
	// Tool is the name of the tool within its plugin.
	Tool string
	// Arguments is a JSON object that satisfies the tool's input schema, with
	// defaults filled in.
	Arguments json.RawMessage
	// SessionID names the session whose file states, working directory and
	// remembered answers apply.
	SessionID string
	// MessageID is the caller's own id of the message that holds the call. It may be empty.
	MessageID string
	// Cwd is absolute; relative paths in arguments are relative to it.
	Cwd string
	// Roots are the trees that the call may access. Without roots it may access no files.
	Roots []Root
	// SessionState is the last [Result.SessionState] of this plugin in the session.
	SessionState []byte
	// Trace holds W3C trace context headers.
	Trace map[string]string
	// Commands lets commands that the call starts use the host's tools. If it is nil they cannot.
	Commands *Commands
}

// CapabilityCalls is the capability of a plugin that accepts several calls on one stream.
const CapabilityCalls = "calls"

// CapabilityCommands is the capability of a plugin whose tools start commands. Its calls have
// [Call.Commands].
const CapabilityCommands = "commands"

// CapabilityDiscovery is the capability of a plugin that learns its tools only when it is
// configured. The host then asks for its description again.
const CapabilityDiscovery = "discovery"

// Commands lets the commands that a call starts call tools, by the programs "tool:NAME" and
// "field:NAMESPACE". Such a program connects to the host's socket and names the call that it
// belongs to. The host handles its call like any other.
type Commands struct {
	// Dir is the directory of the programs. The plugin appends it to the PATH of the commands.
	Dir string
	// Address is the address of the host's socket. "fd:N" is a descriptor that the plugin's
	// process has inherited and passes on to the commands. Anything else is a path. The plugin
	// sets the variable [CommandsEnv] of the commands to a path: /proc/PID/fd/N for a descriptor.
	Address string
	// Token names the call. The plugin sets the variable [CallEnv] of the commands to it. It is
	// valid until the call ends.
	Token string
}

// CommandsProgram is the program in [Commands.Dir] for names that have no program of their own.
// The caller passes the name as the program's own name ("exec -a").
const CommandsProgram = "toolhost-shim"

// The environment variables of commands that may call tools.
const (
	CommandsEnv = "TOOLHOST_COMMANDS"
	CallEnv     = "TOOLHOST_CALL"
)

// Peer is the host as a running call sees it. Its methods are safe for concurrent use. After the
// call has returned they do nothing, or fail.
type Peer interface {
	// Progress replaces the call's title and adds to its metadata while it runs.
	Progress(title string, metadata map[string]any)
	// Output sends a chunk of what the tool prints. The caller may reuse the chunk when Output
	// returns. Output may block while the host is slow.
	Output(stream Stream, chunk []byte)
	// Ask waits for a permission or an answer. It fails only if ctx ends or the host is gone. That
	// there is nobody to ask is an outcome and not an error.
	Ask(ctx context.Context, ask Ask) (Answer, error)
	// FileStates returns the states of the files at paths, as the session knows them. The paths
	// are absolute and have no symbolic links. Files that the session does not know are absent.
	FileStates(ctx context.Context, paths ...string) (map[string]FileState, error)
}

// Stream is one of a command's two outputs.
type Stream int

// The streams.
const (
	Stdout Stream = iota + 1
	Stderr
)

// Ask is a permission request or a question to a person. Exactly one of the fields is set.
type Ask struct {
	Permission *Permission
	Question   *Question
}

// PermissionEdit is the kind of the permission to change files whose paths are not in the call's
// arguments. Its patterns are the paths, absolute and without symbolic links. The host decides by
// the same rules as for paths in arguments.
const PermissionEdit = "edit"

// Permission is a request to do something that the policy has not decided yet.
type Permission struct {
	// Kind is external_directory, bash, edit, or a tool's name.
	Kind  string `json:"kind"`
	Title string `json:"title"`
	// Patterns are the paths or commands that the request is about.
	Patterns []string       `json:"patterns"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Question is a question to the user on behalf of the model.
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
	// Partial reports that only a part of the file was shown.
	Partial bool
}
