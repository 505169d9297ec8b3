package mcp

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
)

// extraPrincipal is the key of the principal in the token information of a request.
const extraPrincipal = "toolhost.dev/principal"

// Authenticated returns a handler that passes the principal of each request to [Server.Handler]. The function principal
// returns nil for the local user. A connection belongs to the principal that opened it: requests of other principals in
// the same connection are rejected.
func Authenticated(next http.Handler, principal func(*http.Request) *host.Principal) http.Handler {
	verify := func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		p := principal(r)
		return &auth.TokenInfo{UserID: p.Name, Expiration: time.Now().Add(time.Hour), Extra: map[string]any{extraPrincipal: p}}, nil
	}
	passing := auth.RequireBearerToken(verify, nil)(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if principal(r) == nil {
			next.ServeHTTP(w, r)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer authenticated") // the SDK requires a token; verify ignores it
		passing.ServeHTTP(&hiding{ResponseWriter: w}, r)
	})
}

// hiding is a response writer that answers requests in a connection of another principal like requests in an unknown
// connection. The SDK answers them with a status of their own.
type hiding struct {
	http.ResponseWriter
	hidden bool
}

func (h *hiding) WriteHeader(code int) {
	if h.hidden = code == http.StatusForbidden; h.hidden {
		http.Error(h.ResponseWriter, "session not found", http.StatusNotFound)
		return
	}
	h.ResponseWriter.WriteHeader(code)
}

func (h *hiding) Write(b []byte) (int, error) {
	if h.hidden {
		return len(b), nil
	}
	return h.ResponseWriter.Write(b)
}

// Unwrap implements the method that [http.ResponseController] needs to flush.
func (h *hiding) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// principalOf returns the principal of a request. It returns nil for the local user.
func principalOf(extra *mcp.RequestExtra) *host.Principal {
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	p, _ := extra.TokenInfo.Extra[extraPrincipal].(*host.Principal)
	return p
}

// ownerOf returns the name of the principal that sent a request. It is empty for the local user.
func ownerOf(req *mcp.CallToolRequest) string {
	if e := req.GetExtra(); e != nil && e.TokenInfo != nil {
		return e.TokenInfo.UserID
	}
	return ""
}

// onlyAllowed removes the tools that the principal may not call from lists of tools.
func (s *Server) onlyAllowed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		list, ok := res.(*mcp.ListToolsResult)
		p := principalOf(req.GetExtra())
		if !ok || err != nil || p == nil {
			return res, err
		}
		out := *list
		out.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *mcp.Tool) bool { return !s.allowed(p, t.Name) })
		return &out, nil
	}
}

// allowed reports whether a principal may call the tool of an offered function.
func (s *Server) allowed(p *host.Principal, function string) bool {
	s.mu.Lock()
	full := ""
	for _, f := range s.offered {
		if f.Name == function {
			full = f.Tool
		}
	}
	s.mu.Unlock()
	if full == "" { // the single tool, whose commands are checked when they run
		return true
	}
	for _, t := range s.host.Tools() {
		if t.FullName == full {
			return p.ToolAllowed(t.Namespace, t.Name)
		}
	}
	return false
}

// keySession is the key of a client's handle in the metadata of requests and results.
const keySession = metaPrefix + "session"

// maxHandle is the maximum length of a handle.
const maxHandle = 128

// handleOf returns the handle that a client sent back, or "".
func handleOf(req *mcp.CallToolRequest) string {
	handle, _ := req.Params.Meta[keySession].(string)
	if len(handle) > maxHandle {
		return ""
	}
	return handle
}

// addHandle adds a handle to the result if the client has neither a connection nor a handle.
func (s *Server) addHandle(req *mcp.CallToolRequest, res *mcp.CallToolResult) *mcp.CallToolResult {
	if res == nil || s.opts.Session != "" || req.ProtocolVersion() < stateless || req.GetExtra() == nil || req.GetExtra().Header == nil || handleOf(req) != "" {
		return res
	}
	out := *res
	out.Meta = mcp.Meta{keySession: newHandle()}
	for k, v := range res.Meta {
		out.Meta[k] = v
	}
	return &out
}
