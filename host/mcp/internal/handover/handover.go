// Package handover lets a server continue MCP sessions over HTTP that began at another server, for example after that
// server ended.
package handover

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Store keeps descriptions of sessions for all servers. It must be safe for concurrent use.
type Store interface {
	// SaveClient saves the description of a session. It replaces an earlier one.
	SaveClient(ctx context.Context, id string, description []byte) error
	// FindClient returns the description of a session, or nil if there is no such session.
	FindClient(ctx context.Context, id string) ([]byte, error)
	// DropClient removes the description of a session.
	DropClient(ctx context.Context, id string) error
}

// maxDescription is the maximum size of a description, in bytes. A client with a longer description must begin a new
// session after its server has ended.
const maxDescription = 64 << 10

// description is what another server must know of a session.
type description struct {
	// Principal is the name of the principal that opened the session. It is empty for the local user.
	Principal string                 `json:"principal"`
	Endpoint  string                 `json:"endpoint"`
	State     mcp.ServerSessionState `json:"state"`
}

// Keeper saves the sessions of a server, and continues sessions of other servers.
type Keeper struct {
	server   *mcp.Server
	store    Store
	endpoint string
	idle     time.Duration
	log      *slog.Logger

	mu        sync.Mutex
	continued map[string]*continued
}

// continued is a session that began at another server.
type continued struct {
	transport *mcp.StreamableServerTransport
	session   *mcp.ServerSession
	principal string
	running   int
	timer     *time.Timer
}

// New returns a keeper for the sessions of an endpoint. A session without requests for the time idle is closed; it can
// be continued later.
func New(server *mcp.Server, store Store, endpoint string, idle time.Duration, log *slog.Logger) *Keeper {
	k := &Keeper{
		server: server, store: store, endpoint: endpoint, idle: idle, log: log, continued: make(map[string]*continued),
	}
	server.AddReceivingMiddleware(k.save)
	return k
}

// save saves a session before the client gets the answer to its first request, and its log level.
func (k *Keeper) save(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		session, ok := req.GetSession().(*mcp.ServerSession)
		if !ok || err != nil || session.ID() == "" {
			return res, err
		}
		principal := ""
		if extra := req.GetExtra(); extra != nil {
			principal = userOf(extra.TokenInfo)
		}
		var state mcp.ServerSessionState
		switch p := req.GetParams().(type) {
		case *mcp.InitializeParams:
			state.InitializeParams, state.InitializedParams = p, &mcp.InitializedParams{}
			if r, ok := res.(*mcp.InitializeResult); ok {
				state.NegotiatedProtocolVersion = r.ProtocolVersion
			}
		case *mcp.SetLoggingLevelParams: //nolint:staticcheck // revisions with sessions have it
			d, err := k.find(ctx, session.ID())
			if err != nil || d == nil {
				return res, nil //nolint:nilerr // the level is lost when the server ends
			}
			state = d.State
			state.LogLevel = p.Level
		default:
			return res, nil
		}
		k.keep(ctx, session.ID(), &description{Principal: principal, Endpoint: k.endpoint, State: state})
		return res, nil
	}
}

func (k *Keeper) keep(ctx context.Context, id string, d *description) {
	b, err := json.Marshal(d)
	if err == nil && len(b) > maxDescription {
		err = errors.New("the client sent too much about itself")
	}
	if err == nil {
		err = k.store.SaveClient(ctx, id, b)
	}
	if err != nil {
		k.log.Warn("an MCP session cannot be continued after the end of this host", "why", err)
	}
}

func userOf(t *auth.TokenInfo) string {
	if t == nil {
		return ""
	}
	return t.UserID
}

// find returns the description of a session of this endpoint, or nil.
func (k *Keeper) find(ctx context.Context, id string) (*description, error) {
	if !valid(id) {
		return nil, nil //nolint:nilnil // no server has such a session
	}
	b, err := k.store.FindClient(ctx, id)
	if err != nil || b == nil {
		return nil, err
	}
	d := new(description)
	if err := json.Unmarshal(b, d); err != nil || d.Endpoint != k.endpoint {
		return nil, err
	}
	return d, nil
}

// valid reports whether a text has the form of an id that the SDK makes.
func valid(id string) bool {
	return len(id) >= 16 && len(id) <= 64 && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// idHeader is the header with the id of a session.
const idHeader = "Mcp-Session-Id"

// Handler returns a handler that passes requests to next, and answers requests that next refuses because next does not
// know the session.
func (k *Keeper) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(idHeader)
		if id == "" {
			next.ServeHTTP(w, r)
			return
		}
		k.mu.Lock()
		c := k.continued[id]
		k.mu.Unlock()
		if c == nil {
			refused := &refusing{ResponseWriter: w}
			next.ServeHTTP(refused, r)
			if !refused.unknown {
				if r.Method == http.MethodDelete {
					k.drop(r.Context(), id)
				}
				return
			}
		}
		w.Header().Del("Content-Type") // of the answer that was held back
		k.serve(w, r, id)
	})
}

func (k *Keeper) drop(ctx context.Context, id string) {
	if valid(id) {
		_ = k.store.DropClient(ctx, id) // the error is ignored: the store forgets unused sessions on its own
	}
}

// refusing is a response writer that holds back the answer that a session is unknown.
type refusing struct {
	http.ResponseWriter
	unknown bool
}

func (r *refusing) WriteHeader(code int) {
	if r.unknown = code == http.StatusNotFound; !r.unknown {
		r.ResponseWriter.WriteHeader(code)
	}
}

func (r *refusing) Write(b []byte) (int, error) {
	if r.unknown {
		return len(b), nil
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap implements the method that [http.ResponseController] needs to flush.
func (r *refusing) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// serve answers a request of a session that began elsewhere.
func (k *Keeper) serve(w http.ResponseWriter, r *http.Request, id string) {
	c, err := k.open(r, id)
	if err != nil {
		http.Error(w, "the session cannot be continued now; try again: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	if c == nil {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	defer k.release(c)
	if r.Method == http.MethodDelete {
		k.drop(r.Context(), id)
		_ = c.session.Close() // the error is ignored: the session has ended
		w.WriteHeader(http.StatusNoContent)
		return
	}
	c.transport.ServeHTTP(w, r)
}

// open returns a session that began elsewhere. It returns nil if no server has the session, or if it belongs to another
// principal. The caller must call release.
func (k *Keeper) open(r *http.Request, id string) (*continued, error) {
	principal := userOf(auth.TokenInfoFromContext(r.Context()))
	k.mu.Lock()
	c := k.continued[id]
	k.mu.Unlock()
	if c == nil {
		d, err := k.find(r.Context(), id)
		if err != nil || d == nil || d.Principal != principal {
			return nil, err
		}
		if c, err = k.begin(r.Context(), id, d); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.principal != principal {
		return nil, nil //nolint:nilnil // the session stays hidden
	}
	c.running++
	c.timer.Stop()
	return c, nil
}

// begin continues a session. If two requests continue the same session at the same time, the first one counts.
func (k *Keeper) begin(ctx context.Context, id string, d *description) (*continued, error) {
	transport := &mcp.StreamableServerTransport{SessionID: id}
	session, err := k.server.Connect(context.WithoutCancel(ctx), transport, &mcp.ServerSessionOptions{State: &d.State})
	if err != nil {
		return nil, err
	}
	c := &continued{transport: transport, session: session, principal: d.Principal}
	c.timer = time.AfterFunc(k.idle, func() { _ = session.Close() }) // the error is ignored: the session has ended
	k.mu.Lock()
	defer k.mu.Unlock()
	if first := k.continued[id]; first != nil {
		go session.Close() //nolint:errcheck // nobody used it
		return first, nil
	}
	k.continued[id] = c
	go func() {
		_ = session.Wait() // the error is ignored: the client begins anew or continues
		k.mu.Lock()
		defer k.mu.Unlock()
		c.timer.Stop()
		delete(k.continued, id)
	}()
	return c, nil
}

func (k *Keeper) release(c *continued) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.running--; c.running == 0 {
		c.timer.Reset(k.idle)
	}
}
