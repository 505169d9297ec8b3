package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/export"
)

// maxFound is the maximum number of found tools in the list of a session. A further tool replaces the oldest one.
const maxFound = 20

// lazy holds the state of a lazy endpoint: the tools that each session found. Only sessions of revisions before
// 2026-07-28 have such tools, because the lists of later revisions must not depend on earlier calls.
type lazy struct {
	// uses returns the number of calls of each tool when the server started. The order of namespaces depends on it, and
	// it must stay the same for the prompt caches of clients.
	uses func() map[string]int

	mu       sync.Mutex
	changes  int // number of changes of the list for all sessions
	sessions map[*mcp.ServerSession]*lazySession
}

type lazySession struct {
	found  []string // full names of tools, oldest first
	nudged bool     // whether the list of this session changed since its last notification
	seen   int      // number of changes of the list for all sessions that the session was notified of
}

// stateOf returns the state of a session until the session ends. The caller must hold the lock.
func (l *lazy) stateOf(session *mcp.ServerSession) *lazySession {
	out := l.sessions[session]
	if out == nil {
		out = &lazySession{seen: l.changes}
		if l.sessions == nil {
			l.sessions = make(map[*mcp.ServerSession]*lazySession)
		}
		l.sessions[session] = out
		go func() {
			_ = session.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.sessions, session)
		}()
	}
	return out
}

// enter begins to follow the changes of the list for a session. The session is notified of later changes.
func (l *lazy) enter(session *mcp.ServerSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stateOf(session)
}

// changed must be called after each change of the list for all sessions.
func (l *lazy) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
}

// add adds tools to the list of a session. It reports whether the list changed.
func (l *lazy) add(session *mcp.ServerSession, names []string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stateOf(session)
	before := slices.Clone(s.found)
	for _, name := range names {
		s.found = append(slices.DeleteFunc(s.found, func(old string) bool { return old == name }), name)
	}
	s.found = slices.Clone(s.found[max(0, len(s.found)-maxFound):])
	same := len(before) == len(s.found)
	for _, name := range s.found {
		same = same && slices.Contains(before, name)
	}
	s.nudged = s.nudged || !same
	return !same
}

// found returns the tools in the list of a session.
func (l *lazy) found(session *mcp.ServerSession) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[session]; s != nil {
		return slices.Clone(s.found)
	}
	return nil
}

// notify reports whether a session must be notified of a change of its list.
func (l *lazy) notify(session *mcp.ServerSession) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stateOf(session)
	needed := s.nudged || s.seen != l.changes
	s.nudged, s.seen = false, l.changes
	return needed
}

// remembers reports whether the list of a session can contain found tools.
func remembers(session *mcp.ServerSession) bool {
	if session == nil {
		return false
	}
	p := session.InitializeParams()
	return p != nil && p.ProtocolVersion < stateless
}

// lazily adds the found tools to the lists of sessions, and handles their calls. For each principal, it restricts the
// list of namespaces to the tools that the principal may call.
func (s *Server) lazily(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if s.opts.Endpoint == "" {
			return next(ctx, method, req)
		}
		session, _ := req.GetSession().(*mcp.ServerSession)
		switch call, _ := req.(*mcp.CallToolRequest); {
		case method == "tools/call" && call != nil:
			if f, ok := s.unlisted(call.Params.Name); ok {
				return next(context.WithValue(ctx, foundKey{}, f), method, renamed(call, findName))
			}
			res, err := next(ctx, method, req)
			if r, ok := res.(*mcp.CallToolResult); ok && err == nil && !r.IsError && call.Params.Name == findName &&
				remembers(session) {
				s.remember(ctx, session, call)
			}
			return res, err
		case method == "tools/list":
			if remembers(session) {
				s.lazy.enter(session)
			}
			res, err := next(ctx, method, req)
			if list, ok := res.(*mcp.ListToolsResult); ok && err == nil {
				return s.personal(list, session, principalOf(req.GetExtra())), nil
			}
			return res, err
		case method == "subscriptions/listen" && session != nil:
			s.lazy.enter(session)
		}
		return next(ctx, method, req)
	}
}

// foundKey is the key of the function that a call of a found tool runs. The SDK only knows listed tools, so such a call
// reaches the handler under the name of the search.
type foundKey struct{}

// called returns the function that a call runs. The argument is the function of the handler.
func called(ctx context.Context, f function) function {
	if found, ok := ctx.Value(foundKey{}).(function); ok {
		return found
	}
	return f
}

func renamed(call *mcp.CallToolRequest, name string) *mcp.CallToolRequest {
	out, params := *call, *call.Params
	params.Name = name
	out.Params = &params
	return &out
}

// unlisted returns the function of a tool that a lazy endpoint offers but does not list.
func (s *Server) unlisted(name string) (function, bool) {
	if _, listed := s.function(name); listed {
		return function{}, false
	}
	o := s.offer()
	if o.mode != modeLazy {
		return function{}, false
	}
	for _, t := range o.tools {
		if t.FunctionName == name && !replaced(&t) {
			functions, _ := definitions([]export.Function{{Name: name, Tool: t.FullName}}, o.tools)
			return functions[0], true
		}
	}
	return function{}, false
}

// remember adds the tools that a search found to the list of a session.
func (s *Server) remember(ctx context.Context, session *mcp.ServerSession, call *mcp.CallToolRequest) {
	var args struct {
		Query, Namespace string
		Limit            int
	}
	if json.Unmarshal(call.Params.Arguments, &args) != nil {
		return // the host accepts more forms of arguments; the answer has the commands in any case
	}
	q := host.SearchQuery{Principal: principalOf(call.GetExtra()), Endpoint: s.opts.Endpoint}
	q.Words, q.Namespace, q.Limit = args.Query, args.Namespace, args.Limit
	found, err := s.host.Search(ctx, q)
	if err != nil {
		return
	}
	var names []string
	for _, t := range slices.Backward(found.Tools) { // the best one stays longest
		if !s.lists(t.FullName) {
			names = append(names, t.FullName)
		}
	}
	if len(names) > 0 && s.lazy.add(session, names) {
		s.nudge()
	}
}

// lists reports whether all clients list a tool.
func (s *Server) lists(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return name == s.host.RoleName(tool.RoleShell) ||
		slices.ContainsFunc(s.offered, func(f function) bool { return f.Tool == name })
}

// nudge makes the SDK send notifications about a changed list. The middleware "onlyNeeded" drops the notifications for
// sessions whose list did not change.
func (s *Server) nudge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.offered {
		if f.Name == findName {
			s.mcp.AddTool(&mcp.Tool{Name: f.Name, Description: f.Description, InputSchema: f.Schema,
				Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, s.handler(f))
		}
	}
}

// onlyNeeded drops notifications of a changed list for sessions whose list did not change.
func (s *Server) onlyNeeded(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		session, _ := req.GetSession().(*mcp.ServerSession)
		if s.opts.Endpoint != "" && method == "notifications/tools/list_changed" && session != nil &&
			!s.lazy.notify(session) {
			return nil, nil //nolint:nilnil // a notification has no result
		}
		return next(ctx, method, req)
	}
}

// personal returns the list of tools for a session and a principal.
func (s *Server) personal(list *mcp.ListToolsResult, session *mcp.ServerSession,
	p *host.Principal) *mcp.ListToolsResult {
	if s.mode() != modeLazy {
		return list
	}
	var names []string
	if list.NextCursor == "" && session != nil {
		names = s.lazy.found(session)
	}
	if p == nil && len(names) == 0 {
		return list
	}
	o := s.offer()
	out := *list
	out.Tools = slices.Clone(list.Tools)
	for i, t := range out.Tools {
		if t.Name == export.SingleName && p != nil {
			mine := *t
			mine.Description = commandFunction(o.tools, s.lazy.uses(),
				func(t host.Tool) bool { return p.ToolAllowed(t.Namespace, t.Name) }).Description
			out.Tools[i] = &mine
		}
	}
	var found []host.Tool
	for _, name := range names {
		if i := slices.IndexFunc(o.tools, func(t host.Tool) bool { return t.FullName == name }); i >= 0 &&
			(p == nil || p.ToolAllowed(o.tools[i].Namespace, o.tools[i].Name)) {
			found = append(found, o.tools[i])
		}
	}
	functions, _ := export.Functions(found) // error ignored: a tool that cannot be exported is still found by its command
	_, tools := definitions(functions, found)
	out.Tools = append(out.Tools, tools...)
	return &out
}
