package mcp

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionTimeout limits the time that a client with a session can be idle.
const sessionTimeout = 30 * time.Minute

// Handler returns an HTTP handler for clients with and without sessions. The caller must authenticate clients, check
// Host and Origin, and limit the size of requests.
func (s *Server) Handler() http.Handler {
	get := func(*http.Request) *mcp.Server { return s.mcp }
	sessions := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Logger: s.opts.Log, SessionTimeout: sessionTimeout, MaxRequestBodyBytes: -1})
	none := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Logger: s.opts.Log, Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: -1})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del(postHeader)
		// Compare the protocol revisions as text, because they are dates in the form 2006-01-02.
		if r.Header.Get("Mcp-Protocol-Version") >= stateless {
			none.ServeHTTP(w, r)
			return
		}
		r = r.Clone(r.Context())
		id := s.posts.add(r.Context())
		defer s.posts.remove(id)
		r.Header.Set(postHeader, id)
		sessions.ServeHTTP(w, r)
	})
}

// postHeader is the header with which a call finds its HTTP request. Handler replaces what a client sends.
const postHeader = "Toolhost-Request"

// posts contains the contexts of the HTTP requests of clients with sessions. The SDK does not end a call when the
// connection of its request is lost, because a client could read the response on another connection. This server keeps no
// responses, so nobody could get it.
type posts struct {
	mu   sync.Mutex
	last uint64
	by   map[string]context.Context
}

func (p *posts) add(ctx context.Context) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = make(map[string]context.Context)
	}
	p.last++
	id = strconv.FormatUint(p.last, 10)
	p.by[id] = ctx
	return id
}

func (p *posts) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, id)
}

// follow returns a context that also ends with the HTTP request that has the id. The caller must call done.
func (p *posts) follow(ctx context.Context, id string) (_ context.Context, done func()) {
	p.mu.Lock()
	post := p.by[id]
	p.mu.Unlock()
	if post == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(post, func() { cancel(context.Cause(post)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
