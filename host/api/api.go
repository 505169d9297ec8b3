// Package api implements the HTTP interface of a host, with calls as JSON and MCP. [Handler] returns the interface:
//
//	POST /v1/run     runs one request in the format of batch: {"command": "read main.go"}
//	POST /v1/batch   runs JSON Lines and returns each result as its call ends, or in order with ?ordered=1
//	GET  /v1/tools   lists the tools; ?format= and ?single=1 are as in the command "toolhost tools"
//	GET  /v1/status  returns the configuration, the plugins and the sessions
//	GET  /v1/stats   returns the outcomes of calls by tool, and the resource usage of plugins
//	GET  /metrics    returns the same statistics for Prometheus
//	GET  /v1/asks    lists the open asks of calls over this interface
//	POST /v1/asks/ID answers an ask: {"outcome": "accepted", "values": […]}
//	     /mcp        serves MCP over HTTP
//	GET  /healthz    returns "ok", without a token
package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/batch"
	"toolhost.dev/host/export"
	"toolhost.dev/host/exposition"
	"toolhost.dev/sdk/tool"
)

// MaxBody is the maximum size of a request body, in bytes. In a batch it is the maximum size of a line.
const MaxBody = 16 << 20

// Options configures the HTTP interface.
type Options struct {
	// Token must be in the header "Authorization: Bearer TOKEN" of each request. Empty disables authentication.
	Token string
	// Request holds the defaults of all calls. A session in a call overrides the default session.
	Request host.Request
	// MCP handles requests to /mcp. Nil disables /mcp.
	MCP http.Handler
	// Hosts lists the host names, without a port, that clients are allowed to use for the server. Nil means the names of
	// this machine. The check stops web pages that reach the server under a host name of their own.
	Hosts []string
	// AskTimeout limits the time that a call waits for an answer. Zero means 10 minutes.
	AskTimeout time.Duration
}

// Handler returns the HTTP interface of a host.
func Handler(h *host.Host, opts Options) http.Handler {
	if opts.AskTimeout <= 0 {
		opts.AskTimeout = 10 * time.Minute
	}
	if opts.Hosts == nil {
		opts.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	s := &server{host: h, opts: opts, asks: newAsks(opts.AskTimeout)}
	calls := http.NewServeMux()
	for _, route := range []struct {
		method, path string
		handler      http.HandlerFunc
	}{
		{"POST", "/v1/run", s.run}, {"POST", "/v1/batch", s.batch}, {"GET", "/v1/tools", s.tools}, {"GET", "/v1/status", s.status}, {"GET", "/v1/stats", s.stats},
		{"GET", "/metrics", exposition.Handler(h).ServeHTTP},
		{"GET", "/v1/asks", s.listAsks}, {"POST", "/v1/asks/{id}", s.answerAsk},
	} {
		calls.HandleFunc(route.method+" "+route.path, route.handler)
		calls.HandleFunc(route.path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", route.method)
			refuse(w, http.StatusMethodNotAllowed, tool.InvalidArguments, r.URL.Path+" does not support "+r.Method+"; use "+route.method)
		})
	}
	if opts.MCP != nil {
		calls.Handle("/mcp", http.MaxBytesHandler(opts.MCP, MaxBody))
	}
	calls.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, tool.NotFound, "unknown path "+r.URL.Path+"; use /v1/run, /v1/batch, /v1/tools, /v1/status, /v1/stats, /v1/asks, /metrics, /mcp or /healthz")
	})
	all := http.NewServeMux()
	all.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	all.Handle("/", s.authenticated(calls))
	return s.named(http.NewCrossOriginProtection().Handler(all))
}

type server struct {
	host *host.Host
	opts Options
	asks *asks
}

// named rejects requests with an unknown host name in the Host header. A web page can send such a request if the page's
// host name resolves to this server.
func (s *server) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if h, _, err := net.SplitHostPort(r.Host); err == nil {
			name = h
		}
		name = strings.Trim(name, "[]")
		for _, known := range s.opts.Hosts {
			if strings.EqualFold(name, known) {
				next.ServeHTTP(w, r)
				return
			}
		}
		refuse(w, http.StatusForbidden, tool.Security, fmt.Sprintf("this server does not have the name %q; use %s", name, strings.Join(s.opts.Hosts, ", ")))
	})
}

func (s *server) authenticated(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.opts.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(given))
		if s.opts.Token != "" && (!ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="toolhost"`)
			refuse(w, http.StatusUnauthorized, tool.PermissionDenied, "the token is missing or wrong; send the header Authorization: Bearer TOKEN")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// run runs one request. The HTTP status is 200 even if the call failed.
func (s *server) run(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, tool.InvalidArguments, fmt.Sprintf("the request cannot be read (%v); the limit is %d bytes, and long content can be passed in a file", err, MaxBody))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.requests(r).One(r.Context(), body)) //nolint:gosec // the content type is JSON; a client that is gone has ended the call
}

func (s *server) requests(r *http.Request) batch.Batch {
	common := s.opts.Request
	common.Trace = r.Header.Get("traceparent")
	return batch.Batch{Host: s.host, Request: common, Front: s.asks, MaxLine: MaxBody}
}

// batch runs a stream of requests and sends each result as soon as possible.
func (s *server) batch(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	_ = c.EnableFullDuplex() // ignore the error, because HTTP/2 is always full duplex
	w.Header().Set("Content-Type", "application/x-ndjson")
	b := s.requests(r)
	b.Ordered = r.URL.Query().Get("ordered") == "1"
	_ = b.Run(r.Context(), r.Body, flushing{w, c}) // ignore the error: the client disconnected, or it notices that answers are missing
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
		if t.Enabled {
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

func (s *server) status(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, s.host.Status())
}

func (s *server) stats(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, s.host.Stats())
}

// refuse answers an invalid request with an error result.
func refuse(w http.ResponseWriter, code int, kind tool.Kind, message string) {
	reply(w, code, map[string]any{"success": false, "output": nil, "error": &tool.Error{Kind: kind, Message: message, Source: tool.SourceHost}})
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // ignore the error, because it means that the client disconnected
}
