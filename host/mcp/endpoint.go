package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/export"
)

// Modes of an endpoint.
const (
	modeAll    = "all"
	modeSingle = "single"
	modeLazy   = "lazy"
	modeAuto   = "auto"
)

// Above one of these limits, the mode "auto" is "lazy". Models choose badly among more tools.
const (
	maxAutoTools = 60
	maxAutoBytes = 64 << 10
)

// findName is the name of the function that searches for tools. searchTool is the function of the host that it calls.
const (
	findName   = "find_tools"
	searchTool = "help"
)

// offer is what a server offers: the tools, and how it lists them.
type offer struct {
	tools []host.Tool // the enabled tools of the endpoint
	mode  string      // never "auto"
	core  []string    // full names; only for the mode "lazy"
}

// offer returns what the server offers now. Without an endpoint, the options determine it.
func (s *Server) offer() offer {
	all := s.host.Tools()
	if s.opts.Endpoint == "" {
		if s.opts.Tools != nil {
			all = slices.DeleteFunc(all, func(t host.Tool) bool { return !slices.Contains(s.opts.Tools, t.FullName) })
		}
		if s.opts.Single {
			return offer{tools: all, mode: modeSingle}
		}
		return offer{tools: all, mode: modeAll}
	}
	e, err := s.host.Endpoint(s.opts.Endpoint, nil)
	if err != nil { // a reload removed the endpoint
		return offer{mode: modeAll}
	}
	all = slices.DeleteFunc(all, func(t host.Tool) bool { return !t.Enabled || !e.Offers(t.FullName) })
	out := offer{tools: all, mode: e.Mode, core: e.Core}
	if out.core == nil {
		out.core = s.host.DefaultCore()
	}
	if out.mode == modeAuto {
		out.mode = modeAll
		if functions, _ := export.Functions(all); len(functions) > maxAutoTools || sizeOf(functions) > maxAutoBytes { // error ignored: a tool that cannot be exported is not listed in any mode
			out.mode = modeLazy
		}
	}
	return out
}

// mode returns the mode of the offer.
func (s *Server) mode() string {
	switch {
	case s.opts.Endpoint != "":
		if e, err := s.host.Endpoint(s.opts.Endpoint, nil); err == nil && e.Mode != modeAuto {
			return e.Mode
		}
		return s.offer().mode
	case s.opts.Single:
		return modeSingle
	}
	return modeAll
}

func sizeOf(functions []export.Function) (bytes int) {
	for _, f := range functions {
		bytes += len(f.Name) + len(f.Description) + len(f.Schema)
	}
	return bytes
}

// replaced reports whether the function of a lazy endpoint that runs command lines replaces a tool, because the tool is
// the shell or has the name of the function.
func replaced(t *host.Tool) bool { return export.IsShell(t) || t.FunctionName == export.SingleName }

// listed returns the tools that a lazy endpoint lists under their own names.
func (o *offer) listed() []host.Tool {
	var out []host.Tool
	for _, t := range o.tools {
		if slices.Contains(o.core, t.FullName) && !replaced(&t) {
			out = append(out, t)
		}
	}
	return out
}

// findFunction returns the function that searches for tools.
func findFunction() export.Function {
	return export.Function{
		Name: findName, Tool: searchTool,
		Description: "Search for tools by what they do. The answer has a command line for each tool: run it with " + export.SingleName + ". Name the namespace if you know it.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"What the tool does, in a few words. Empty: list the namespaces."},"namespace":{"type":"string","description":"Search only the field tools of this namespace."},"limit":{"type":"integer","minimum":1,"maximum":50,"default":5},"detail":{"type":"string","enum":["signature","schema"],"default":"signature","description":"schema adds the JSON schema of the arguments."}},"required":["query"],"additionalProperties":false}`),
	}
}

// commandFunction returns the function that runs a command line of a lazy endpoint. Its description lists the
// namespaces of the tools for which the function "allowed" returns true. The most used namespaces are first.
func commandFunction(tools []host.Tool, uses map[string]int, allowed func(host.Tool) bool) export.Function {
	out := export.Single(nil)
	var agents []string
	shell, limits := false, ""
	names, order := make(map[string][]string), []string{}
	used := make(map[string]int)
	for _, t := range tools {
		switch {
		case !allowed(t):
		case replaced(&t):
			shell = true
			limits = export.Limits(slices.Values([]host.Tool{t}))
		case t.Namespace == "":
			agents = append(agents, t.Name)
		default:
			if names[t.Namespace] == nil {
				order = append(order, t.Namespace)
			}
			names[t.Namespace] = append(names[t.Namespace], t.Name)
			used[t.Namespace] += uses[t.FullName]
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(used[b], used[a]) })
	var text strings.Builder
	text.WriteString("Run one command line. `NAME --parameter value` calls an agent tool (" + strings.Join(agents, ", ") + "), `field:NAMESPACE NAME --parameter value` a field tool. " +
		"--json '{…}' takes all parameters of a tool at once. " + findName + " finds tools and their commands; `NAME --help` describes one, `help` lists all, `field:NAMESPACE --help` lists a namespace.")
	if shell {
		text.WriteString(" Anything else is bash: pipelines, redirects, git, build tools.")
	}
	if limits != "" {
		text.WriteString(" " + limits)
	}
	out.Description = text.String() + namespaceList(order, names)
	return out
}

// Limits of the list of namespaces, in bytes. The list of all namespaces must leave room for the core tools in 3000
// tokens.
const (
	maxNamespaces    = 6000
	maxNamespaceLine = 80
)

// namespaceList returns one line for each namespace, as far as the lines fit.
func namespaceList(order []string, names map[string][]string) string {
	if len(order) == 0 {
		return ""
	}
	out := "\nNamespaces (number of tools):"
	for i, ns := range order {
		line := fmt.Sprintf("\n%s (%d): %s", ns, len(names[ns]), strings.Join(names[ns], ", "))
		if len(line) > maxNamespaceLine {
			line = line[:max(strings.LastIndexByte(line[:maxNamespaceLine], ','), len(ns)+6)] + ", …"
		}
		if len(out)+len(line) > maxNamespaces {
			return out + fmt.Sprintf("\nand %d more: help", len(order)-i)
		}
		out += line
	}
	return out
}

// lazyFunctions returns the functions that every client of a lazy endpoint can list.
func (o *offer) lazyFunctions(uses map[string]int) ([]function, []*mcp.Tool, error) {
	core := o.listed()
	listed, err := export.Functions(core)
	functions, tools := definitions(listed, core)
	for _, f := range []export.Function{findFunction(),
		commandFunction(o.tools, uses, func(host.Tool) bool { return true })} {
		t := &mcp.Tool{Name: f.Name, Description: f.Description, InputSchema: f.Schema,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: f.Name == findName}}
		functions, tools = append(functions, function{Function: f, definition: definition(t)}), append(tools, t)
	}
	return functions, tools, err
}

// caller returns the principal of a request with the restrictions of the endpoint or of the options. It returns nil for
// the local user without restrictions.
func (s *Server) caller(extra *mcp.RequestExtra) *host.Principal {
	p := principalOf(extra)
	switch {
	case s.opts.Endpoint != "":
	case s.opts.Tools != nil:
		return s.host.Only(p, "server, which was started with --tools,", s.opts.Tools)
	default:
		return p
	}
	within, err := s.host.Within(p, s.opts.Endpoint)
	if err != nil { // a reload removed the endpoint
		return new(host.Principal)
	}
	return within
}

// Size is the size of the definitions that a client of a server gets.
type Size struct {
	Mode string `json:"mode"`
	// Tools is the number of tools that the client lists. Reachable is the number of tools that it can call.
	Tools     int `json:"tools"`
	Reachable int `json:"reachable"`
	Bytes     int `json:"bytes"`
	// Tokens is an estimate: a token has four bytes.
	Tokens int `json:"tokens"`
}

// Size returns the size of the definitions that the server lists for the local user.
func (s *Server) Size() Size {
	o := s.offer()
	_, tools, _ := s.wanted() // error ignored: New reported it
	out := Size{Mode: o.mode, Tools: len(tools)}
	for _, t := range o.tools {
		if t.Enabled {
			out.Reachable++
		}
	}
	for _, t := range tools {
		b, _ := json.Marshal(t) // error ignored: the client would not get the tool, either
		out.Bytes += len(b)
	}
	out.Tokens = (out.Bytes + 3) / 4
	return out
}

// Endpoints serves the endpoints of a host's configuration over HTTP. It is safe for concurrent use.
type Endpoints struct {
	host *host.Host
	opts Options

	mu     sync.Mutex
	by     map[string]*endpointServer
	closed bool
}

type endpointServer struct {
	server  *Server
	handler http.Handler
}

// NewEndpoints returns the endpoints of a host. The options apply to each endpoint, without Single, Tools and Endpoint.
func NewEndpoints(h *host.Host, opts Options) *Endpoints {
	opts.Single, opts.Tools = false, nil
	return &Endpoints{host: h, opts: opts, by: make(map[string]*endpointServer)}
}

// Handler returns a handler for /mcp/{endpoint}. The function "principal" returns nil for the local user. For the other
// requirements see [Server.Handler].
func (e *Endpoints) Handler(principal func(*http.Request) *host.Principal) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, err := e.serverOf(r.PathValue("endpoint"), principal(r))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		Authenticated(at.handler, principal).ServeHTTP(w, r)
	})
}

// serverOf returns the server of an endpoint, which begins with the first request.
func (e *Endpoints) serverOf(name string, p *host.Principal) (*endpointServer, error) {
	if _, err := e.host.Endpoint(name, p); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if at := e.by[name]; at != nil {
		return at, nil
	}
	if e.closed {
		return nil, host.ErrStopped
	}
	opts := e.opts
	opts.Endpoint = name
	s, err := New(e.host, opts)
	if err != nil {
		s.opts.Log.Warn("some tools are not offered", "endpoint", name, "why", err)
	}
	at := &endpointServer{server: s, handler: s.Handler()}
	e.by[name] = at
	return at, nil
}

// Close closes the servers of all endpoints.
func (e *Endpoints) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, at := range e.by {
		at.server.Close()
	}
}
