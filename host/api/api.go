// Package api implements the HTTP interface of a host, with calls as JSON and MCP. [Handler] returns the interface, and
// [Reference] the list of its paths, which is docs/reference/http.md.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/batch"
	"toolhost.dev/host/export"
	"toolhost.dev/sdk/tool"
)

// MaxBody is the maximum size of a request body, in bytes. In a batch it is the maximum size of a line.
const MaxBody = 16 << 20

// Options configures the HTTP interface.
type Options struct {
	// Clients authenticates each request. Nil means that all clients have the rights of the local user. This is only
	// safe if no other user can connect to the handler.
	Clients *host.Directory
	// Token is the token of the only client.
	//
	// Deprecated: use Clients.
	Token string
	// Request holds the defaults of all calls. A session in a call overrides the default session.
	Request host.Request
	// MCP handles requests to /mcp. Nil disables /mcp.
	MCP http.Handler
	// Endpoints handles requests to /mcp/{endpoint}. Nil disables these paths.
	Endpoints http.Handler
	// Hosts lists the host names, without a port, that clients are allowed to use for the server. Nil means the names
	// of this machine. Requests with other names are rejected, because a web page can make its own host name resolve to
	// this server.
	Hosts []string
	// Asks is the queue of the asks that wait for an answer. Nil means a new queue for the calls over /v1 alone.
	Asks *Asks
	// AskTimeout limits the time that a call waits for an answer. Zero means 10 minutes.
	AskTimeout time.Duration
	// BodyTimeout limits the time in which a client sends the body of a request. It does not apply to a batch, whose
	// lines can come at any time. Zero means 2 minutes.
	BodyTimeout time.Duration
	// Doctor returns what the machine enforces, for /v1/doctor. Nil disables the path.
	Doctor func() (any, error)
	// Trust pins and approves plugins, for /v1/plugins. Nil disables the paths.
	Trust Trust
	// Console returns the handler of the web console. The handler gets the requests for [ConsolePaths], and must
	// authenticate its clients itself. The argument "api" is the interface without authentication. Requests to it must
	// have a principal in their context; see [WithPrincipal]. A nil Console means that there is no web console.
	Console func(api http.Handler) http.Handler
	// Log receives a warning for each rejected client. Nil discards them.
	Log *slog.Logger
}

// Handler returns the HTTP interface of a host.
func Handler(h *host.Host, opts Options) http.Handler {
	if opts.AskTimeout <= 0 {
		opts.AskTimeout = 10 * time.Minute
	}
	if opts.Clients == nil && opts.Token != "" {
		opts.Clients = h.Directory()
		opts.Clients.Secrets = []host.Secret{{Token: opts.Token, Principal: host.StartToken()}}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Hosts == nil {
		opts.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	s := &server{host: h, opts: opts, asks: opts.Asks}
	if s.asks == nil {
		s.asks = NewAsks(opts.AskTimeout)
	}
	calls := http.NewServeMux()
	for _, route := range s.routes() {
		calls.HandleFunc(route.method+" "+route.path, requires(route.needs, route.handler))
		calls.HandleFunc(route.path, only(route.method))
	}
	if opts.MCP != nil {
		calls.Handle("/mcp", requires("call", http.MaxBytesHandler(opts.MCP, MaxBody).ServeHTTP))
	}
	if opts.Endpoints != nil {
		calls.Handle("/mcp/{endpoint}", requires("call", http.MaxBytesHandler(opts.Endpoints, MaxBody).ServeHTTP))
	}
	calls.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		var known []string
		for _, route := range append(s.routes(), others...) {
			known = append(known, route.shown())
		}
		refuse(w, http.StatusNotFound, tool.NotFound,
			"unknown path "+r.URL.Path+"; use one of "+strings.Join(known, ", "))
	})
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, tool.Security,
			"the request comes from a web page of another origin; send it from a program, or from a page of this server")
	}))
	return hurried(s.named(origin.Handler(s.outer(calls))), cmp.Or(opts.BodyTimeout, bodyTimeout))
}

// only returns a handler that refuses all methods but the given one, which has a handler of its own.
func only(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		refuse(w, http.StatusMethodNotAllowed, tool.InvalidArguments,
			r.URL.Path+" does not support "+r.Method+"; use "+method)
	}
}

// outer returns the handler for all paths: the paths that need no token, the web console, and the paths for
// authenticated clients.
func (s *server) outer(calls http.Handler) *http.ServeMux {
	all := http.NewServeMux()
	all.HandleFunc("GET /healthz", s.healthz)
	all.HandleFunc("GET /readyz", s.readyz)
	all.HandleFunc("/healthz", only(http.MethodGet))
	all.HandleFunc("/readyz", only(http.MethodGet))
	all.HandleFunc("/.well-known/oauth-protected-resource", s.resource)
	all.HandleFunc("/.well-known/oauth-protected-resource/", s.resource)
	all.Handle("/", s.authenticated(calls))
	if s.opts.Console != nil {
		console := s.opts.Console(calls)
		for _, path := range ConsolePaths {
			all.Handle(path, console)
		}
	}
	return all
}

// Trust pins and approves plugins for a principal. The audit log names this principal.
type Trust interface {
	Pin(ctx context.Context, by *host.Principal, plugin string, acceptChanges bool) error
	Approve(ctx context.Context, by *host.Principal, plugin string) error
}

type server struct {
	host *host.Host
	opts Options
	asks *Asks
	// others contains the asks of other hosts.
	others otherAsks
}

// named rejects requests with an unknown name in the Host header. A web page can send such a request if its own host
// name resolves to this server.
func (s *server) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if h, _, err := net.SplitHostPort(r.Host); err == nil {
			name = h
		}
		name = strings.Trim(name, "[]")
		known := s.opts.Hosts
		if s.opts.Clients != nil {
			known = slices.Concat(known, s.opts.Clients.Names())
		}
		if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, http.StatusForbidden, tool.Security, fmt.Sprintf("this server does not have the name %q; use %s", name, strings.Join(known, ", ")))
	})
}

// ConsolePaths lists the patterns of the paths of the web console.
var ConsolePaths = []string{
	"/{$}", "/console/", "/login", "/login/", "/logout", "/asks", "/asks/", "/sessions", "/sessions/", "/tools",
	"/tools/", "/config", "/config/", "/audit", "/audit/", "/figures", "/doctor", "/calls/", "/rollouts", "/rollouts/", "/branches", "/branches/", "/fleet", "/fleet/",
}

// WithPrincipal returns a context with a principal. The web console uses it for requests to the handler that
// [Options.Console] gets.
func WithPrincipal(ctx context.Context, p *host.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principalKey is the key of the principal in the context of a request.
type principalKey struct{}

// Principal returns the principal of a request to the handler. It returns nil for the local user.
func Principal(ctx context.Context) *host.Principal {
	p, _ := ctx.Value(principalKey{}).(*host.Principal)
	return p
}

// authenticated rejects requests of unknown clients. It adds the principal of the client to the context of a request.
func (s *server) authenticated(next http.Handler) http.Handler {
	if s.opts.Clients == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := s.opts.Clients.Authenticate(r)
		if err != nil {
			// Log the details here. The answer to an unknown client must not contain more than it needs.
			s.opts.Log.Warn("a client was rejected", "from", r.RemoteAddr, "why", err)
			status, challenge := s.opts.Clients.Refusal(r, err)
			w.Header().Set("WWW-Authenticate", challenge)
			refusal := rejection()
			if status == http.StatusForbidden {
				refusal.Message = err.Error()
			}
			refuse(w, status, refusal.Kind, refusal.Message)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, p)))
	})
}

func rejection() *tool.Error {
	return &tool.Error{Kind: tool.PermissionDenied, Message: "the token is missing, wrong or expired; send the header Authorization: Bearer TOKEN", Source: tool.SourceHost}
}

// requires returns a handler for principals that have at least one of the rights.
func requires(rights string, next http.HandlerFunc) http.HandlerFunc {
	names := strings.Fields(rights)
	return func(w http.ResponseWriter, r *http.Request) {
		if p := Principal(r.Context()); p != nil &&
			!slices.ContainsFunc(p.Rights.Names(), func(right string) bool { return slices.Contains(names, right) }) {
			refuse(w, http.StatusForbidden, tool.PermissionDenied,
				fmt.Sprintf("principal %q needs the right %s for %s; ask the operator for it", p.Name, strings.Join(names, " or "), r.URL.Path))
			return
		}
		next(w, r)
	}
}

// run runs one request. The HTTP status is 200 even if the call failed. It is another one if the host made no call of
// the request: see [statusOf].
func (s *server) run(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		refuseBody(w, err, "")
		return
	}
	line := s.requests(r).One(r.Context(), body)
	code := statusOf(line)
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(line) // the error is ignored: the call was canceled when its client disconnected
}

// statusOf returns the HTTP status of a result line.
func statusOf(line []byte) int {
	var res struct{ Error *tool.Error }
	if json.Unmarshal(line, &res) != nil {
		return http.StatusOK
	}
	switch host.Reason(res.Error) {
	case host.ReasonRequest:
		return http.StatusBadRequest
	case host.ReasonWorkspace:
		return http.StatusForbidden
	case host.ReasonShutdown:
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func (s *server) requests(r *http.Request) batch.Batch {
	common := s.opts.Request
	common.Trace = r.Header.Get("traceparent")
	common.Principal = Principal(r.Context())
	return batch.Batch{Host: s.host, Request: common, Front: s.asks.Client(common.Principal), MaxLine: MaxBody}
}

// batch runs a stream of requests and sends each result as soon as possible.
func (s *server) batch(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // ignore the error: if it occurs, no deadline was set
	_ = c.EnableFullDuplex()           // ignore the error, because HTTP/2 is always full duplex
	w.Header().Set("Content-Type", "application/x-ndjson")
	b := s.requests(r)
	b.Ordered = r.URL.Query().Get("ordered") == "1"
	body, out := &authenticating{Reader: r.Body, clients: s.opts.Clients, request: r}, flushing{w, c}
	if r.URL.Query().Get("atomic") == "1" {
		end, err := b.RunAtomic(r.Context(), body, out)
		if err == nil {
			_, _ = out.Write(end.Line()) // error ignored: a disconnected client can find the changes in the audit log
		}
	} else {
		_ = b.Run(r.Context(), body, out) // ignore the error: either the client is gone, or it notices that answers are missing
	}
	if body.rejected != nil {
		s.opts.Log.Warn("a client was rejected", "from", r.RemoteAddr, "why", body.rejected)
		line, _ := json.Marshal(map[string]any{"id": nil, "success": false, "output": nil, "error": rejection()}) // the error is ignored, because these values can always be encoded
		_, _ = out.Write(append(line, '\n'))
	}
}

// authenticating reads the body of a batch, which can take long. It authenticates the client again with each part of
// the body that arrives. If the token expires or the rights are withdrawn meanwhile, the client cannot run more calls.
type authenticating struct {
	io.Reader
	clients  *host.Directory
	request  *http.Request
	rejected error
}

func (a *authenticating) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if a.clients == nil || n == 0 {
		return n, err
	}
	now, failed := a.clients.Authenticate(a.request)
	if failed == nil && !reflect.DeepEqual(now, Principal(a.request.Context())) {
		failed = errors.New("the rights of the principal changed")
	}
	if failed != nil {
		a.rejected = failed
		return 0, failed
	}
	return n, err
}

// flushing is a writer that flushes after each line.
type flushing struct {
	io.Writer
	c *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	return n, errors.Join(err, f.c.Flush())
}

func (s *server) tools(w http.ResponseWriter, r *http.Request) {
	tools := []host.Tool{}
	for _, t := range s.host.Tools() {
		if p := Principal(r.Context()); t.Enabled && (p == nil || p.ToolAllowed(t.Namespace, t.Name)) {
			tools = append(tools, t)
		}
	}
	format := export.Format(r.URL.Query().Get("format"))
	if format == "" || format == "json" {
		reply(w, http.StatusOK, tools)
		return
	}
	functions, err := export.Functions(tools)
	if r.URL.Query().Get("single") == "1" {
		functions, err = []export.Function{export.Single(tools)}, nil
	}
	var out strings.Builder
	if err = errors.Join(err, export.Write(&out, format, functions)); err != nil {
		refuse(w, http.StatusBadRequest, tool.InvalidArguments, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if format == export.XML || format == export.JSONPrompt {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	_, _ = io.WriteString(w, out.String())
}

// health checks a tool. If the client is not allowed to use the tool, it answers as for an unknown tool.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	namespace, short, field := strings.Cut(name, ":")
	if !field {
		namespace, short = "", name
	}
	if p := Principal(r.Context()); p != nil && !p.ToolAllowed(namespace, short) {
		reply(w, http.StatusNotFound, tool.Health{
			Status: tool.HealthNotFound, Message: "There is no tool " + name + ". GET /v1/tools lists the tools.",
		})
		return
	}
	health, status := s.host.Health(r.Context(), name), http.StatusOK
	if health.Status == tool.HealthNotFound {
		status = http.StatusNotFound
	}
	reply(w, status, health)
}

func (s *server) status(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, s.host.StatusFor(who(r)))
}

func (s *server) stats(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, s.host.Stats())
}

// refuse answers an invalid request with an error result.
func refuse(w http.ResponseWriter, code int, kind tool.Kind, message string) {
	reply(w, code, map[string]any{
		"success": false, "output": nil, "error": &tool.Error{Kind: kind, Message: message, Source: tool.SourceHost},
	})
}

// outcome answers with a value. If err is not nil, it answers with the error, under the given status and kind.
func outcome(w http.ResponseWriter, v any, err error, code int, kind tool.Kind) {
	if err != nil {
		refuse(w, code, kind, err.Error())
		return
	}
	reply(w, http.StatusOK, v)
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // ignore the error, because it means that the client disconnected
}
