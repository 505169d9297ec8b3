package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Call is one call of a tool. The host sends it to the plugin. A handler must not change it.
type Call struct {
	// ID identifies the call. No other call of the same host has the same ID.
	ID string
	// Tool is the name of the tool within its plugin.
	Tool string
	// Arguments is a JSON object that satisfies the tool's input schema. Defaults are already filled in.
	Arguments json.RawMessage
	// SessionID identifies the session. Each session has its own file states, working directory and remembered answers.
	SessionID string
	// MessageID is the caller's ID of the message that contains the call. It can be empty.
	MessageID string
	// Cwd is the absolute path of the working directory. Relative paths in the arguments start there.
	Cwd string
	// Roots lists the directory trees that the call is allowed to access. If Roots is empty, the call is allowed to
	// access no files.
	Roots []Root
	// SessionState is the last [Result.SessionState] of this plugin in the session.
	SessionState []byte
	// Trace holds W3C trace context headers.
	Trace map[string]string
	// Client describes the client of MCP that makes the call. It is nil for other callers.
	Client *ClientInfo
	// Method is the method of MCP that the call carries; see [Relay]. It is empty for a call of a tool.
	Method string
	// Continuation is set if the call continues a call that an earlier process of the plugin began. It is the
	// [Ask.Continuation] of that call. The plugin sends the same requests with the same continuation again, and gets
	// the answers at once. Continuation is empty for a new call.
	Continuation []byte
	// Commands contains the data that commands of the call need to use the host's tools. If Commands is nil, the
	// commands cannot use tools.
	Commands *Commands
}

// CapabilityCalls is the capability of a plugin that accepts several calls on the same stream.
const CapabilityCalls = "calls"

// CapabilityCommands is the capability of a plugin whose tools start commands. The host sets [Call.Commands] in calls
// of these tools.
const CapabilityCommands = "commands"

// CapabilityDiscovery is the capability of a plugin that discovers its tools only after it is configured. The host
// then calls Describe again.
const CapabilityDiscovery = "discovery"

// Commands contains the data that commands of a call need to call the host's tools. The commands run the programs
// "tool:NAME" and "field:NAMESPACE". Such a program connects to the host's socket and sends the token of its call. The
// host handles calls from programs like all other calls.
type Commands struct {
	// Dir is the directory that contains the programs. The plugin appends Dir to the PATH of the commands.
	Dir string
	// Address is the address of the host's socket. The form "fd:N" is a descriptor that the plugin's process has
	// inherited and passes on to the commands. Any other form is a path. The plugin sets the commands' variable
	// [CommandsEnv] to a path. The path of a descriptor is /proc/PID/fd/N.
	Address string
	// Token identifies the call. The plugin sets the environment variable [CallEnv] of the commands to the token.
	// The token is valid until the call ends.
	Token string
}

// CommandsProgram is the name of a program in [Commands.Dir] that serves all names for which Dir contains no program.
// The caller runs this program with one of these names as argv[0] ("exec -a").
const CommandsProgram = "toolhost-shim"

// Names of environment variables for commands that are allowed to call tools.
const (
	CommandsEnv = "TOOLHOST_COMMANDS"
	CallEnv     = "TOOLHOST_CALL"
)

// NoCall is the value of [CallEnv] for programs that a plugin runs for itself. The audit log does not list them as
// programs of a call.
const NoCall = "none"

// DirectoryKeeper is implemented by a [Peer] whose host wants to know which calls do not change the directory of
// the session.
type DirectoryKeeper interface {
	// KeepsDirectory promises that the call will not change the working directory of the session.
	KeepsDirectory()
}

// CapabilityLargeResults is the capability of a host that plugins ask for room before they send a large result.
const CapabilityLargeResults = "large_results"

// Receiver is implemented by a [Peer] whose host limits the memory for large results.
type Receiver interface {
	// Receive waits until the host has room for a result with this many bytes. It returns an error if ctx ends before.
	// The room belongs to the call until it ends. It is only called by the goroutine that runs the call.
	Receive(ctx context.Context, bytes int64) error
}

// Peer represents the host for a running call. Its methods are safe for concurrent use. After the call has returned,
// the methods do nothing or return an error.
type Peer interface {
	// Progress replaces the title of the running call and adds metadata to it.
	Progress(title string, metadata map[string]any)
	// Output sends a chunk of the tool's output. When Output returns, the caller can reuse the chunk. Output blocks
	// while the host is slow.
	Output(stream Stream, chunk []byte)
	// Ask sends a permission request or a question and waits for the answer. It returns an error only if ctx ends or
	// the host no longer exists. If no person can be asked, the outcome of the answer reports this.
	Ask(ctx context.Context, ask Ask) (Answer, error)
	// FileStates returns the states of the files at paths. The paths must be absolute and without symbolic links.
	// The result contains only files that the session has read or written.
	FileStates(ctx context.Context, paths ...string) (map[string]FileState, error)
}

// Keys of the metadata of [Peer.Progress]. Their values are numbers: the amount of work that is done, and the total
// amount.
const (
	ProgressDone  = "progress"
	ProgressTotal = "total"
)

// Stream is one of the two outputs of a command.
type Stream int

// The values of [Stream].
const (
	Stdout Stream = iota + 1
	Stderr
)

// CapabilityToolCalls is the capability of a host that carries out a [ToolCall].
const CapabilityToolCalls = "tool_calls"

// ToolCall is a call that a running call makes to another tool.
type ToolCall struct { //nolint:revive // a Call is the call that makes it
	// Tool is the full name of the tool, such as "read" or "field:jira search".
	Tool string `json:"tool"`
	// Arguments is a JSON object.
	Arguments json.RawMessage `json:"arguments"`
}

// Ask is a permission request, a question to a person, a set of requests to the client, or a call of another tool.
// Exactly one of the fields is set.
type Ask struct {
	Permission *Permission
	Question   *Question
	// Requests are requests to a client of MCP, which gets all of them at the same time.
	Requests []ClientRequest
	// Continuation is the data that the plugin needs to continue the call in another process after the Requests are
	// answered; see [Call.Continuation]. Clients can neither read nor change it. Empty means that only this process can
	// continue.
	Continuation []byte
	// Call is a call of another tool. The answer is Accepted and has the result in Content, even if the tool fails.
	Call *ToolCall
}

// PermissionEdit is the kind of a permission to change files whose paths are not in the call's arguments. The
// patterns of the request are the paths of these files, absolute and without symbolic links. The host applies the
// same rules to them as to paths in arguments.
const PermissionEdit = "edit"

// Permission is a request for an action that the policy neither allows nor denies.
type Permission struct {
	// Kind is "external_directory", "bash", "edit", or the name of a tool.
	Kind  string `json:"kind"`
	Title string `json:"title"`
	// Patterns lists the paths or commands for which permission is requested.
	Patterns []string       `json:"patterns"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Question is a question to the user on behalf of the model.
type Question struct {
	Text     string   `json:"text"`
	Options  []string `json:"options"`
	Multiple bool     `json:"multiple"`
	FreeText bool     `json:"free_text"`
	// Defaults is the answer if the user gives none. It can have several values only if Multiple is true.
	Defaults []string `json:"defaults,omitempty"`
	// Optional means that the user can leave the question open. The answer is then [Accepted] and has no values.
	Optional bool `json:"optional,omitempty"`
}

// Outcome is the outcome of an [Ask], for example a granted permission.
type Outcome string

// The values of [Outcome].
const (
	Accepted      Outcome = "accepted"
	Declined      Outcome = "declined"
	NobodyToAsk   Outcome = "unavailable"
	AnswerTimeout Outcome = "timeout"
)

// Answer is the answer to an [Ask].
type Answer struct {
	Outcome Outcome
	// Values contains the chosen options or the free text.
	Values  []string
	Message string
	// Content is nil unless the outcome is Accepted. For [Ask.Requests], it is a JSON object that maps the key of each
	// request to its result, as MCP defines it. For [Ask.Call], it is the result in JSON.
	Content json.RawMessage
	// By is the name of the principal who answered. It is empty if the caller itself answered. Only the host sets By;
	// plugins do not receive it.
	By string
}

// FileState is the state that a file had when the session last read or wrote it.
type FileState struct {
	// Path is the path of the file. It is absolute and without symbolic links.
	Path    string
	ModTime time.Time
	// Size is the size of the file in bytes.
	Size int64
	// Hash is the SHA-256 hash of the whole content of the file.
	Hash [32]byte
	// Partial is true if the session has read only a part of the file.
	Partial bool
}
