package http

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/api"
	"toolhost.dev/host/cmd/test/hosttest"
	hostmcp "toolhost.dev/host/mcp"
)

// TestSlowBodies checks that a client cannot keep a connection open by sending a body slowly or not at all, with or
// without a valid token. A call can run longer than the limit for its body. A batch can also take longer, because its
// lines can arrive at any time.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	h, err := host.New(t.Context(), host.Options{BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: hosttest.MCPDir(t), StateDir: hosttest.KeptState(t, filepath.Join(t.TempDir(), "state"))})
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = h.Close() }) // after the parallel subtests
	tools, err := hostmcp.New(h, hostmcp.Options{})
	hosttest.Must(t, err)
	t.Cleanup(tools.Close)
	clients := h.Directory()
	clients.Secrets = []host.Secret{{Token: "secret", Principal: host.StartToken()}}
	server := httptest.NewServer(api.Handler(h, api.Options{Clients: clients, MCP: tools.Handler(), BodyTimeout: limit}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	dial := func(request string) net.Conn {
		c, err := net.Dial("tcp", address)
		hosttest.Must(t, err)
		hosttest.Must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = fmt.Fprint(c, strings.ReplaceAll(request, "\n", "\r\n"))
		hosttest.Must(t, err)
		return c
	}
	for _, token := range []string{"secret", "wrong"} {
		for _, path := range []string{"/mcp", "/v1/run", "/v1/asks/x", "/v1/status", "/healthz", "/nothing"} {
			t.Run(token+" "+path, func(t *testing.T) {
				t.Parallel()
				c := dial("POST " + path + " HTTP/1.1\nHost: localhost\nAuthorization: Bearer " + token + "\nContent-Type: application/json\nAccept: application/json, text/event-stream\nContent-Length: 100\n\n{\"jsonrpc")
				defer c.Close()
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Errorf("the server keeps the connection: %v", err)
				}
			})
		}
	}
	for path, body := range map[string]string{"/v1/run": `{"command":"sleep 1.5; echo done"}`, "/mcp": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 1.5; echo done"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`} {
		t.Run("a long call of "+path, func(t *testing.T) {
			t.Parallel()
			hosttest.NewClient(t, server.URL, "secret").Want(http.StatusOK, "done", "POST", path, body, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", hosttest.Eras[2], "Mcp-Method", "tools/call", "Mcp-Name", "bash")
		})
	}
	t.Run("a batch", func(t *testing.T) {
		t.Parallel()
		c := dial("POST /v1/batch HTTP/1.1\nHost: localhost\nAuthorization: Bearer secret\nTransfer-Encoding: chunked\n\n")
		defer c.Close()
		in := bufio.NewReader(c)
		for i := range 3 {
			line := fmt.Sprintf(`{"id":"n%d","command":"sleep 0.4; echo done"}`+"\n", i)
			_, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(line), line)
			hosttest.Must(t, err)
			for {
				got, err := in.ReadString('\n')
				if err != nil {
					t.Fatalf("line %d: %v", i, err)
				}
				if strings.Contains(got, fmt.Sprintf(`"id":"n%d"`, i)) {
					break
				}
			}
		}
	})
}

// TestRequestLimits checks that a server ends connections whose headers do not end, and refuses headers and bodies that
// are too large. A header and a body below the limits are accepted.
func TestRequestLimits(t *testing.T) {
	t.Parallel()
	base, token := hosttest.Serve(t, hosttest.MCPDir(t))
	c, valid := hosttest.NewClient(t, base, token), `{"command":"echo hi"}`
	const large = 100 << 10
	c.Want(http.StatusOK, "hi", "POST", "/v1/run", valid, "X-Long", strings.Repeat("x", large/4))
	c.Want(http.StatusRequestHeaderFieldsTooLarge, "", "POST", "/v1/run", valid, "X-Long", strings.Repeat("x", large))
	c.Want(http.StatusOK, "hi", "POST", "/v1/run", valid+strings.Repeat(" ", api.MaxBody-len(valid)))
	c.Want(http.StatusRequestEntityTooLarge, "", "POST", "/v1/run", valid+strings.Repeat(" ", api.MaxBody))
	c.Want(http.StatusRequestEntityTooLarge, "", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`+strings.Repeat(" ", api.MaxBody), "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", hosttest.Eras[2], "Mcp-Method", "tools/list")
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	hosttest.Must(t, err)
	defer conn.Close()
	hosttest.Must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprint(conn, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX-Never: ends")
	hosttest.Must(t, err)
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the server keeps a connection without the end of the headers: %v", err)
	}
}
