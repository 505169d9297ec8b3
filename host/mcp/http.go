package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/mcp/internal/message"
)

// sessionTimeout limits the time that a client with a session can be idle.
const sessionTimeout = 30 * time.Minute

// Handler returns an HTTP handler for clients with and without sessions. The caller must authenticate clients, check
// Host and Origin, and limit the size of requests.
func (s *Server) Handler() http.Handler {
	get := func(*http.Request) *mcp.Server { return s.mcp }
	var sessions http.Handler = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Logger: s.opts.Log, SessionTimeout: sessionTimeout, MaxRequestBodyBytes: -1,
	})
	if s.keeper != nil {
		sessions = s.keeper.Handler(sessions)
	}
	none := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Logger: s.opts.Log, Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: -1,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		if r.Method == http.MethodPost && s.refused(w, r) {
			return
		}
		r.Header.Del(postHeader)
		out := &eventStream{ResponseWriter: w, every: s.comments}
		w = out
		if r.Method == http.MethodPost {
			id := s.posts.add(post{r.Context(), out})
			defer s.posts.remove(id)
			r.Header.Set(postHeader, id)
		}
		if listens := r.Method == http.MethodGet ||
			r.Header.Get("Mcp-Method") == "subscriptions/listen"; listens && !s.silent() {
			out.begin()
			defer out.end()
		}
		// Compare the protocol revisions as text, because they are dates in the form 2006-01-02.
		if r.Header.Get("Mcp-Protocol-Version") >= stateless {
			none.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}

// refused answers a request whose body is no valid message with status 400 and an error of JSON-RPC. The SDK would
// answer with plain text, and would change some ids.
func (s *Server) refused(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil { // the SDK gets the same error when it reads on
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
		return false
	}
	line := message.Trim(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(line)), int64(len(line))
	if len(line) == 0 {
		return false
	}
	m := message.Read(line)
	revision := r.Header.Get("Mcp-Protocol-Version")
	switch {
	case m.Kind != message.Array:
		m = m.ForHTTP()
	case revision >= noBatches:
		m = message.NewInvalid("The message is a batch, and revision %s of the protocol has none. Send one message per request.", revision)
	case len(m.Elements) == 0 || len(m.Elements) > maxBatch:
		m = message.NewInvalid("The batch has %d messages. From 1 to %d are allowed.", len(m.Elements), maxBatch)
	default:
		for _, element := range m.Elements {
			if m = message.One(element).ForHTTP(); m.Kind == message.Invalid {
				break
			}
		}
	}
	if m.Kind != message.Invalid {
		return false
	}
	s.opts.Log.Warn("a message of a client was rejected", "why", m.Problem)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusBadRequest)
	//nolint:gosec // it is JSON, and not shown as a page; the error is ignored, because the client is gone
	_, _ = w.Write(errorLine(m.ID, &jsonrpc.Error{Code: int64(m.Code), Message: m.Problem}))
	return true
}

// postHeader is the header that connects a call with its HTTP request. Handler overwrites a value that a client sends.
const postHeader = "Toolhost-Request"

// post is an HTTP request with its response.
type post struct {
	ctx context.Context
	out *eventStream
}

// posts contains the HTTP requests that are being answered. The SDK does not end a call of a session when the
// connection of its request is lost, because a client could read the response on another connection. This server keeps
// no responses, so nobody could get it.
type posts struct {
	mu   sync.Mutex
	last uint64
	by   map[string]post
}

func (p *posts) add(one post) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = make(map[string]post)
	}
	p.last++
	id = strconv.FormatUint(p.last, 10)
	p.by[id] = one
	return id
}

func (p *posts) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.by, id)
}

// follow returns a context that also ends with the HTTP request that has the id. If comments is true, the response gets
// comments while the call is silent. The caller must call done before it returns the result.
func (p *posts) follow(ctx context.Context, id string, comments bool) (_ context.Context, done func()) {
	if id == "" {
		return ctx, func() {}
	}
	p.mu.Lock()
	one, ok := p.by[id]
	p.mu.Unlock()
	if !ok {
		return ctx, func() {}
	}
	if comments {
		one.out.begin()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(one.ctx, func() { cancel(context.Cause(one.ctx)) })
	return ctx, func() {
		if comments {
			one.out.end()
		}
		stop()
		cancel(nil)
	}
}
