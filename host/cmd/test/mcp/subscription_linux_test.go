package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// watchedField mounts a server with a resource that clients can subscribe to.
func watchedField() string {
	return fmt.Sprintf("field \"w\" {\n  sandbox { read = [%q] }\n  mcp {\n    command = [%q, \"watched\"]\n    offer = [\"tools\", \"resources\"]\n  }\n}\n", hosttest.Bin, filepath.Join(hosttest.Bin, "testserver"))
}

const watchedURI = "test://count"

// subscriber is a client with a subscription to the resource of watchedField.
type subscriber struct {
	*mcp.ClientSession
	updated chan string // URIs in notifications
}

// subscribe connects a client and subscribes it to the resource. In the revision without sessions, each subscription
// has its own stream.
func subscribe(t *testing.T, era string, transport mcp.Transport) *subscriber {
	t.Helper()
	s := &subscriber{updated: make(chan string, 100)}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			if len(r.Params.Meta) > 1 || era < hosttest.Eras[2] && r.Params.Meta != nil {
				t.Errorf("the notification has %+v", r.Params.Meta)
			}
			s.updated <- r.Params.URI
		},
	})
	acknowledged := make(chan struct{})
	c.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "notifications/subscriptions/acknowledged" {
				close(acknowledged)
			}
			return next(ctx, method, req)
		}
	})
	var err error
	s.ClientSession, err = c.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	hosttest.Must(t, s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watchedURI}))
	if era == hosttest.Eras[2] { // the SDK does not wait for the acknowledgement
		select {
		case <-acknowledged:
		case <-hosttest.Late(t):
			t.Fatal("the subscription is not acknowledged")
		}
	}
	return s
}

// want waits for one notification.
func (s *subscriber) want(t *testing.T, when string) {
	t.Helper()
	select {
	case uri := <-s.updated:
		if uri != watchedURI {
			t.Errorf("%s: %q", when, uri)
		}
	case <-hosttest.Late(t):
		t.Fatalf("%s: the client is not notified", when)
	}
}

// change changes the resource. The server must have a subscription, so the client must be notified exactly once.
func (s *subscriber) change(t *testing.T, when string) {
	t.Helper()
	if got := hosttest.Text(t, hosttest.CallTool(t, s.ClientSession, "w_change", nil)); got != "subscribed" {
		t.Errorf("%s: the server has no subscription: %s", when, got)
	}
	s.want(t, when)
}

// killPlugin kills the process of a plugin.
func killPlugin(t *testing.T, host *hosttest.Client, name string) {
	t.Helper()
	var status struct {
		Plugins []struct {
			Name string
			PID  int
		}
	}
	hosttest.Must(t, json.Unmarshal([]byte(host.Want(200, "", "GET", "/v1/status", "")), &status))
	for _, p := range status.Plugins {
		if p.Name == name {
			process, err := os.FindProcess(p.PID)
			hosttest.Must(t, err)
			hosttest.Must(t, process.Kill())
			return
		}
	}
	t.Fatalf("plugin %s does not run: %+v", name, status)
}

// TestSubscriptionsOutliveServers kills a mounted server, and the plugin that runs the server. Each client with a
// subscription must then be notified once, because it could have missed a change. The client must also be notified of
// later changes.
func TestSubscriptionsOutliveServers(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(watchedField()), 0o600))
	base, token := hosttest.Serve(t, dir)
	for _, era := range hosttest.Eras {
		for name, transport := range map[string]func() mcp.Transport{
			"stdio": func() mcp.Transport { return &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")} },
			"http": func() mcp.Transport {
				return &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(token)}}
			},
		} {
			t.Run(era+" "+name, func(t *testing.T) {
				s := subscribe(t, era, transport())
				s.change(t, "before")
				_, _ = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "w_kill"}) // ignore the error: the server can end before the result is sent
				s.want(t, "after the restart of the server")
				s.change(t, "later")
				if name == "http" {
					killPlugin(t, hosttest.NewClient(t, base, token), "w")
					s.want(t, "after the restart of the plugin")
					s.change(t, "at last")
				}
				if len(s.updated) > 0 {
					t.Errorf("%d notifications too many", len(s.updated))
				}
				hosttest.Must(t, s.Close())
			})
		}
	}
}

// TestSubscriptionsOfPrincipals checks that a subscription belongs to the principal that made it. The rights of this
// principal apply, and only notifications of its own processes reach it. Two streams of one principal are independent
// of each other.
func TestSubscriptionsOfPrincipals(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPrincipals(t, watchedField()+"principal \"alice\" {}\nprincipal \"bob\" {}\nprincipal \"reader\" { tools = [\"read\"] }\n")
	alice, bob, reader := p.As("alice"), p.As("bob"), p.As("reader")
	over := func(c *hosttest.Client) mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: p.Base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(c.Token)}}
	}
	for _, era := range hosttest.Eras[1:] {
		t.Run(era, func(t *testing.T) {
			body, headers := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["test://count"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, []string{"Mcp-Protocol-Version", hosttest.Eras[2], "Mcp-Method", "subscriptions/listen"}
			if era == hosttest.Eras[1] {
				s := hosttest.Connect(t, era, over(reader), nil, nil)
				body, headers = `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://count"}}`, []string{"Mcp-Protocol-Version", era, "Mcp-Session-Id", s.ID()}
			}
			refused := make(chan struct{})
			go func() { // in the background, because a subscription that is not refused does not return
				defer close(refused)
				reader.Want(200, "may not call w:resource/test://count", "POST", "/mcp", body, append(headers, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")...)
			}()
			select {
			case <-refused:
			case <-hosttest.Late(t):
				t.Fatal("a principal subscribes to a resource that it may not read")
			}

			a, b := subscribe(t, era, over(alice)), subscribe(t, era, over(bob))
			for i := range 3 {
				a.change(t, fmt.Sprint("of alice ", i))
			}
			b.change(t, "of bob")
			second := subscribe(t, era, over(alice))
			a.change(t, "with two clients")
			second.want(t, "with two clients")
			hosttest.Must(t, second.Close())
			for range 20 { // the host notices the end of the other client only after some time
				a.change(t, "after the end of the other client")
			}
			if len(a.updated)+len(b.updated) > 0 {
				t.Errorf("alice gets %d and bob %d notifications too many", len(a.updated), len(b.updated))
			}
		})
	}
	// The host makes and ends each subscription in the name of its principal.
	hosttest.Wait(t, "bob's subscriptions ended", func() bool {
		out, err := hosttest.Toolhost(t, p.Dir, "log", "--json", "--limit", "1000", "--tool", "w:resource/test://count").Output()
		hosttest.Must(t, err)
		var entries []struct{ Principal string }
		hosttest.Must(t, json.Unmarshal(out, &entries))
		calls := map[string]int{}
		for _, e := range entries {
			calls[e.Principal]++
		}
		if calls[""] > 0 {
			t.Fatalf("the local user made calls: %v", calls)
		}
		return calls["bob"] == 4
	})
}
