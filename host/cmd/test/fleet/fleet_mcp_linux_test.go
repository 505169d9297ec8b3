package fleet

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestFleetMCP checks that an MCP session can be used through several nodes. It must continue after the node at which
// it began was killed.
func TestFleetMCP(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	one, two := f.nodes["one"], f.nodes["two"]
	var at atomic.Pointer[fleetNode]
	var id atomic.Pointer[string] // id of the MCP session
	balancer := httptest.NewServer(hosttest.FullDuplex(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(at.Load().address())
			if err != nil {
				t.Error(err)
				return
			}
			r.SetURL(to)
		},
		ModifyResponse: func(r *http.Response) error {
			if got := r.Header.Get("Mcp-Session-Id"); got != "" {
				id.Store(&got)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}))
	defer balancer.Close()
	for _, era := range []string{"2025-06-18", "2025-11-25"} {
		at.Store(two)
		s := hosttest.Connect(t, era, &mcp.StreamableClientTransport{Endpoint: balancer.URL + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(hosttest.ServerToken)}, DisableStandaloneSSE: true}, nil, nil)
		bash := func(command string) string {
			t.Helper()
			return hosttest.Text(t, hosttest.CallTool(t, s, "bash", map[string]any{"command": command}))
		}
		bash("mkdir -p sub && cd sub && export COLOR=green")
		at.Store(one)
		if got := bash("pwd; echo $COLOR"); got != f.workspace+"/sub\ngreen\n" {
			t.Errorf("%s: at another node: %q", era, got)
		}
		tools, err := s.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) < 5 {
			t.Errorf("%s: %v %v", era, tools, err)
		}
		at.Store(two)
		if got := bash("pwd"); got != f.workspace+"/sub\n" {
			t.Errorf("%s: back at the first node: %q", era, got)
		}
	}

	// Only the principal of the session can use the session, at every node.
	var made struct{ Token string }
	hosttest.Must(t, json.Unmarshal([]byte(one.do("token", "create", "alice", "--role", "caller", "--json")), &made))
	post := func(n *fleetNode, token, session string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.address()+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`))
		hosttest.Must(t, err)
		for k, v := range map[string]string{"Authorization": "Bearer " + token, "Mcp-Session-Id": session, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-11-25"} {
			req.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(req)
		hosttest.Must(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		hosttest.Must(t, err)
		return res.StatusCode, string(b)
	}
	if code, body := post(one, made.Token, *id.Load()); code != http.StatusNotFound || strings.Contains(body, "tools") {
		t.Errorf("the session of another principal: %d %s", code, body)
	}
	if code, body := post(one, hosttest.ServerToken, *id.Load()); code != http.StatusOK || !strings.Contains(body, `"tools"`) {
		t.Errorf("its own session: %d %.200s", code, body)
	}
	for _, unknown := range []string{"AAAAAAAAAAAAAAAAAAAAAAAAAA", "../../nodes", "*", ">", strings.Repeat("A", 10_000)} {
		if code, body := post(one, hosttest.ServerToken, unknown); code != http.StatusNotFound {
			t.Errorf("an unknown session: %d %s", code, body)
		}
	}

	// Kill the node at which a session began.
	at.Store(two)
	s := hosttest.Connect(t, "2025-11-25", &mcp.StreamableClientTransport{Endpoint: balancer.URL + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(hosttest.ServerToken)}}, nil, nil)
	hosttest.Text(t, hosttest.CallTool(t, s, "bash", map[string]any{"command": "cd sub"}))
	if code, body := post(one, made.Token, *id.Load()); code != http.StatusNotFound || strings.Contains(body, "tools") {
		t.Errorf("the session of another principal, at a node that has not seen the session: %d %s", code, body)
	}
	two.kill()
	at.Store(one)
	if got := hosttest.Text(t, hosttest.CallTool(t, s, "bash", map[string]any{"command": "pwd"})); !strings.Contains(got, f.workspace+"/sub\n") {
		t.Errorf("after the end of the node: %q", got)
	}

	// A client that ends its session ends it at all nodes.
	mine := *id.Load()
	hosttest.Must(t, s.Close())
	if code, body := post(one, hosttest.ServerToken, mine); code != http.StatusNotFound {
		t.Errorf("a session that was ended: %d %s", code, body)
	}
}
