// Package console implements the web console of a host. It shows what agents do, lets people answer asks, and lets
// operators change plugins and configurations. [New] returns the console, and [Console.Handler] serves it.
//
// The console uses only the HTTP interface of package api, so it can do nothing that a program with a token cannot do.
// Pages are rendered by the server and work without JavaScript for reading.
package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/api"
)

//go:embed assets
var assets embed.FS

//go:embed pages
var pages embed.FS

// Options configures a console.
type Options struct {
	// Authenticate returns the principal of a request with a token.
	Authenticate func(*http.Request) (*host.Principal, error)
	// Issuers logs people in at OpenID Connect providers. A nil Issuers has no providers.
	Issuers Issuers
	// Secure restricts the cookie to encrypted connections. Set it unless the server listens on a loopback address.
	Secure bool
	// Fleet shows the page of the fleet. Set it for a node of a fleet.
	Fleet bool
	// Log receives a message for each successful and each rejected login. A nil Log discards the messages.
	Log *slog.Logger
}

// Console is a web console. It is safe for concurrent use.
type Console struct {
	opts   Options
	api    http.Handler
	views  map[string]*template.Template
	figure figures
	kept   kept

	mu       sync.Mutex
	codes    map[string]time.Time // one-time codes, with the times when they expire
	sessions map[string]*session
	visits   map[string]*visit // logins that have begun at a provider, by their state
}

// New returns a console.
func New(opts Options) *Console {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	c := &Console{opts: opts, views: make(map[string]*template.Template), codes: make(map[string]time.Time),
		sessions: make(map[string]*session), visits: make(map[string]*visit)}
	names, err := fs.Glob(pages, "pages/*.html")
	if err != nil { // impossible, because the pattern is valid
		panic(err)
	}
	for _, name := range names {
		if name != "pages/layout.html" {
			c.views[name[len("pages/"):len(name)-len(".html")]] = template.Must(template.New("layout.html").
				Funcs(functions).ParseFS(pages, "pages/layout.html", name))
		}
	}
	return c
}

// codeLife is the time for which a one-time link is valid.
const codeLife = 5 * time.Minute

// Link returns the path of a one-time link that logs the local user in.
func (c *Console) Link() string {
	code := rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	for known, until := range c.codes {
		if time.Now().After(until) {
			delete(c.codes, known)
		}
	}
	c.codes[code] = time.Now().Add(codeLife)
	return "/login?code=" + code
}

// policy is the content security policy of all pages. It permits no inline script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Handler returns the console. The argument "api" is the interface that the console uses; see [api.Options].
func (c *Console) Handler(api http.Handler) http.Handler {
	c.api = api
	static, err := fs.Sub(assets, "assets")
	if err != nil { // impossible, because the directory is embedded
		panic(err)
	}
	mux := http.NewServeMux()
	files := http.StripPrefix("/console/assets/", http.FileServerFS(static))
	mux.HandleFunc("GET /console/assets/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		files.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /login", c.loginPage)
	mux.HandleFunc("POST /login", c.login)
	mux.HandleFunc("POST /login/provider", c.beginOIDC)
	mux.HandleFunc("GET "+callback, c.endOIDC)
	mux.HandleFunc("POST /logout", c.loggedIn(c.logout))
	mux.HandleFunc("GET /console/events", c.loggedIn(c.events))
	mux.HandleFunc("GET /console/figures", c.loggedIn(c.series))
	mux.HandleFunc("GET /audit/export", c.loggedIn(c.export))
	for path, name := range map[string]string{
		"/{$}": "now", "/asks": "asks", "/sessions": "sessions", "/tools": "tools", "/tools/{name}": "tool",
		"/config": "config", "/audit": "audit", "/figures": "figures", "/doctor": "doctor", "/rollouts": "rollouts", "/branches": "branches", "/fleet": "fleet",
	} {
		mux.HandleFunc("GET "+path, c.loggedIn(c.page(name)))
	}
	for path, handler := range map[string]action{
		"/calls/{id}/cancel": c.cancelCall, "/asks/{id}": c.answerAsk, "/sessions/undo": c.undo, "/tools/{name}/switch": c.switchTool,
		"/tools/reload": c.reloadPlugin, "/config/reload": c.reloadConfig, "/config/rollback": c.rollback,
		"/rollouts/{plugin}": c.actOnRollout, "/branches/{id}": c.actOnBranch, "/tools/pin": c.pinPlugin, "/calls/background": c.background, "/sessions/end": c.endSession, "/fleet/{action}": c.steerFleet,
	} {
		mux.HandleFunc("POST "+path, c.loggedIn(c.change(handler)))
	}
	mux.HandleFunc("POST /tools/{name}/call", c.loggedIn(c.guarded(c.callTool)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, nil, http.StatusNotFound, errors.New("there is no such page"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// response records the answer of the interface.
type response struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(code int)        { r.code = code }
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }

// raw sends a request of a principal to the interface.
func (c *Console) raw(ctx context.Context, p *host.Principal, method, path string, body any) (*response, error) {
	var in io.Reader = http.NoBody // a handler may read the body of each request
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(api.WithPrincipal(ctx, p), method, path, in) //nolint:gosec // the request does not leave this process
	if err != nil {
		return nil, err
	}
	res := &response{header: make(http.Header), code: http.StatusOK}
	c.api.ServeHTTP(res, req)
	if res.code >= http.StatusBadRequest {
		var refused struct {
			Error *struct{ Message string } `json:"error"`
		}
		if json.Unmarshal(res.body.Bytes(), &refused) == nil && refused.Error != nil {
			return res, errors.New(refused.Error.Message)
		}
		return res, fmt.Errorf("%s %s: status %d", method, path, res.code)
	}
	return res, nil
}

// get reads a JSON value from the interface.
func (c *Console) get(ctx context.Context, p *host.Principal, path string, v any) error {
	return c.send(ctx, p, http.MethodGet, path, nil, v)
}

// send sends a request to the interface and reads its JSON answer.
func (c *Console) send(ctx context.Context, p *host.Principal, method, path string, body, v any) error {
	res, err := c.raw(ctx, p, method, path, body)
	if err != nil || v == nil {
		return err
	}
	return json.Unmarshal(res.body.Bytes(), v)
}
