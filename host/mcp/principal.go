package mcp

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// extraPrincipal is the key of the principal in the token information of a request.
const extraPrincipal = "toolhost.dev/principal"

// Authenticated returns a handler that passes the principal of each request to [Server.Handler]. The function
// "principal" returns nil for the local user. A connection belongs to the principal that opened it: requests of other
// principals in the same connection are rejected.
func Authenticated(next http.Handler, principal func(*http.Request) *host.Principal) http.Handler {
	verify := func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		p := principal(r)
		return &auth.TokenInfo{UserID: p.Name, Expiration: time.Now().Add(time.Hour),
			Extra: map[string]any{extraPrincipal: p}}, nil
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

// hiding is a response writer. It answers requests in a connection of another principal like requests in an unknown
// connection. The SDK would answer such requests with a different status.
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

// onlyAllowed removes what the principal may not use from lists.
func (s *Server) onlyAllowed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		p := s.caller(req.GetExtra())
		if err != nil || p == nil {
			return res, err
		}
		switch list := res.(type) {
		case *mcp.ListToolsResult:
			out, denied := *list, s.denied(p)
			out.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *mcp.Tool) bool { return denied[t.Name] })
			return &out, nil
		case *mcp.ListPromptsResult:
			out := *list
			out.Prompts = slices.DeleteFunc(slices.Clone(list.Prompts), func(x *mcp.Prompt) bool {
				return !s.relay.allowed(p, tool.ItemPrompt, x.Name)
			})
			return &out, nil
		case *mcp.ListResourcesResult:
			out := *list
			out.Resources = slices.DeleteFunc(slices.Clone(list.Resources), func(x *mcp.Resource) bool {
				return !s.relay.allowed(p, tool.ItemResource, x.URI)
			})
			return &out, nil
		case *mcp.ListResourceTemplatesResult:
			out := *list
			out.ResourceTemplates = slices.DeleteFunc(slices.Clone(list.ResourceTemplates),
				func(x *mcp.ResourceTemplate) bool {
					return !s.relay.allowed(p, tool.ItemTemplate, x.URITemplate)
				})
			return &out, nil
		}
		return res, err
	}
}

// denied returns the names of the offered functions whose tools a principal must not call. The method "personal" checks
// the found tools of a session.
func (s *Server) denied(p *host.Principal) map[string]bool {
	allowed := map[string]bool{"": true, searchTool: true} // the commands of the single tool are checked when they run
	for _, t := range s.host.Tools() {
		allowed[t.FullName] = p.ToolAllowed(t.Namespace, t.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]bool)
	for _, f := range s.offered {
		out[f.Name] = !allowed[f.Tool]
	}
	return out
}

// keySession is the key of a client's handle in the metadata of requests and results.
const keySession = metaPrefix + "session"

// addHandle adds a handle to the result if the client has neither a connection nor a handle.
func (s *Server) addHandle(in *incoming, res *mcp.CallToolResult) *mcp.CallToolResult {
	if res == nil || s.opts.Session != "" || in.version < stateless || in.extra == nil || in.extra.Header == nil ||
		in.handle() != "" {
		return res
	}
	out := *res
	out.Meta = mcp.Meta{keySession: newHandle()}
	for k, v := range res.Meta {
		out.Meta[k] = v
	}
	return &out
}
