package mcp

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// maxSubscriptions is the maximum number of subscriptions of a client.
const maxSubscriptions = 100

// matches reports whether a URI fits a URI template.
func matches(template, uri string) bool {
	t, err := uritemplate.New(template)
	return err == nil && t.Regexp().MatchString(uri)
}

// subscribe subscribes a client to a resource. The plugin subscribes the session; the SDK sends the notifications.
func (s *Server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri := req.Params.URI
	i := s.relay.resource(uri)
	if i == nil {
		return mcp.ResourceNotFoundError(uri)
	}
	if !s.relay.has(i.Plugin, tool.ItemSubscription) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the server of this resource does not support subscriptions"}
	}
	first, ok := s.relay.watch(req.Session, uri, i)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the client has too many subscriptions; end another one first"}
	}
	if first {
		go s.unwatch(req.Session) //nolint:gosec // it waits for the end of the connection, not of the request
	}
	in := from(req, "resources/subscribe", uri, nil)
	_, err := s.exchange(ctx, in, i, "resources/subscribe", map[string]any{"uri": i.Name})
	if err != nil {
		s.relay.forget(req.Session, uri)
	}
	return err
}

// unsubscribe ends the subscription of a client.
func (s *Server) unsubscribe(ctx context.Context, req *mcp.UnsubscribeRequest) error {
	i := s.relay.forget(req.Session, req.Params.URI)
	if i == nil {
		return nil
	}
	in := from(req, "resources/unsubscribe", req.Params.URI, nil)
	_, err := s.exchange(context.WithoutCancel(ctx), in, i, "resources/unsubscribe", map[string]any{"uri": i.Name})
	return err
}

// unwatch ends the subscriptions of a client that disconnected.
func (s *Server) unwatch(session *mcp.ServerSession) {
	_ = session.Wait()
	s.relay.mu.Lock()
	all := s.relay.watched[session]
	delete(s.relay.watched, session)
	s.relay.mu.Unlock()
	for uri, i := range all {
		in := &incoming{session: session, about: []string{"resources/unsubscribe", uri}}
		_, _ = s.exchange(context.Background(), in, i, "resources/unsubscribe", map[string]any{"uri": i.Name}) // the error is ignored, because nobody waits for it
	}
}

// watch records a subscription. It reports whether it is the first one of the client, and whether the client may have
// another one.
func (r *relay) watch(session *mcp.ServerSession, uri string, i *host.Item) (first, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.watched[session]
	if len(own) >= maxSubscriptions && own[uri] == nil {
		return false, false
	}
	if own == nil {
		own, first = make(map[string]*host.Item), true
		r.watched[session] = own
	}
	own[uri] = i
	return first, true
}

// forget removes a subscription and returns its item. It returns nil for an unknown subscription.
func (r *relay) forget(session *mcp.ServerSession, uri string) *host.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.watched[session][uri]
	delete(r.watched[session], uri)
	return i
}

// notified handles the notification of a plugin.
func (r *relay) notified(n host.Notice) {
	var p struct {
		URI string `json:"uri"`
	}
	if n.Method != tool.NotifyResourceUpdated || json.Unmarshal(n.Params, &p) != nil {
		return
	}
	r.mu.Lock()
	var offered []string
	for _, own := range r.watched {
		for uri, i := range own {
			if i.Plugin == n.Plugin && i.Name == p.URI && !slices.Contains(offered, uri) {
				offered = append(offered, uri)
			}
		}
	}
	r.mu.Unlock()
	for _, uri := range offered {
		go func() { // the feed of notifications must not wait for a client
			_ = r.server.mcp.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri}) // the error is ignored, because a client can have disconnected
		}()
	}
}
