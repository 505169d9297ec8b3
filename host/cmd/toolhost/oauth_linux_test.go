//go:build oracle

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// browse opens a page of a provider, follows its redirects, and returns the address at which the provider ends the
// authorization: the first address that begins with end.
func browse(t *testing.T, page, end string) *url.URL {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	var last *url.URL
	web := &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), end) {
			last = r.URL
			return http.ErrUseLastResponse
		}
		if len(via) > 10 {
			return fmt.Errorf("too many redirects")
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	must(t, err)
	res, err := web.Do(req)
	must(t, err)
	must(t, res.Body.Close())
	if last == nil {
		t.Fatalf("the provider did not end the authorization: %s %s", res.Request.URL, res.Status)
	}
	return last
}

// TestOAuthResource checks that an MCP client that knows only the address of the server finds the provider, registers
// itself, gets a token and calls a tool. A token without the scopes is refused with the scopes that it needs.
func TestOAuthResource(t *testing.T) {
	t.Parallel()
	const resource, redirect = "http://localhost:1/mcp", "http://127.0.0.1:9/callback"
	issuer, _ := startIssuer(t)
	p := newPrincipals(t, fmt.Sprintf(`
issuer "company" {
  url      = %q
  resource = %q
  scopes   = ["tools"]
}
principal "staff" {
  issuer = "company"
  claims = { groups = "engineering" }
}
`, issuer, resource))
	base, err := url.Parse(p.base)
	must(t, err)
	web := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "localhost:1" {
			address = base.Host
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}}
	t.Cleanup(web.CloseIdleConnections)
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			RedirectURIs: []string{redirect}, ClientName: "test", GrantTypes: []string{"authorization_code"}, ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none",
		}},
		RedirectURL: redirect, Client: web,
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			q := browse(t, args.URL, redirect).Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	must(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: resource, HTTPClient: web, OAuthHandler: handler}, nil)
	must(t, err)
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo hi"}})
	must(t, err)
	if text := res.Content[0].(*mcp.TextContent).Text; res.IsError || !strings.HasPrefix(text, "hi\n") {
		t.Errorf("%+v", text)
	}
	few := &client{t, p.base, issued(t, issuer, "builder", resource)}
	few.want(403, "it needs: tools", "POST", "/v1/run", `{"command":"echo hi"}`)
	few.want(200, resource, "GET", "/.well-known/oauth-protected-resource", "")
	few.want(404, "toolhost token create", "GET", "/.well-known/oauth-protected-resource/other", "")
}
