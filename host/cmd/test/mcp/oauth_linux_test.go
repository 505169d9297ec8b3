//go:build oracle

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestOAuthResource checks that an MCP client that knows only the address of the server finds the provider, registers
// itself, gets a token and calls a tool. A token without the required scopes must be refused, and the error must name
// these scopes.
func TestOAuthResource(t *testing.T) {
	t.Parallel()
	const resource, redirect = "http://localhost:1/mcp", "http://127.0.0.1:9/callback"
	issuer, _ := hosttest.StartIssuer(t)
	p := hosttest.NewPrincipals(t, fmt.Sprintf(`
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
	base, err := url.Parse(p.Base)
	hosttest.Must(t, err)
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
			q := hosttest.Browse(t, args.URL, redirect).Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	hosttest.Must(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: resource, HTTPClient: web, OAuthHandler: handler}, nil)
	hosttest.Must(t, err)
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo hi"}})
	hosttest.Must(t, err)
	if text := res.Content[0].(*mcp.TextContent).Text; res.IsError || !strings.HasPrefix(text, "hi\n") {
		t.Errorf("%+v", text)
	}
	few := hosttest.NewClient(t, p.Base, issued(t, issuer, "builder", resource))
	few.Want(403, "it needs: tools", "POST", "/v1/run", `{"command":"echo hi"}`)
	few.Want(200, resource, "GET", "/.well-known/oauth-protected-resource", "")
	few.Want(404, "toolhost token create", "GET", "/.well-known/oauth-protected-resource/other", "")
}

// nosyServer counts all requests that it gets, and the requests with a token.
type nosyServer struct{ requests, tokens atomic.Int64 }

// nosy starts a server that refuses all requests.
func nosy(t *testing.T) (url string, n *nosyServer) {
	t.Helper()
	n = new(nosyServer)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			n.tokens.Add(1)
		}
		n.requests.Add(1)
		http.Error(w, "no", http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	return s.URL, n
}

// startLogin starts a login command and returns the page that it prints. The function "finish" waits for the end of the
// command and returns its output.
func startLogin(t *testing.T, login *exec.Cmd) (page *url.URL, finish func() string) {
	t.Helper()
	login.Stderr = nil
	stderr, err := login.StderrPipe()
	hosttest.Must(t, err)
	var stdout strings.Builder
	login.Stdout = &stdout
	hosttest.Must(t, login.Start())
	lines, text := bufio.NewReader(stderr), ""
	for page == nil {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("no page: %s", text)
		}
		if text += line; strings.HasPrefix(strings.TrimSpace(line), "http") {
			page, err = url.Parse(strings.TrimSpace(line))
			hosttest.Must(t, err)
		}
	}
	return page, func() string {
		t.Helper()
		rest, err := io.ReadAll(lines)
		hosttest.Must(t, err)
		if err := login.Wait(); err != nil {
			t.Fatalf("%v: %s", err, rest)
		}
		return stdout.String()
	}
}

// demandingHost starts a host that accepts only tokens of an issuer. It returns the addresses of the issuer and of the
// host. The function "before" is called before each request.
func demandingHost(t *testing.T, before func()) (issuer, at string) {
	t.Helper()
	issuer, _ = hosttest.StartIssuer(t)
	var target *url.URL
	front := httptest.NewServer(hosttest.FullDuplex(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before()
		httputil.NewSingleHostReverseProxy(target).ServeHTTP(w, r)
	})))
	t.Cleanup(front.Close)
	p := hosttest.NewPrincipals(t, fmt.Sprintf(`
issuer "company" {
  url      = %q
  resource = "%s/mcp"
  scopes   = ["tools"]
}
principal "staff" {
  issuer = "company"
  claims = { groups = "engineering" }
}
`, issuer, front.URL))
	var err error
	target, err = url.Parse(p.Base)
	hosttest.Must(t, err)
	return issuer, front.URL
}

// TestLogin checks the commands for logins at a remote server, which is another host. A person logs in with a browser.
// A mount must use the login, the token must be renewed, and the command logout must end the login.
func TestLogin(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	slow.Store(true)
	issuer, front := demandingHost(t, func() {
		if slow.Load() {
			time.Sleep(1500 * time.Millisecond)
		}
	})

	dir := hosttest.MCPDir(t)
	config := fmt.Sprintf("bundled = false\nfield \"up\" {\n  mcp {\n    url = \"%s/mcp\"\n  }\n}\n", front)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	state := t.TempDir()
	command := func(args ...string) string {
		t.Helper()
		c := hosttest.Toolhost(t, dir, append([]string{"--state", state}, args...)...)
		c.Stderr = nil
		out, _ := c.CombinedOutput() // the callers check the output
		return string(out)
	}
	expect := func(out, want string) {
		t.Helper()
		if !strings.Contains(out, want) {
			t.Errorf("no %q in: %s", want, out)
		}
	}
	const call = `up:bash --command "echo from the server"`
	expect(command("run", call), "toolhost mcp login up") // the failure is remembered, because the failed start was slow
	slow.Store(false)
	expect(command("run", call), "The start failed")
	expect(command("mcp", "status"), "none")
	expect(command("mcp", "login", "down"), `field "down" has no remote server`)

	at, finish := startLogin(t, hosttest.Toolhost(t, dir, "--state", state, "mcp", "login", "up", "--no-browser"))
	back := hosttest.Browse(t, at.String(), at.Query().Get("redirect_uri"))
	forged := *back
	forged.RawQuery = "code=evil&state=evil"
	get := func(u string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
		hosttest.Must(t, err)
		res, err := http.DefaultClient.Do(req)
		hosttest.Must(t, err)
		hosttest.Must(t, res.Body.Close())
		return res.StatusCode
	}
	if code := get(forged.String()); code != http.StatusBadRequest {
		t.Errorf("an answer with another state: %d", code)
	}
	if code := get(back.String()); code != http.StatusOK {
		t.Errorf("the answer: %d", code)
	}
	expect(finish(), "Logged in at "+front+"/mcp for field up: renewed automatically")

	expect(command("run", call), "from the server")
	expect(command("mcp", "status"), "renewed automatically")
	files, err := filepath.Glob(filepath.Join(state, "logins", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	stored := func() (l map[string]any) {
		b, err := os.ReadFile(files[0])
		hosttest.Must(t, err)
		hosttest.Must(t, json.Unmarshal(b, &l))
		return l
	}
	before := stored()
	if st, err := os.Stat(files[0]); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	if before["issuer"] != issuer || before["revoke_url"] != issuer+"/token/revocation" {
		t.Errorf("%v", before)
	}
	// Another server in a field with the same name must get no token, neither from the same process nor from another
	// process.
	other, heard := nosy(t)
	elsewhere := filepath.Join(dir, "elsewhere.hcl")
	hosttest.Must(t, os.WriteFile(elsewhere, []byte(strings.ReplaceAll(config, front, other)), 0o600))
	live := filepath.Join(t.TempDir(), "live.hcl")
	hosttest.Must(t, os.WriteFile(live, []byte(config), 0o600))
	c := hosttest.Toolhost(t, dir, "--state", state, "--config", live, "batch", "--ordered")
	in, out := hosttest.Piped(t, c)
	fmt.Fprintln(in, `{"id":1,"command":`+strconv.Quote(call)+`}`)
	answer, err := out.ReadString('\n')
	if err != nil || !strings.Contains(answer, "from the server") {
		t.Errorf("%s %v", answer, err)
	}
	hosttest.Must(t, os.WriteFile(live, []byte(strings.ReplaceAll(config, front, other)), 0o600))
	expect(command("config", "reload"), "")
	expect(command("--config", elsewhere, "tools"), "")
	hosttest.Wait(t, "the other server got requests of both hosts", func() bool { return heard.requests.Load() > 1 })
	hosttest.Must(t, in.Close())
	_ = c.Wait()
	if n := heard.tokens.Load(); n > 0 {
		t.Errorf("the other server got %d tokens", n)
	}

	old := stored()
	old["obtained"], old["expiry"] = "2020-01-01T00:00:00Z", "2020-01-01T01:00:00Z"
	b, err := json.Marshal(old)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(files[0], b, 0o600))
	expect(command("run", call), "from the server")
	if now := stored(); now["access_token"] == before["access_token"] || now["refresh_token"] == before["refresh_token"] {
		t.Error("the login was not renewed")
	}

	expect(command("mcp", "logout", "up"), "is removed")
	expect(command("run", call), "toolhost mcp login up")
	expect(command("mcp", "logout", "up"), "has no login")
}

// TestLoginByConfiguration checks a login with the scopes and the client of an oauth block. Flags must take precedence,
// and a missing secret must be an error.
func TestLoginByConfiguration(t *testing.T) {
	t.Parallel()
	issuer, _ := hosttest.StartIssuer(t)
	const secret = "TEST_CLIENT_SECRET"
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"resource": "%s/mcp", "authorization_servers": [%q], "scopes_supported": ["call", "tools"]}`, server.URL, issuer)
			return
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, server.URL))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	dir := hosttest.MCPDir(t)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, `bundled = false
field "up" {
  mcp {
    url = "%s/mcp"
    oauth {
      scopes        = ["tools"]
      client_id     = "by-hand"
      client_secret = %q
    }
  }
}
`, server.URL, secret), 0o600))
	login := func(env string, args ...string) *exec.Cmd {
		c := hosttest.Toolhost(t, dir, append([]string{"mcp", "login", "up", "--no-browser", "--wait", "30s"}, args...)...)
		c.Env = append(os.Environ(), env)
		return c
	}
	c := login("OTHER=")
	c.Stderr = nil
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), `the environment variable that client_secret of field "up" names is not set`) {
		t.Errorf("without the secret: %v %s", err, out)
	}
	for _, tc := range []struct {
		args          []string
		client, scope string
	}{
		{nil, "by-hand", "tools"},
		{[]string{"--scope", "call"}, "by-hand", "call"},
	} {
		page, finish := startLogin(t, login(secret+"=secret-of-by-hand", tc.args...))
		q := page.Query()
		if scopes := strings.Fields(q.Get("scope")); q.Get("client_id") != tc.client || !slices.Contains(scopes, tc.scope) || strings.Contains(page.String(), "secret-of") {
			t.Errorf("%q: the page is %s", tc.args, page)
		}
		back := hosttest.Browse(t, page.String(), q.Get("redirect_uri"))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, back.String(), nil)
		hosttest.Must(t, err)
		res, err := http.DefaultClient.Do(req)
		hosttest.Must(t, err)
		hosttest.Must(t, res.Body.Close())
		if out := finish(); !strings.Contains(out, "Logged in at "+server.URL+"/mcp for field up") {
			t.Errorf("%q: %s", tc.args, out)
		}
	}
	other := login("OTHER=", "--client-id", "builder")
	page, _ := startLogin(t, other)
	hosttest.Must(t, other.Process.Kill())
	_ = other.Wait() // ignore the error: the process was killed
	if q := page.Query(); q.Get("client_id") != "builder" {
		t.Errorf("the flag does not take precedence: %s", page)
	}
}
