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
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/export"
)

// Options configures a server. The zero value is valid.
type Options struct {
	// Single offers only one tool, bash, whose command string can call every tool.
	Single bool
	// Tools are the full names of the tools to offer. Nil means all enabled tools.
	Tools []string
	// Session is the session for all clients. If Session is empty, each connection has its own session. A client without
	// a connection gets a handle in its first result, and continues its session by sending the handle back. The clients of
	// a principal that send no handle share one session until the server is closed.
	Session string
	// Approver returns the client that answers the permission asks of a principal's calls, in place of the principal's own
	// client. Nil means that every client answers the asks of its calls. Approver is not called for the local user and for
	// interactive principals.
	Approver func(*host.Principal) host.Client
	// Roots makes calls run in the first root that a client with a connection names. If one of the client's roots
	// contains the host's workspace, calls run in the host's workspace. Set Roots only for clients on the same machine
	// that are allowed to choose the workspace.
	Roots bool
	// AskTimeout limits the time that a call waits for an answer. Zero means 10 minutes.
	AskTimeout time.Duration
	// Log receives protocol errors of clients. Nil discards them.
	Log *slog.Logger
}

// Server offers a host's tools to MCP clients. It is safe for concurrent use. The caller must close the server before
// the host.
type Server struct {
	host   *host.Host
	opts   Options
	mcp    *mcp.Server
	parked *parkedCalls
	roots  *workspaces
	posts  posts
	// session is the shared session of clients without a connection.
	session string

	mu      sync.Mutex
	offered []export.Function

	unfollow func()
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
	s := &Server{host: h, opts: opts, parked: newParkedCalls(opts.AskTimeout), session: opts.Session}
	if s.session == "" {
		s.session = newSession()
	}
	s.roots = &workspaces{use: opts.Roots, start: h.Status().Workspace, by: make(map[*mcp.ServerSession]*clientRoots)}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "toolhost", Title: "toolhost", Version: host.Version}, &mcp.ServerOptions{
		Instructions: strings.TrimSpace(instructions(opts.Single) + " " + export.Limits(h.Tools())), Logger: opts.Log, PageSize: 500,
		//nolint:staticcheck // see workspaces.of
		RootsListChangedHandler: func(_ context.Context, req *mcp.RootsListChangedRequest) { s.roots.changed(req.Session) },
		Capabilities:            &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	s.mcp.AddReceivingMiddleware(onlyTools, s.onlyAllowed)
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

// onlyTools rejects methods of capabilities that the server does not announce. Without onlyTools, the SDK would answer
// them with empty lists.
func onlyTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		for _, feature := range []string{"prompts/", "resources/", "completion/", "logging/"} {
			if strings.HasPrefix(method, feature) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "toolhost supports only tools, no " + method}
			}
		}
		return next(ctx, method, req)
	}
}

func newSession() string { return "mcp:" + newHandle() }

func newHandle() string { return rand.Text() }

// refresh updates the offered tools. It notifies the clients if the list changed.
func (s *Server) refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	functions, tools, err := s.wanted()
	var gone []string
	for _, old := range s.offered {
		if !slices.ContainsFunc(functions, func(f export.Function) bool { return f.Name == old.Name }) {
			gone = append(gone, old.Name)
		}
	}
	if len(gone) > 0 {
		s.mcp.RemoveTools(gone...)
	}
	for i, f := range functions {
		if slices.ContainsFunc(s.offered, func(old export.Function) bool { return same(old, f) }) {
			continue
		}
		s.mcp.AddTool(tools[i], s.handler(f))
	}
	s.offered = functions
	return err
}

func same(a, b export.Function) bool {
	return a.Name == b.Name && a.Tool == b.Tool && a.Description == b.Description && string(a.Schema) == string(b.Schema)
}

// wanted returns the functions to offer, with their definitions for clients.
func (s *Server) wanted() ([]export.Function, []*mcp.Tool, error) {
	all := s.host.Tools()
	if s.opts.Tools != nil {
		all = slices.DeleteFunc(all, func(t host.Tool) bool { return !slices.Contains(s.opts.Tools, t.FullName) })
	}
	if s.opts.Single {
		f := export.Single(all)
		return []export.Function{f}, []*mcp.Tool{{Name: f.Name, Title: "Run a command", Description: f.Description, InputSchema: f.Schema}}, nil
	}
	functions, err := export.Functions(all)
	tools := make([]*mcp.Tool, len(functions))
	for i, f := range functions {
		t := all[slices.IndexFunc(all, func(t host.Tool) bool { return t.FullName == f.Tool })]
		tools[i] = &mcp.Tool{Name: f.Name, Description: f.Description, InputSchema: f.Schema, Annotations: annotations(t)}
	}
	return functions, tools, err
}

func annotations(t host.Tool) *mcp.ToolAnnotations {
	destructive, open := !t.Traits.ReadOnly && !t.Traits.AutoExecute, t.Category != "builtin" || t.FullName == "bash"
	return &mcp.ToolAnnotations{ReadOnlyHint: t.Traits.ReadOnly, IdempotentHint: t.Traits.Idempotent, DestructiveHint: &destructive, OpenWorldHint: &open}
}

// Close cancels the calls that wait for an answer.
func (s *Server) Close() {
	s.unfollow()
	s.parked.close()
}

const threeLayers = `toolhost runs one command line in three layers: agent tools (read, edit, grep, ...), field tools (field:NAME COMMAND), and bash for everything else.`

func instructions(single bool) string {
	if single {
		return threeLayers + ` The tool bash takes any of them. "help" lists the tools, and "NAME --help" describes one tool. ` +
			`Read a file before editing it. Prefer the tools to cat, sed and grep in the shell: they are faster, bounded, and checked.`
	}
	return threeLayers + ` Each tool is offered here under its own name, a field tool as NAME_COMMAND. Inside a script that you give to bash ` +
		`the field tools work too, as in: field:NAME COMMAND --q x | jq . ("help" there lists them). ` +
		`Read a file before editing it: an edit of a file that was not read, or that changed since, is refused. Prefer read, edit and grep to cat, sed and grep in bash.`
}
