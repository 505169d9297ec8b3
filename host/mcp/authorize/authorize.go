// Package authorize logs a person in at remote MCP servers, as an OAuth client. [Login] finds the authorization server
// of a server, registers this program, and waits until the person has answered in a browser.
package authorize

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Options describes a login. The fields Resource, Client and Show are required.
type Options struct {
	// Resource is the URL of the MCP server.
	Resource string
	// Client sends all requests.
	Client *http.Client
	// Show shows a page to the person. The page asks the person to log in.
	Show func(page string)
	// Scopes replaces the scopes that the server asks for. Nil keeps them. AddScopes are requested besides.
	Scopes, AddScopes []string
	// ClientID is the id that the authorization server gave to this program, or the https URL of a document that
	// describes the program to servers that read such documents. If it is empty, the program registers itself.
	// ClientSecret belongs to ClientID and can be empty.
	ClientID, ClientSecret string
	// Port is the local port to which the browser returns. Zero means any free port. Some authorization servers only
	// return to a port that was registered together with ClientID.
	Port int
}

// Grant is the result of a login.
type Grant struct {
	Issuer                 string
	ClientID, ClientSecret string
	TokenURL, RevokeURL    string // RevokeURL can be empty
	AuthStyle              oauth2.AuthStyle
	Scopes                 []string
	Token                  *oauth2.Token
}

// ErrNotNeeded means that the server answers requests without a token.
var ErrNotNeeded = errors.New("the server needs no login")

// probes are requests that servers answer, or refuse because the token is missing. Some servers refuse only the second
// one. Servers of the newest protocol know only the last one.
var probes = []struct{ version, body string }{
	{"", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"toolhost","version":"1"}}}`},
	{"2025-11-25", `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`},
	{"2026-07-28", `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"toolhost","version":"1"}}}}`},
}

// Login logs in at a server. It returns an error if the context ends before the person has answered.
func Login(ctx context.Context, opts Options) (*Grant, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", opts.Port))
	if err != nil {
		return nil, fmt.Errorf("the browser could not return to this program: %w", err)
	}
	page := newPage(opts.Show)
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // the error is always ErrServerClosed
	defer server.Close()                //nolint:errcheck // nothing is lost
	var grant Grant
	handler, err := auth.NewAuthorizationCodeHandler(opts.config("http://"+l.Addr().String()+"/callback", page, &grant))
	if err != nil {
		return nil, err
	}
	req, res, err := opts.probe(ctx)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	res.Body = io.NopCloser(io.LimitReader(res.Body, 1<<20))
	if err := handler.Authorize(ctx, req, res); err != nil {
		return nil, err
	}
	if grant.Token == nil {
		return nil, errors.New("the authorization server issued no token")
	}
	opts.identify(ctx, res, page.issuer, &grant)
	return &grant, nil
}

// probe returns the first request that the server refuses because the token is missing, with its response. The caller
// must close the body. It returns [ErrNotNeeded] if the server answers requests without a token.
func (o *Options) probe(ctx context.Context) (*http.Request, *http.Response, error) {
	session, answered, status := "", false, ""
	for _, p := range probes {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Resource, strings.NewReader(p.body))
		if err != nil {
			return nil, nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if p.version != "" {
			req.Header.Set("MCP-Protocol-Version", p.version)
			req.Header.Set("Mcp-Method", "tools/list")
		}
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := o.Client.Do(req)
		if err != nil {
			return nil, nil, err
		}
		if res.StatusCode == http.StatusUnauthorized {
			return req, res, nil
		}
		_ = res.Body.Close() // ignore the error: only the header is used
		answered = answered || res.StatusCode/100 == 2
		status, session = res.Status, res.Header.Get("Mcp-Session-Id")
	}
	if answered {
		return nil, nil, ErrNotNeeded
	}
	return nil, nil, fmt.Errorf("the server answered %s instead of asking for a login", status)
}

// identify sets the issuer of a grant, and the address at which its tokens are revoked. The refresh token will be sent
// to this address. Therefore identify takes the address only from metadata that name the issuer and the address from
// which the token came. The argument answered is the issuer that the SDK found in the browser's answer and checked, or
// "".
func (o *Options) identify(ctx context.Context, res *http.Response, answered string, grant *Grant) {
	issuers := []string{answered}
	if answered == "" {
		issuers = o.named(ctx, res)
	}
	for _, issuer := range issuers {
		meta, err := auth.GetAuthServerMetadata(ctx, issuer, o.Client)
		if err == nil && meta != nil && meta.Issuer == issuer && meta.TokenEndpoint == grant.TokenURL {
			grant.Issuer, grant.RevokeURL = issuer, meta.RevocationEndpoint
			return
		}
	}
	if u, err := url.Parse(grant.TokenURL); err == nil { // tokens cannot be revoked
		grant.Issuer = u.Scheme + "://" + u.Host
	}
}

// named returns the issuers that the metadata of the server name.
func (o *Options) named(ctx context.Context, res *http.Response) []string {
	challenges, err := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	if err != nil {
		return nil
	}
	for _, c := range challenges {
		if at := c.Params["resource_metadata"]; at != "" {
			if meta, err := oauthex.GetProtectedResourceMetadata(ctx, at, o.Resource, o.Client); err == nil &&
				meta != nil {
				return meta.AuthorizationServers
			}
		}
	}
	return nil
}

// config returns the configuration of the SDK's handler. The handler writes its result to grant.
func (o *Options) config(redirect string, page *page, grant *Grant) *auth.AuthorizationCodeHandlerConfig {
	out := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirect, Client: o.Client, RequestRefreshToken: true, AcceptUnadvertisedIss: true,
		AuthorizationCodeFetcher: page.fetch,
		NewTokenSource: func(ctx context.Context, cfg *oauth2.Config, token *oauth2.Token) (oauth2.TokenSource, error) {
			grant.ClientID, grant.ClientSecret = cfg.ClientID, cfg.ClientSecret
			grant.TokenURL, grant.AuthStyle, grant.Scopes, grant.Token = cfg.Endpoint.TokenURL, cfg.Endpoint.AuthStyle,
				cfg.Scopes, token
			return cfg.TokenSource(ctx, token), nil
		},
	}
	out.ScopeFilter = func(named []string) []string {
		if o.Scopes != nil {
			named = o.Scopes
		}
		all := slices.Concat(named, o.AddScopes)
		slices.Sort(all)
		return slices.Compact(all)
	}
	if o.ClientID == "" {
		out.DynamicClientRegistrationConfig =
			&auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
				RedirectURIs: []string{redirect}, ClientName: "toolhost", TokenEndpointAuthMethod: "none",
				GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
			}}
		return out
	}
	out.PreregisteredClient = &oauthex.ClientCredentials{ClientID: o.ClientID}
	if o.ClientSecret != "" {
		out.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: o.ClientSecret}
	}
	return out
}

// page is the local address to which the browser returns.
type page struct {
	show   func(string)
	answer chan url.Values

	mu     sync.Mutex
	state  string // value that the answer must contain; empty before the person is asked
	issuer string // issuer in the answer
}

func newPage(show func(string)) *page { return &page{show: show, answer: make(chan url.Values, 1)} }

// fetch shows the page of the authorization server and waits for the browser.
func (p *page) fetch(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	u, err := url.Parse(args.URL)
	odd := strings.ContainsFunc(args.URL, func(r rune) bool { return r <= ' ' || r > '~' })             // the page is printed, so it must not control the terminal
	if err != nil || odd || u.Scheme != "https" && u.Scheme != "http" || u.Query().Get("state") == "" { // a browser could start programs for other schemes
		return nil, errors.New("the authorization server named a page that cannot be opened")
	}
	p.mu.Lock()
	p.state = u.Query().Get("state")
	p.mu.Unlock()
	p.show(args.URL)
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("nobody answered in the browser: %w", context.Cause(ctx))
	case q := <-p.answer:
		p.issuer = q.Get("iss")
		if e := q.Get("error"); e != "" {
			return nil, fmt.Errorf("the authorization server refused the login: %q %q", e, q.Get("error_description"))
		}
		return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
	}
}

// ServeHTTP receives the browser. It ignores requests without the expected state, because any web page can send them.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	known := p.state != "" && subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(p.state)) == 1
	p.mu.Unlock()
	if r.URL.Path != "/callback" || r.Method != http.MethodGet || !known {
		http.Error(w, "This is not the answer that toolhost waits for. Run toolhost mcp login again.", http.StatusBadRequest)
		return
	}
	select {
	case p.answer <- q:
	default: // the browser sent the answer twice
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "toolhost has received the answer. You can close this window.\n") // ignore the error: the answer is complete
}
