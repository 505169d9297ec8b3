package call

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
)

// MaxTimeout is the longest timeout of any call. It also applies to tools that control their own timeout.
const MaxTimeout = time.Hour

// MaxDepth limits the number of parent calls of a child call.
const MaxDepth = 8

// Request is a request from a frontend. It contains either a Command or a Name with Arguments.
type Request struct {
	ID        string
	MessageID string
	Command   string
	Name      string
	Arguments json.RawMessage
	Session   Session
	// Exchange is set for a request of an MCP client that is not a call of a tool. Name is then the full name of its
	// item.
	Exchange *Exchange
	// Client describes the MCP client that makes the call. It is nil for other callers.
	Client *tool.ClientInfo
	// Continuable means that the client can repeat the call in another process, so the host passes a plugin's
	// [tool.Ask.Continuation] to the client. If this call is such a repetition, Continuation is the value that the
	// client received from the first call.
	Continuable  bool
	Continuation []byte
	// InOrder is set for calls of a batch. Such a call runs alone unless its tool is safe for concurrent use.
	InOrder bool
	// Trace is the trace context of the caller. The zero value means that the caller does not trace.
	Trace telemetry.TraceContext
	// Changed is called after a call that can change files, before the next call of the session starts. It can be nil.
	Changed func()
}

// Exchange is a request of an MCP client that a plugin answers. Its parameters are the arguments of the call.
type Exchange struct {
	Plugin string
	Method string
	// Kind and Item identify the item that the request is about.
	Kind tool.ItemKind
	Item string
}

// Session is the session of a call, with the roots of its workspace.
type Session struct {
	state.Session
	// Principal is the caller, who owns the session. A call without a principal is refused.
	Principal *principal.Principal
	Roots     []tool.Root
	// Temporary is the temporary directory of the session, which all its tools share; see package scratch. A zero
	// Temporary means that the session has no temporary directory.
	Temporary tool.Root
	// Past knows the paths that existed before the session. It is nil if no state is kept.
	Past *scratch.Past
	// Branch is the name of the session's branch, and Mount describes how this process accesses the branch. Both are
	// empty for a session that works in the workspace itself.
	Branch string
	Mount  Mount
	// Layer has the limits of the session's branch. It is nil for a session without a branch.
	Layer *Layer
	// Checkpoints makes the checkpoints of the session's branch. It is nil without automatic checkpoints.
	Checkpoints Checkpoints
	// Branches returns the implementation of the tool "branch" for the session. It is nil if the host has no branches.
	Branches func(Session) Branches
	// Ledger records the calls that change the session's workspace. If another host continues the session, it needs
	// this record. Ledger is nil for a session that only this host can use.
	Ledger Ledger
	// Prepare is called before each call of the session reads files. A nil Prepare does nothing.
	Prepare func() error
	// Later receives the functions that save what a call changes in the stored session. A nil Later means that changes
	// are saved immediately. In the session of a preview, Later is set, because the changes are saved only if the
	// preview is accepted.
	Later func(save func())
	// Displaced reports that the saved directory of the session is missing or outside all roots. Cwd is then the
	// workspace.
	Displaced bool
	// Gone is the saved directory of the session if the directory no longer exists. Calls that depend on the directory
	// then do not run.
	Gone string
}

// Ledger records a call in a session that another host can continue.
type Ledger interface {
	// Begin is called before the call can make any change. If it returns an error, the call does not run.
	Begin(ctx context.Context, tool string) error
	// Check returns an error if this host no longer has the session. It is called before each attempt of the call.
	Check() error
}

// Layer contains the limits for the layer of a branch, and functions that return its size.
type Layer struct {
	Name     string
	MaxBytes int64
	MaxFiles int
	// Usage measures the layer, and LastUsage returns the last measurement.
	Usage, LastUsage func() (size int64, files int)
	// Unasked records that a permission request was accepted without asking a person. A person must then confirm the
	// apply of the branch. A nil Unasked means that every permission request goes to the client.
	Unasked func() error
}

// Mount is a mounted branch. Key and View are the fields Branch and View of [tool.Root]. If the branch is a copy of the
// workspace, Tree is the directory of the copy, even before the branch is mounted. Note then describes the copy in a
// sentence. For other branches, Tree and Note are empty.
type Mount struct{ Key, View, Tree, Note string }

// Top returns the directory that the tools of the session see as its workspace.
func (s Session) Top() string {
	if s.Mount.Tree != "" {
		return s.Mount.Tree
	}
	return s.Workspace
}

// Stored returns the session as it is stored. The stored directory is in the workspace, even if the session works in a
// copy of the workspace.
func (s Session) Stored() state.Session {
	out := s.Session
	if rel, in := (tool.Root{Path: s.Mount.Tree}).Rel(out.Cwd); in {
		out.Cwd = filepath.Join(s.Workspace, rel)
	}
	return out
}

// Place converts a stored directory to the directory in which the session works. See [Session.Stored].
func (s Session) Place(dir string) string {
	if rel, in := (tool.Root{Path: s.Workspace}).Rel(dir); in && s.Mount.Tree != "" {
		return filepath.Join(s.Mount.Tree, rel)
	}
	return dir
}

// Contains reports whether a directory is in one of the session's roots or in its temporary directory.
func (s Session) Contains(dir string) bool {
	return s.Temporary.Contains(dir) || slices.ContainsFunc(s.Roots, func(r tool.Root) bool { return r.Contains(dir) })
}

// All returns the session's roots and its temporary directory.
func (s Session) All() []tool.Root {
	if s.Temporary.Path == "" {
		return s.Roots
	}
	return append(slices.Clip(s.Roots), s.Temporary)
}

// Lease permits one call to use a plugin.
type Lease interface {
	Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result
	// Release returns the lease. It must be called exactly once.
	Release()
	// Version identifies one instance of the plugin. Two versions are equal only if the instance is the same.
	Version() any
}

// InBranch returns the roots of the session as the roots of its branch. The branch covers the workspace. Other roots
// are read-only, because discarding the branch would not undo changes in them.
func (s Session) InBranch(roots []tool.Root) []tool.Root {
	if s.Mount.Key == "" && s.Mount.Tree == "" {
		return roots
	}
	workspace := tool.Root{Path: s.Workspace}
	out := slices.Clone(roots)
	for i := range out {
		switch rel, in := workspace.Rel(out[i].Path); {
		case in && s.Mount.Tree != "":
			out[i].Branch, out[i].CopyOf, out[i].Path = s.Mount.Key, out[i].Path, filepath.Join(s.Mount.Tree, rel)
		case in:
			out[i].Branch, out[i].View = s.Mount.Key, filepath.Join(s.Mount.View, rel)
		default:
			out[i].Writable = false
		}
	}
	return out
}

// InRoots replaces the directory of the session with the workspace if the directory is missing or outside of all roots.
// It does not save the session, because another call can change the directory at the same time.
func (s Session) InRoots() Session {
	s.Gone, s.Cwd = "", s.Place(s.Cwd)
	contained := s.Contains(s.Cwd)
	st, err := os.Stat(scratch.OnHost(s.All(), s.Cwd))
	exists := err == nil && st.IsDir()
	if s.Displaced = !exists || !contained; s.Displaced {
		if !exists && s.Cwd != s.Top() {
			s.Gone = s.Cwd
		}
		s.Cwd = s.Top()
	}
	return s
}
