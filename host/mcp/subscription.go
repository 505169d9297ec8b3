package mcp

import (
	"context"
	"encoding/json"
	"maps"

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

// subscription is the subscription of a client to a resource.
type subscription struct {
	item *host.Item
	in   *incoming // makes the exchanges of the subscription for the client
	made bool      // whether the plugin has made it; protected by relay.mu
}

// plugged identifies a subscription of a plugin. Several clients can share it, because clients without connections can
// share a session of the host.
type plugged struct{ owner, session, plugin, item string }

func (s *Server) plugged(sub *subscription) plugged {
	session, _ := s.sessionOf(sub.in)
	return plugged{owner(sub.in), session, sub.item.Plugin, sub.item.Name}
}

// owner returns the principal of a request as the notices of plugins name it.
func owner(in *incoming) string {
	if p := principalOf(in.extra); p != nil {
		return p.Owner()
	}
	return ""
}

// listenerKey is the key of a context for the additional information of the request subscriptions/listen. The SDK does
// not pass it on to the handlers of single subscriptions.
type listenerKey struct{}

// subscribing returns a request for a subscription as an incoming request.
func subscribing[P mcp.Params](ctx context.Context, req *mcp.ServerRequest[P], method, uri string) *incoming {
	in := from(req, method, uri, nil)
	if in.extra == nil {
		in.extra, _ = ctx.Value(listenerKey{}).(*mcp.RequestExtra)
	}
	return in
}

// subscribe subscribes a client to a resource. The plugin subscribes the session; the SDK sends the notifications.
func (s *Server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri := req.Params.URI
	i := s.relay.resource(uri)
	if i == nil {
		return mcp.ResourceNotFoundError(uri)
	}
	if !s.relay.offers(i.Plugin, tool.ItemSubscription) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the server of this resource does not support subscriptions"}
	}
	in := subscribing(ctx, req, "resources/subscribe", uri)
	again := *in // asks the client nothing, because nobody waits for the answer
	again.caps = nil
	sub := &subscription{item: i, in: &again}
	first, ok := s.relay.watch(req.Session, uri, sub)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the client has too many subscriptions; end another one first"}
	}
	if first {
		go s.unwatch(req.Session) //nolint:gosec // it waits for the end of the connection, not of the request
	}
	_, err := s.exchange(ctx, in, i, "resources/subscribe", map[string]any{"uri": i.Name})
	if err != nil {
		s.relay.forget(req.Session, uri)
		return err
	}
	s.relay.mu.Lock()
	sub.made = true
	s.relay.mu.Unlock()
	return nil
}

// unsubscribe ends the subscription of a client.
func (s *Server) unsubscribe(ctx context.Context, req *mcp.UnsubscribeRequest) error {
	sub := s.relay.forget(req.Session, req.Params.URI)
	if sub == nil {
		return nil
	}
	return s.release(context.WithoutCancel(ctx), sub)
}

// unwatch ends the subscriptions of a client that disconnected.
func (s *Server) unwatch(session *mcp.ServerSession) {
	_ = session.Wait()
	s.relay.mu.Lock()
	all := s.relay.watched[session]
	delete(s.relay.watched, session)
	s.relay.mu.Unlock()
	for _, sub := range all {
		_ = s.release(context.Background(), sub) // the error is ignored, because nobody waits for it
	}
}

// release ends a subscription of a plugin if no client needs it any more.
func (s *Server) release(ctx context.Context, sub *subscription) error {
	if s.needed(sub) {
		return nil
	}
	params := map[string]any{"uri": sub.item.Name}
	_, err := s.exchange(ctx, sub.in, sub.item, "resources/unsubscribe", params)
	if s.needed(sub) { // another client subscribed meanwhile
		_, err = s.exchange(ctx, sub.in, sub.item, "resources/subscribe", params)
	}
	return err
}

// needed reports whether a client needs the plugin's subscription.
func (s *Server) needed(sub *subscription) bool {
	key := s.plugged(sub)
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	for _, own := range s.relay.watched {
		for _, other := range own {
			if s.plugged(other) == key {
				return true
			}
		}
	}
	return false
}

// watch records a subscription. It reports whether it is the first one of the client, and whether the client may have
// another one.
func (r *relay) watch(session *mcp.ServerSession, uri string, sub *subscription) (first, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.watched[session]
	if len(own) >= maxSubscriptions && own[uri] == nil {
		return false, false
	}
	if own == nil {
		own, first = make(map[string]*subscription), true
		r.watched[session] = own
	}
	own[uri] = sub
	return first, true
}

// forget removes a subscription and returns it. It returns nil for an unknown subscription.
func (r *relay) forget(session *mcp.ServerSession, uri string) *subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	sub := r.watched[session][uri]
	delete(r.watched[session], uri)
	return sub
}

// watching is a subscription with its client and the URI that the client uses.
type watching struct {
	*subscription
	session *mcp.ServerSession
	uri     string
}

// concerned returns the subscriptions that a notice concerns. Each principal has processes of its own, and a notice is
// for the principal of its process.
func (r *relay) concerned(n host.Notice, matches func(*subscription) bool) []watching {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []watching
	for session, own := range r.watched {
		for uri, sub := range own {
			if sub.item.Plugin == n.Plugin && owner(sub.in) == n.Owner && matches(sub) {
				out = append(out, watching{sub, session, uri})
			}
		}
	}
	return out
}

// notified handles the notification of a plugin. The feed of notifications must not wait for a client.
func (r *relay) notified(n host.Notice) {
	var p struct {
		URI string `json:"uri"`
	}
	switch {
	case n.Started:
		if lost := r.concerned(n, func(sub *subscription) bool { return sub.made }); len(lost) > 0 {
			go r.renew(lost)
		}
	case n.Method == tool.NotifyResourceUpdated && json.Unmarshal(n.Params, &p) == nil:
		if all := r.concerned(n, func(sub *subscription) bool { return sub.item.Name == p.URI }); len(all) > 0 {
			go r.tell(all)
		}
	}
}

// renew makes subscriptions again that a new process of their plugin does not know. Their clients are notified, because
// changes could have been missed meanwhile.
func (r *relay) renew(lost []watching) {
	var renewed []watching
	done := make(map[plugged]bool) // whether the plugin made the subscription again
	for _, w := range lost {
		key := r.server.plugged(w.subscription)
		made, asked := done[key]
		if !asked {
			out, err := r.server.exchange(r.life, w.in, w.item, "resources/subscribe", map[string]any{
				"uri": w.item.Name,
			})
			if err != nil && r.life.Err() == nil {
				r.server.opts.Log.Warn("a subscription could not be renewed", "resource", w.uri, "why", err)
			}
			made = err == nil && out.result != nil && !tool.WasSubscribed(out.result.Data)
			done[key] = made
		}
		if made {
			renewed = append(renewed, w)
		}
		if !r.server.needed(w.subscription) { // the client disconnected meanwhile
			_ = r.server.release(r.life, w.subscription) // the error is ignored, because nobody waits for it
		}
	}
	r.tell(renewed)
}

// tell notifies clients that their resources changed.
func (r *relay) tell(all []watching) {
	to := make(map[string]map[*mcp.ServerSession]bool)
	for _, w := range all {
		if to[w.uri] == nil {
			to[w.uri] = make(map[*mcp.ServerSession]bool)
		}
		to[w.uri][w.session] = true
	}
	for uri, sessions := range to {
		_ = r.server.mcp.ResourceUpdated(r.life, &mcp.ResourceUpdatedNotificationParams{
			Meta: mcp.Meta{keyRecipients: sessions}, URI: uri,
		}) // the error is ignored, because a client can have disconnected
	}
}

// keyRecipients is the key of the recipients in a notification. The middleware "onlySubscribed" removes it.
const keyRecipients = metaPrefix + "recipients"

// onlySubscribed drops notifications of a changed resource for clients that did not subscribe to the resource of this
// process. The SDK would notify all clients that subscribed to the same URI.
func (s *Server) onlySubscribed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		p, ok := req.GetParams().(*mcp.ResourceUpdatedNotificationParams)
		if !ok {
			return next(ctx, method, req)
		}
		session, _ := req.GetSession().(*mcp.ServerSession)
		if to, _ := p.Meta[keyRecipients].(map[*mcp.ServerSession]bool); !to[session] {
			return nil, nil //nolint:nilnil // a notification has no result
		}
		own := *p
		own.Meta = maps.Clone(p.Meta)
		delete(own.Meta, keyRecipients)
		return next(ctx, method, &mcp.ServerRequest[*mcp.ResourceUpdatedNotificationParams]{
			Session: session, Params: &own,
		})
	}
}
