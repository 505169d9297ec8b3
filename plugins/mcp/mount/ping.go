package mount

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/tool"
)

// ping measures the time of one request to the server and counts what the server has. It also counts what the operator
// does not offer to clients.
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

// roundTrip returns the time of a request and its answer. The newer protocol has no request ping. A remote server of the
// newer protocol gets the request server/discover, which begins each connection. A program gets a
// ping, and an error is an answer, too.
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
