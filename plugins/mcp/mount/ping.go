package mount

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// ping measures the time of one request to the server. It also returns the capabilities of the server, and the numbers
// of its tools, prompts, resources and templates, including those that the operator does not offer to clients.
func (c *conn) ping(ctx context.Context) (*tool.Pong, error) {
	info := c.session.InitializeResult()
	out := &tool.Pong{Protocol: clean(info.ProtocolVersion, maxTitle)}
	if s := info.ServerInfo; s != nil {
		out.Name, out.Version = clean(s.Name, maxTitle), clean(s.Version, maxTitle)
	}
	var err error
	if out.RoundTrip, err = c.roundTrip(ctx); err != nil {
		return nil, err
	}
	caps := info.Capabilities
	if caps == nil {
		return out, nil
	}
	if out.Capabilities = c.announced.names(); out.Capabilities == nil {
		out.Capabilities = capabilityNames(sdk.Data(caps))
	}
	if caps.Tools != nil {
		tools, err := c.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("the server does not list its tools: %w", err)
		}
		out.Tools = len(tools)
	}
	if caps.Prompts != nil {
		prompts, err := c.listPrompts(ctx)
		if err != nil {
			return nil, err
		}
		out.Prompts = len(prompts)
	}
	if caps.Resources != nil {
		items, err := c.listResources(ctx)
		if err != nil {
			return nil, err
		}
		for _, i := range items {
			if i.Kind == tool.ItemTemplate {
				out.Templates++
			} else {
				out.Resources++
			}
		}
	}
	return out, nil
}

// roundTrip returns the time from a request to its answer. The newer protocol has no request "ping". A remote server of
// the newer protocol gets the request "server/discover", which begins each connection. All other servers get a ping. An
// error is an answer, too.
func (c *conn) roundTrip(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if c.server == nil && c.stateless() {
		again := newConn(c.mount, "")
		err := again.connect(ctx, "")
		took := time.Since(began)
		again.close(0)
		return took, err
	}
	err := c.session.Ping(ctx, &mcp.PingParams{})
	took := time.Since(began)
	if e := (*jsonrpc.Error)(nil); errors.As(err, &e) && e.Code != codeRejected {
		err = nil
	}
	return took, err
}

// announcement keeps the capabilities that a server announced, in their received form. The SDK drops capabilities that
// it does not know, such as tasks.
type announcement struct {
	mu   sync.Mutex
	raw  json.RawMessage
	late bool // whether the connection is established, so that no further message announces capabilities
}

// maxAnnounced is the maximum size of an answer over HTTP that is searched for capabilities, in bytes.
const maxAnnounced = 64 << 10

// keep stores the capabilities in the result of a request that begins a connection. It reports whether there are any.
func (a *announcement) keep(result json.RawMessage) bool {
	var r struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(result, &r) != nil || r.Capabilities == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raw = r.Capabilities
	return true
}

// established must be called when the connection is established.
func (a *announcement) established() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late = true
}

// names returns the names of the announced capabilities, or nil if none were received.
func (a *announcement) names() []string {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return capabilityNames(a.raw)
}

// watchBody returns the body of an HTTP response. While the connection begins, the body also searches its content for
// capabilities.
func (a *announcement) watchBody(body io.ReadCloser) io.ReadCloser {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.late {
		return body
	}
	return &announcing{ReadCloser: body, to: a}
}

// announcing is a response body, as JSON or as an event stream, that is searched for capabilities.
type announcing struct {
	io.ReadCloser
	to   *announcement
	read []byte
	done bool
}

func (b *announcing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.done {
		b.read = append(b.read, p[:n]...)
		b.done = len(b.read) > maxAnnounced || b.search()
	}
	if b.done {
		b.read = nil
	}
	return n, err
}

// search looks for a complete message with capabilities.
func (b *announcing) search() bool {
	for line := range bytes.Lines(b.read) {
		var m struct {
			Result json.RawMessage `json:"result"`
		}
		if json.Unmarshal(bytes.TrimPrefix(line, []byte("data:")), &m) == nil && b.to.keep(m.Result) {
			return true
		}
	}
	return false
}

// maxCapabilities is the maximum number of names of capabilities in the answer to a ping.
const maxCapabilities = 64

// capabilityNames returns the names of capabilities, and of their parts, such as "resources.subscribe". The names are
// sorted. Parts with the value false are left out.
func capabilityNames(raw json.RawMessage) []string {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if string(all[name]) == "null" {
			continue
		}
		out = append(out, clean(name, maxNameShown))
		var parts map[string]json.RawMessage
		if json.Unmarshal(all[name], &parts) != nil {
			continue // it has no parts
		}
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			if value := string(parts[part]); value != "false" && value != "null" {
				out = append(out, clean(name+"."+part, maxNameShown))
			}
		}
	}
	return out[:min(len(out), maxCapabilities)]
}
