// Package mcp implements an MCP server for the tools of a host. [New] returns a [Server], which serves clients over a
// pair of streams ([Server.Serve]) or over HTTP ([Server.Handler]).
//
// The server offers every enabled tool of the host, or a single tool, bash, that can call all tools. It supports
// protocol revisions with sessions (2025-11-25 and earlier) and without sessions (2026-07-28 and later).
//
//	s, err := mcp.New(h, mcp.Options{})
//	if err != nil { … }
//	defer s.Close()
//	err = s.Serve(ctx, os.Stdin, os.Stdout)
package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/export"
	"toolhost.dev/host/mcp/internal/handover"
	"toolhost.dev/sdk/tool"
)

// Options configures a server. The zero value is valid.
type Options struct {
	// Single offers only one tool, bash, whose command string can call every tool.
	Single bool
	// Tools are the full names of the tools to offer. Nil means all enabled tools.
	Tools []string
	// Endpoint is the name of an endpoint in the configuration, which determines the tools. It excludes Single and
	// Tools.
	Endpoint string
	// Session is the session for all clients. If Session is empty, each connection has its own session. A client
	// without a connection gets a handle in its first result, and continues its session by sending the handle back. The
	// clients of a principal that send no handle share one session until the server is closed.
	Session string
	// Branch is the branch of calls whose client chooses none. Empty means the workspace itself.
	Branch string
	// Workspace is the workspace of calls whose client chooses none: a path, or WORKSPACE@NODE in a fleet. Empty means
	// the workspace of the host.
	Workspace string
	// Approver returns the client that answers permission requests for a principal's calls, in place of the principal's
	// own client. Nil means that every client answers the requests for its calls. Approver is not called for the local
	// user and for interactive principals.
	Approver func(*host.Principal) host.Client
	// Beside answers permission asks in addition to the calling client, for the local user and for interactive
	// principals. The first answer counts. Nil means that only the client answers them.
	Beside host.Client
	// Login logs in at the remote server of a field, with scopes that its login lacks. It calls show with the page on
	// which the user logs in, and returns when the login is saved or has failed. If a call needs a login and its client
	// can open pages (elicitation by URL), the server shows the page, waits, and calls again. A login belongs to the
	// operator, so set Login only for clients of the operator. Nil means that the error of the call names the command
	// to log in.
	Login func(ctx context.Context, field string, scopes []string, show func(page string)) error
	// Roots makes calls run in the first root that a client with a connection names. If one of the client's roots
	// contains the host's workspace, calls run in the host's workspace. Set Roots only for clients on the same machine
	// that are allowed to choose the workspace.
	Roots bool
	// Sessions keeps the sessions of clients over HTTP for other hosts, which then continue them. Nil means that a
	// session ends with its host.
	Sessions SessionStore
	// AskTimeout limits the time that a call waits for an answer. Zero means 10 minutes.
	AskTimeout time.Duration
	// Log receives protocol errors of clients. Nil discards them.
	Log *slog.Logger
}

// SessionStore keeps descriptions of MCP sessions for several hosts.
type SessionStore = handover.Store

// Server offers a host's tools to MCP clients. It is safe for concurrent use. The caller must close the server before
// the host.
type Server struct {
	host   *host.Host
	opts   Options
	mcp    *mcp.Server
	parked *parkedCalls
	roots  *workspaces
	posts  posts
	// comments is the time after which a silent response over HTTP gets a comment.
	comments time.Duration
	// session is the shared session of clients without a connection.
	session string

	mu      sync.Mutex
	offered []function
	logins  map[string]*loginAttempt // by field
	lazy    lazy
	relay   *relay

	keeper   *handover.Keeper // nil without Options.Sessions
	unfollow func()
}

// function is an offered tool.
type function struct {
	export.Function
	plugin     string // the plugin of the tool, or ""
	definition []byte // the definition for clients, as JSON
	mounted    bool   // whether the tool belongs to a mounted server
	structured bool   // whether the definition has a schema for structured results
}

// New returns a server for a host's tools. The server notifies its clients when the tools change. If New returns an
// error, the error lists the tools that the server cannot offer. The server is still valid and offers all other tools.
func New(h *host.Host, opts Options) (*Server, error) {
	if opts.AskTimeout <= 0 {
		opts.AskTimeout = 10 * time.Minute
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{host: h, opts: opts, parked: newParkedCalls(opts.AskTimeout, h, opts.Log), session: opts.Session,
		comments: commentEvery}
	if s.session == "" {
		s.session = newSession()
	}
	s.lazy.uses = sync.OnceValue(h.Uses)
	s.roots = &workspaces{
		use: opts.Roots, start: h.Workspace(), fixed: opts.Workspace, by: make(map[*mcp.ServerSession]*clientRoots),
	}
	s.logins = make(map[string]*loginAttempt)
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "toolhost", Title: "toolhost", Version: host.Version},
		&mcp.ServerOptions{
			Instructions: strings.TrimSpace(s.instructions() + " " + export.Limits(h.AllTools())), Logger: opts.Log,
			PageSize: 500,
			//nolint:staticcheck // see workspaces.of
			RootsListChangedHandler: func(_ context.Context, req *mcp.RootsListChangedRequest) {
				s.roots.changed(req.Session)
			},
			Capabilities:       capabilities,
			CompletionHandler:  s.complete,
			SubscribeHandler:   s.subscribe,
			UnsubscribeHandler: s.unsubscribe,
		})
	s.relay = newRelay(s)
	s.mcp.AddReceivingMiddleware(survives(opts.Log), s.explained, s.onlyOffered, s.onlyAllowed, s.lazily)
	if opts.Sessions != nil {
		s.keeper = handover.New(s.mcp, opts.Sessions, opts.Endpoint, sessionTimeout, opts.Log)
	}
	s.mcp.AddSendingMiddleware(s.onlyNeeded, s.onlySubscribed)
	s.follow()
	return s, s.refresh()
}

// follow updates the offered tools after each change of the host's tools, until the server is closed.
func (s *Server) follow() {
	changed := make(chan struct{}, 1)
	cancel := s.host.Subscribe(func(host.Update) {
		select {
		case changed <- struct{}{}:
		default: // a refresh is already pending
		}
	})
	done := make(chan struct{})
	s.unfollow = sync.OnceFunc(func() {
		cancel()
		close(done)
	})
	go func() {
		for {
			select {
			case <-changed:
				if err := s.refresh(); err != nil {
					s.opts.Log.Warn("some tools are not offered", "why", err)
				}
			case <-done:
				return
			}
		}
	}()
}

func newSession() string { return "mcp:" + newHandle() }

func newHandle() string { return rand.Text() }

// refresh updates the offered tools. It notifies the clients if the list changed.
func (s *Server) refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	functions, tools, err := s.wanted()
	var gone []string
	before, names := make(map[string]*function, len(s.offered)), make(map[string]bool, len(functions))
	for i := range functions {
		names[functions[i].Name] = true
	}
	for i := range s.offered {
		old := &s.offered[i]
		if before[old.Name] = old; !names[old.Name] {
			gone = append(gone, old.Name)
		}
	}
	changed := len(gone) > 0
	if changed {
		s.mcp.RemoveTools(gone...)
	}
	for i, f := range functions {
		if old := before[f.Name]; old != nil && f.Tool == old.Tool && f.plugin == old.plugin &&
			bytes.Equal(f.definition, old.definition) {
			continue
		}
		if bad := safely(func() { s.mcp.AddTool(tools[i], s.handler(f)) }); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", f.Tool, bad))
		}
		changed = true
	}
	if changed && s.offered != nil {
		s.lazy.changed()
	}
	s.offered = functions
	return errors.Join(err, s.relay.refresh())
}

// safely calls a function of the SDK that panics for a definition that is not valid. A mounted server sends
// definitions, so one of them must not stop the host.
func safely(add func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the definition cannot be offered: %v", p)
		}
	}()
	add()
	return nil
}

// survives turns a panic into the error of the request. A defect that one client finds must not end the calls of
// others.
func survives(log *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
			defer func() {
				if p := recover(); p != nil {
					log.Error("a request of an MCP client failed because of a defect in toolhost. Please report it", "method", method, "panic", p, "stack", string(debug.Stack()))
					res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "toolhost has a defect that this request shows. Its log has the details"}
				}
			}()
			return next(ctx, method, req)
		}
	}
}

// wanted returns the functions to offer, with their definitions for clients.
func (s *Server) wanted() ([]function, []*mcp.Tool, error) {
	o := s.offer()
	switch o.mode {
	case modeSingle:
		f := export.Single(o.tools)
		t := &mcp.Tool{Name: f.Name, Title: "Run a command", Description: f.Description, InputSchema: f.Schema}
		return []function{{Function: f, definition: definition(t)}}, []*mcp.Tool{t}, nil
	case modeLazy:
		return o.lazyFunctions(s.lazy.uses())
	}
	functions, err := export.Functions(o.tools)
	offered, tools := definitions(functions, o.tools)
	return offered, tools, err
}

// definitions returns the functions to offer, with their definitions for clients.
func definitions(functions []export.Function, of []host.Tool) ([]function, []*mcp.Tool) {
	offered, tools := make([]function, len(functions)), make([]*mcp.Tool, len(functions))
	at := make(map[string]int, len(of))
	for i := range of {
		at[of[i].FullName] = i
	}
	for i, f := range functions {
		t := &of[at[f.Tool]]
		tools[i] = &mcp.Tool{
			Name: f.Name, Title: t.Title, Description: f.Description, InputSchema: f.Schema,
			Annotations: annotations(t),
		}
		// With a schema, an SDK refuses a result without data. A mounted server can also send data without a schema.
		structured := t.Category == tool.CategoryMCP || len(t.Output) > 0 && t.Category != tool.CategoryBuiltin
		if structured && len(t.Output) > 0 {
			tools[i].OutputSchema = t.Output
		}
		_ = json.Unmarshal(t.Icons, &tools[i].Icons) // without valid icons, the tool has none
		offered[i] = function{Function: f, plugin: t.Plugin, definition: definition(tools[i]),
			mounted: t.Category == tool.CategoryMCP, structured: structured}
	}
	return offered, tools
}

// definition returns the definition of a tool as JSON.
func definition(t *mcp.Tool) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		return nil // the SDK refuses the tool
	}
	return b
}

func annotations(t *host.Tool) *mcp.ToolAnnotations {
	destructive, open := !t.Traits.ReadOnly && !t.Traits.AutoExecute,
		t.Category != "builtin" || t.Role == tool.RoleShell
	return &mcp.ToolAnnotations{ReadOnlyHint: t.Traits.ReadOnly, IdempotentHint: t.Traits.Idempotent,
		DestructiveHint: &destructive, OpenWorldHint: &open}
}

// Close cancels the calls that wait for an answer.
func (s *Server) Close() {
	s.unfollow()
	s.relay.close()
	s.parked.close()
}

const readFirst = ` Read a file before editing it. Prefer the tools to cat, sed and grep in the shell: they are faster, bounded, and checked.`

func (s *Server) instructions() string {
	threeLayers := `toolhost runs one command line in three layers: agent tools` + examples(s.host.DefaultCore()) + `, field tools (field:NAME COMMAND), and bash for everything else.`
	switch s.mode() {
	case modeLazy:
		return threeLayers + ` Only the most important tools are listed here. find_tools finds the others and answers with commands, which ` + export.SingleName + ` runs.` + readFirst
	case modeSingle:
		return threeLayers + ` The tool ` + export.SingleName + ` takes any of them. "help" lists the tools, and "NAME --help" describes one tool.` + readFirst
	}
	text := threeLayers + ` Each tool is offered here under its own name, a field tool as NAME_COMMAND.`
	if shell := s.host.RoleName(tool.RoleShell); shell != "" {
		text += ` The tool ` + shell + ` takes a command line, too: "help" lists the tools, and "NAME --help" describes one. ` +
			`In its pipelines and scripts, the tools are programs: tool:NAME --q x | wc -l, field:NAME COMMAND --q x | jq .`
	}
	return strings.TrimSpace(text + ` Read a file before editing it: an edit of a file that was not read, or that changed since, is refused. ` + export.Preferences(s.offer().tools))
}

// examples returns names of tools in parentheses, after a space. It returns "" for no names.
func examples(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ", ...)"
}
