package http

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// vanishing is the transport of an HTTP client whose connections can be cut.
type vanishing struct {
	token string

	mu    sync.Mutex
	conns []net.Conn
	gone  bool
	over  http.Transport
}

func newVanishing(token string) *vanishing {
	v := &vanishing{token: token}
	v.over.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.gone {
			err = errors.New("the client has vanished")
		}
		if err == nil {
			v.conns = append(v.conns, c)
		}
		return c, err
	}
	return v
}

func (v *vanishing) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+v.token)
	return v.over.RoundTrip(r)
}

// vanish closes the connections of the client without a message to the server.
func (v *vanishing) vanish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone = true
	for _, c := range v.conns {
		_ = c.Close()
	}
}

// TestHTTPClientGone checks, for each protocol, a client that disappears during a call. Its running call must end, and
// its waiting call must never run.
func TestHTTPClientGone(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	s := hosttest.StartServer(t, dir, nil, "--listen", "127.0.0.1:0")
	c := hosttest.NewClient(t, s.Base, hosttest.ServerToken)
	post := func(path, body string) func(*http.Client, string) {
		return func(h *http.Client, command string) {
			res, err := h.Post(s.Base+path, "application/json", strings.NewReader(fmt.Sprintf(body, command)))
			if err == nil {
				_ = res.Body.Close()
			}
		}
	}
	for name, call := range map[string]func(*http.Client, string){
		"run":   post("/v1/run", `{"session":"run","command":%q}`),
		"batch": post("/v1/batch", `{"session":"batch","command":%q}`+"\n"),
		"mcp":   nil, "mcp without sessions": nil,
	} {
		v := newVanishing(hosttest.ServerToken)
		h := &http.Client{Transport: v}
		if call == nil {
			era := hosttest.Eras[1]
			if strings.Contains(name, "without") {
				era = hosttest.Eras[2]
			}
			m := hosttest.Connect(t, era, &mcp.StreamableClientTransport{Endpoint: s.Base + "/mcp", HTTPClient: h, MaxRetries: -1}, nil, nil)
			call = func(_ *http.Client, command string) {
				_, _ = m.CallTool(t.Context(), &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": command}})
			}
		}
		began, never := filepath.Join(dir, name+" began"), filepath.Join(dir, name+" never")
		var wg sync.WaitGroup
		wg.Go(func() { call(h, "touch '"+began+"'; sleep 61") })
		hosttest.Wait(t, name+": the command starts", func() bool {
			_, err := os.Stat(began)
			return err == nil && hosttest.Running("sleep", dir)
		})
		wg.Go(func() { call(h, "touch '"+never+"'") })
		hosttest.WaitsFor(t, dir, "waits for bash: touch")
		v.vanish()
		wg.Wait()
		hosttest.Wait(t, name+": the command ends", func() bool { return !hosttest.Running("sleep", dir) })
		c.Want(200, `"output":"free\n"`, "POST", "/v1/run", fmt.Sprintf(`{"session":%q,"command":"echo free"}`, name))
		if _, err := os.Stat(never); err == nil {
			t.Errorf("%s: the waiting call ran", name)
		}
	}
}

// TestBatchReaderGone checks that a batch ends its running call if the reader of its results disappears.
func TestBatchReaderGone(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	c := hosttest.Toolhost(t, dir, "batch")
	in, err := c.StdinPipe()
	hosttest.Must(t, err)
	results, out, err := os.Pipe()
	hosttest.Must(t, err)
	c.Stdout = out
	hosttest.Must(t, c.Start())
	_ = out.Close()
	fmt.Fprintln(in, `{"id":1,"command":"sleep 61"}`)
	fmt.Fprintln(in, `{"id":2,"command":"touch never"}`)
	hosttest.Wait(t, "the command starts", func() bool { return hosttest.Running("sleep", dir) })
	_ = in.Close() // the end of the input alone does not end the batch early
	_ = results.Close()
	hosttest.Wait(t, "the command ends", func() bool { return !hosttest.Running("sleep", dir) })
	if err := c.Wait(); err == nil {
		t.Error("the exit status is 0")
	}
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("the waiting call ran")
	}
}
