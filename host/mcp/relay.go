package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// capabilities are all capabilities of the server. Clients see those that a mounted server offers; see onlyOffered.
//
//nolint:staticcheck // revisions before 2026-07-28 have logging
var capabilities = &mcp.ServerCapabilities{
	Tools: &mcp.ToolCapabilities{ListChanged: true}, Prompts: &mcp.PromptCapabilities{ListChanged: true},
	Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
	Completions: &mcp.CompletionCapabilities{}, Logging: &mcp.LoggingCapabilities{},
}

// relay offers what mounted servers have besides tools.
type relay struct {
	server   *Server
	unlisten func()

	mu      sync.Mutex
	offered []*host.Item
	watched map[*mcp.ServerSession]map[string]*subscription // by URI

	life context.Context //nolint:containedctx // ends with the server, as the goroutines that renew subscriptions must
	end  context.CancelFunc
}

func newRelay(s *Server) *relay {
	r := &relay{server: s, watched: make(map[*mcp.ServerSession]map[string]*subscription)}
	r.life, r.end = context.WithCancel(context.Background())
	r.unlisten = s.host.Listen(r.notified)
	return r
}

func (r *relay) close() {
	r.unlisten()
	r.end()
}

// items returns the items to offer. A server that offers only selected tools offers nothing else.
func (r *relay) items() []*host.Item {
	if r.server.opts.Tools != nil {
		return nil
	}
	return r.server.host.Items()
}

// refresh updates what the SDK's server offers. It notifies the clients if a list changed.
func (r *relay) refresh() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, items := r.server.mcp, r.items()
	for _, old := range r.offered {
		if slices.ContainsFunc(items,
			func(i *host.Item) bool { return i.Kind == old.Kind && i.Offered == old.Offered }) {
			continue
		}
		switch old.Kind {
		case tool.ItemPrompt:
			s.RemovePrompts(old.Offered)
		case tool.ItemResource:
			s.RemoveResources(old.Offered)
		case tool.ItemTemplate:
			s.RemoveResourceTemplates(old.Offered)
		case tool.ItemCompletion, tool.ItemLogging, tool.ItemSubscription:
		}
	}
	var errs []error
	for _, i := range items {
		if slices.ContainsFunc(r.offered, func(old *host.Item) bool {
			return i.Kind == old.Kind && i.Offered == old.Offered && i.Plugin == old.Plugin &&
				string(i.Definition) == string(old.Definition)
		}) {
			continue
		}
		if err := r.add(i); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", i.FullName(), err))
		}
	}
	r.offered = slices.Clone(items)
	return errors.Join(errs...)
}

// add offers one item.
func (r *relay) add(i *host.Item) error {
	s := r.server.mcp
	switch i.Kind {
	case tool.ItemPrompt:
		p := new(mcp.Prompt)
		if err := json.Unmarshal(i.Definition, p); err != nil {
			return err
		}
		p.Name = i.Offered
		return safely(func() { s.AddPrompt(p, r.server.getPrompt) })
	case tool.ItemResource:
		x := new(mcp.Resource)
		if err := json.Unmarshal(i.Definition, x); err != nil {
			return err
		}
		x.URI = i.Offered
		return safely(func() { s.AddResource(x, r.server.readResource) })
	case tool.ItemTemplate:
		t := new(mcp.ResourceTemplate)
		if err := json.Unmarshal(i.Definition, t); err != nil {
			return err
		}
		return safely(func() { s.AddResourceTemplate(t, r.server.readResource) })
	case tool.ItemCompletion, tool.ItemLogging, tool.ItemSubscription:
	}
	return nil
}

// find returns the item that clients know by the given name.
func (r *relay) find(kind tool.ItemKind, offered string) *host.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.offered {
		if i.Kind == kind && i.Offered == offered {
			return i
		}
	}
	return nil
}

// features returns which kinds of items are offered.
func (r *relay) features() map[tool.ItemKind]bool {
	out := make(map[tool.ItemKind]bool)
	for _, i := range r.items() {
		out[i.Kind] = true
	}
	return out
}

// offers reports whether the plugin of an item offers a feature.
func (r *relay) offers(plugin string, kind tool.ItemKind) bool {
	return slices.ContainsFunc(r.items(), func(i *host.Item) bool { return i.Plugin == plugin && i.Kind == kind })
}

// resource returns the item for a URI: a resource, or a resource of a template.
func (r *relay) resource(uri string) *host.Item {
	if i := r.find(tool.ItemResource, uri); i != nil {
		return i
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.offered {
		if i.Kind == tool.ItemTemplate && matches(i.Name, uri) {
			out := *i
			out.Item = tool.Item{Kind: tool.ItemResource, Name: uri}
			return &out
		}
	}
	return nil
}

// allowed reports whether a principal may use an item.
func (r *relay) allowed(p *host.Principal, kind tool.ItemKind, offered string) bool {
	i := r.find(kind, offered)
	if i == nil {
		return false
	}
	return p.ToolAllowed(i.Namespace, i.Item.FullName())
}

// onlyOffered rejects methods of capabilities that no mounted server offers, and does not announce them. Without it,
// the SDK would answer them with empty lists.
func (s *Server) onlyOffered(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		has := s.relay.features()
		for prefix, offered := range map[string]bool{
			"prompts/": has[tool.ItemPrompt], "resources/": has[tool.ItemResource] || has[tool.ItemTemplate],
			"completion/": has[tool.ItemCompletion], "logging/": has[tool.ItemLogging],
		} {
			if strings.HasPrefix(method, prefix) && !offered {
				return nil, &jsonrpc.Error{
					Code: jsonrpc.CodeMethodNotFound, Message: "no mounted server offers " + method,
				}
			}
		}
		if method == "subscriptions/listen" {
			ctx = context.WithValue(ctx, listenerKey{}, req.GetExtra())
		}
		if p, ok := req.GetParams().(*mcp.SetLoggingLevelParams); ok && method == "logging/setLevel" { //nolint:staticcheck // see capabilities
			s.setLevels(ctx, req, p)
		}
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err // the result can be a nil pointer
		}
		switch r := res.(type) {
		case *mcp.InitializeResult:
			out := *r
			out.Capabilities = announced(r.Capabilities, has)
			return &out, nil
		case *mcp.DiscoverResult:
			out := *r
			out.Capabilities = announced(r.Capabilities, has)
			return &out, nil
		}
		return res, nil
	}
}

// announced returns the capabilities that mounted servers offer.
//
//nolint:staticcheck // see capabilities
func announced(all *mcp.ServerCapabilities, has map[tool.ItemKind]bool) *mcp.ServerCapabilities {
	if all == nil {
		return nil
	}
	out := *all
	if !has[tool.ItemPrompt] {
		out.Prompts = nil
	}
	if !has[tool.ItemResource] && !has[tool.ItemTemplate] {
		out.Resources = nil
	} else if out.Resources != nil {
		out.Resources = &mcp.ResourceCapabilities{ListChanged: true, Subscribe: has[tool.ItemSubscription]}
	}
	if !has[tool.ItemCompletion] {
		out.Completions = nil
	}
	if !has[tool.ItemLogging] {
		out.Logging = nil
	}
	return &out
}

// exchange sends a request of a client to the plugin of an item.
func (s *Server) exchange(ctx context.Context, in *incoming, i *host.Item, method string, params any) (outcome, error) {
	in.place = s.place(i.Plugin)
	out, bad, err := s.serve(ctx, in, func() (host.Request, *tool.Error) {
		raw, err := json.Marshal(params)
		if err != nil {
			return host.Request{}, tool.AsError(err)
		}
		call := s.base(in)
		call.Name, call.Arguments = i.FullName(), raw
		call.Exchange = &host.Exchange{Plugin: i.Plugin, Method: method, Kind: i.Kind, Item: i.Name}
		return call, nil
	})
	if bad != nil {
		err = rpcError(bad)
	}
	if err == nil && out.result != nil && out.result.Error != nil {
		err = rpcError(out.result.Error)
	}
	return out, err
}

// rpcError converts the error of an exchange to an error of the protocol. The error of a mounted server keeps its code
// and its data.
func rpcError(e *tool.Error) error {
	out := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.Message, Data: e.Data}
	switch {
	case e.Source == tool.SourceTool && e.Code <= -32000 && e.Code >= -32768:
		out.Code = int64(e.Code)
	case e.Kind == tool.InvalidArguments || e.Kind == tool.NotFound:
		out.Code = jsonrpc.CodeInvalidParams
	}
	return out
}

// from converts a request that is not a tool call to an incoming request.
func from[P mcp.Params](req *mcp.ServerRequest[P], method, name string, args any) *incoming {
	raw, _ := json.Marshal(args) // the SDK decoded the arguments from JSON
	return &incoming{
		session: req.Session, extra: req.GetExtra(), version: req.ProtocolVersion(), caps: req.ClientCapabilities(),
		meta:  req.Params.GetMeta(),
		about: []string{method, name, string(raw)},
	}
}

func (s *Server) getPrompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	i := s.relay.find(tool.ItemPrompt, req.Params.Name)
	if i == nil {
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown prompt %q", req.Params.Name),
		}
	}
	in := from(req, "prompts/get", req.Params.Name, req.Params.Arguments)
	in.token, in.state, in.responses = req.Params.GetProgressToken(), req.Params.RequestState, req.Params.InputResponses
	out, err := s.exchange(ctx, in, i, "prompts/get", map[string]any{"name": i.Name, "arguments": req.Params.Arguments})
	switch {
	case err != nil:
		return nil, err
	case out.requests != nil:
		return &mcp.GetPromptResult{InputRequests: out.requests, RequestState: out.state}, nil
	}
	res := new(mcp.GetPromptResult)
	return res, decodeResult(out.result, res)
}

func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	i := s.relay.resource(req.Params.URI)
	if i == nil {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	in := from(req, "resources/read", req.Params.URI, nil)
	in.token, in.state, in.responses = req.Params.GetProgressToken(), req.Params.RequestState, req.Params.InputResponses
	out, err := s.exchange(ctx, in, i, "resources/read", map[string]any{"uri": i.Name})
	switch {
	case err != nil:
		return nil, err
	case out.requests != nil:
		return &mcp.ReadResourceResult{InputRequests: out.requests, RequestState: out.state}, nil
	}
	res := new(mcp.ReadResourceResult)
	if err := decodeResult(out.result, res); err != nil {
		return nil, err
	}
	for _, c := range res.Contents {
		if c != nil && c.URI == i.Name {
			c.URI = req.Params.URI
		}
	}
	return res, nil
}

// decodeResult reads the result of an exchange.
func decodeResult(res *tool.Result, into any) error {
	if err := json.Unmarshal(res.Data, into); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the mounted server sent a result that is not valid: " + err.Error()}
	}
	return nil
}

// complete answers a request for completions of the arguments of a prompt or a template.
func (s *Server) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	p := req.Params
	var i *host.Item
	ref := *p.Ref
	if ref.Type == "ref/prompt" {
		i = s.relay.find(tool.ItemPrompt, ref.Name)
	} else if i = s.relay.find(tool.ItemTemplate, ref.URI); i == nil {
		i = s.relay.resource(ref.URI)
	}
	if i == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown prompt or resource template"}
	}
	none := &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}
	if !s.relay.offers(i.Plugin, tool.ItemCompletion) {
		return none, nil
	}
	if ref.Type == "ref/prompt" {
		ref.Name = i.Name
	} else {
		ref.URI = i.Name
	}
	params := map[string]any{"ref": &ref, "argument": p.Argument}
	if p.Context != nil {
		params["context"] = p.Context
	}
	out, err := s.exchange(ctx, from(req, "completion/complete", i.Offered, params), i, "completion/complete", params)
	if err != nil || out.result == nil {
		return none, err
	}
	res := new(mcp.CompleteResult)
	err = decodeResult(out.result, res)
	return res, err
}

// setLevels passes the level of log messages on to the mounted servers. Their errors are ignored, because the SDK drops
// the messages below the level in any case.
//
//nolint:staticcheck // see capabilities
func (s *Server) setLevels(ctx context.Context, req mcp.Request, p *mcp.SetLoggingLevelParams) {
	session, ok := req.GetSession().(*mcp.ServerSession)
	if !ok {
		return
	}
	for _, i := range s.relay.items() {
		if i.Kind != tool.ItemLogging {
			continue
		}
		r := &mcp.ServerRequest[*mcp.SetLoggingLevelParams]{Session: session, Params: p, Extra: req.GetExtra()}
		_, _ = s.exchange(ctx, from(r, "logging/setLevel", i.Plugin, p), i, "logging/setLevel", p)
	}
}
