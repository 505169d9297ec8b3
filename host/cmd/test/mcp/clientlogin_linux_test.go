//go:build oracle

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestLoginThroughClient checks calls of a remote server that needs a login. A client that can open pages must get the
// login page, and the call must continue after the login. Any other client must get an error that names the command for
// the login. A forged answer of the provider, which has a different state, must be refused, and the login must continue
// to wait.
func TestLoginThroughClient(t *testing.T) {
	t.Parallel()
	_, front := demandingHost(t, func() {})
	for _, era := range hosttest.Eras[1:] {
		t.Run(era, func(t *testing.T) {
			dir, state := hosttest.MCPDir(t), t.TempDir()
			hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, "field \"up\" {\n  mcp {\n    url = \"%s/mcp\"\n  }\n}\n", front), 0o600))
			var pages, completed atomic.Int64
			var answer func(page string) string // simulates the user and returns the user's action
			start := func(caps *mcp.ElicitationCapabilities) *mcp.ClientSession {
				c := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, &mcp.ClientOptions{
					Capabilities: &mcp.ClientCapabilities{Elicitation: caps},
					ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						pages.Add(1)
						if req.Params.Mode != "url" || !strings.Contains(req.Params.Message, "field up") {
							t.Errorf("%+v", req.Params)
						}
						return &mcp.ElicitResult{Action: answer(req.Params.URL)}, nil
					},
					ElicitationCompleteHandler: func(context.Context, *mcp.ElicitationCompleteNotificationRequest) { completed.Add(1) },
				})
				s, err := c.Connect(t.Context(), &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "--state", state, "mcp", "--single", "--ask-timeout", "30s")}, &mcp.ClientSessionOptions{ProtocolVersion: era})
				hosttest.Must(t, err)
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			call := func(s *mcp.ClientSession) (text string, failed bool) {
				t.Helper()
				res := hosttest.CallTool(t, s, "bash", map[string]any{"command": `up:bash --command "echo from the server"`})
				return res.Content[0].(*mcp.TextContent).Text, res.IsError
			}

			without := start(&mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}})
			if text, failed := call(without); !failed || !strings.Contains(text, "toolhost mcp login up") || pages.Load() > 0 {
				t.Errorf("a client that cannot open pages: %s", text)
			}
			with := start(&mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}})
			answer = func(string) string { return "decline" }
			if text, failed := call(with); !failed || !strings.Contains(text, "declined to log in") || !strings.Contains(text, "toolhost mcp login up") {
				t.Errorf("declined: %s", text)
			}
			answer = func(page string) string {
				go func() { // the client answers when the page is open, before the user has logged in
					at, err := url.Parse(page)
					hosttest.Must(t, err)
					back := hosttest.Browse(t, page, at.Query().Get("redirect_uri"))
					forged := *back
					forged.RawQuery = "code=evil&state=evil"
					for _, try := range []struct {
						url  string
						code int
					}{{forged.String(), http.StatusBadRequest}, {back.String(), http.StatusOK}} {
						res, err := http.Get(try.url) //nolint:noctx // a browser
						if err != nil {
							t.Errorf("%s: %v", try.url, err)
							continue
						}
						_ = res.Body.Close()
						if res.StatusCode != try.code {
							t.Errorf("%s: %s", try.url, res.Status)
						}
					}
				}()
				return "accept"
			}
			pages.Store(0)
			if text, failed := call(with); failed || !strings.Contains(text, "from the server") {
				t.Errorf("after the login: %s", text)
			}
			if text, failed := call(with); failed || pages.Load() != 1 {
				t.Errorf("%d pages: %s", pages.Load(), text)
			}
			if era == hosttest.Eras[1] {
				hosttest.Wait(t, "the client is notified that the login is complete", func() bool { return completed.Load() == 1 })
			}
			hosttest.Wait(t, "a host that could not load the field uses the login", func() bool { _, failed := call(without); return !failed })

			// The server refuses the token that a running mount uses. The user must be asked to log in again.
			files, err := filepath.Glob(filepath.Join(state, "logins", "*.json"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			b, err := os.ReadFile(files[0])
			hosttest.Must(t, err)
			var l map[string]any
			hosttest.Must(t, json.Unmarshal(b, &l))
			l["access_token"], l["expiry"] = "wrong", time.Now().Add(time.Hour)
			b, err = json.Marshal(l)
			hosttest.Must(t, err)
			hosttest.Must(t, os.WriteFile(files[0], b, 0o600))
			hosttest.Wait(t, "the wrong token leads to a second page", func() bool { _, _ = call(with); return pages.Load() == 2 })
			if text, failed := call(with); failed || pages.Load() != 2 {
				t.Errorf("after the second login: %d pages: %s", pages.Load(), text)
			}
		})
	}
}
