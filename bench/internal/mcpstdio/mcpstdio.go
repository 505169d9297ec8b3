// Package mcpstdio implements a minimal client for MCP servers over stdio. It extracts only the id and the raw result
// of an answer, so that the client adds little time to a measurement.
package mcpstdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Client is a connection to a running server.
type Client struct {
	cmd    *exec.Cmd // nil if the server is not a process of the client
	in     io.WriteCloser
	sendMu sync.Mutex
	lastID atomic.Int64
	wait   sync.Map
	gone   chan struct{} // closed when the output of the server has ended
}

// script is the path of the server's program in the repository.
const script = "bench/peers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"

// ErrNotInstalled means that the npm packages of bench/peers are not installed.
var ErrNotInstalled = errors.New("the MCP server is not installed; run make peers")

// Filesystem returns the command that runs @modelcontextprotocol/server-filesystem on a directory.
func Filesystem(dir string) (*exec.Cmd, error) {
	path, err := filepath.Abs(script)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil { // the packages are in the user's cache, where a sandbox needs their path
		return nil, ErrNotInstalled
	}
	return exec.Command("node", path, dir), nil //nolint:gosec // the pinned peer
}

// Start starts a server and performs the handshake.
func Start(ctx context.Context, cmd *exec.Cmd) (*Client, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c, err := connect(ctx, &Client{cmd: cmd, in: in}, out)
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// Connect performs the handshake with a server that reads from in and writes to out.
func Connect(ctx context.Context, in io.WriteCloser, out io.Reader) (*Client, error) {
	return connect(ctx, &Client{in: in}, out)
}

func connect(ctx context.Context, c *Client, out io.Reader) (*Client, error) {
	c.gone = make(chan struct{})
	go c.receive(out)
	_, err := c.request(ctx, "initialize", json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`))
	if err == nil {
		err = c.send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	}
	return c, err
}

// Stop ends the server.
func (c *Client) Stop() {
	_ = c.in.Close()
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// List requests the list of tools.
func (c *Client) List(ctx context.Context) (json.RawMessage, error) {
	return c.request(ctx, "tools/list", json.RawMessage(`{}`))
}

// Call calls a tool and returns the raw result.
func (c *Client) Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	return c.request(ctx, "tools/call", fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, name, args))
}

// reply is a server's answer to a request. Fields that the answer does not contain are nil.
type reply struct {
	result, failure json.RawMessage
}

func (c *Client) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	id := c.lastID.Add(1)
	ch := make(chan reply, 1)
	c.wait.Store(id, ch)
	defer c.wait.Delete(id)
	if err := c.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)); err != nil {
		return nil, err
	}
	var r reply
	select {
	case r = <-ch:
	case <-c.gone:
		select {
		case r = <-ch: // the answer arrived before the server ended
		default:
			return nil, fmt.Errorf("%s: the server ended", method)
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.failure != nil {
		return nil, fmt.Errorf("%s: %s", method, r.failure)
	}
	return r.result, nil
}

func (c *Client) send(m []byte) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	_, err := c.in.Write(append(m, '\n'))
	return err
}

func (c *Client) receive(out io.Reader) {
	defer close(c.gone)
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		id, r, err := decode(line)
		if err != nil {
			continue // skip a notification
		}
		if ch, ok := c.wait.LoadAndDelete(id); ok {
			ch.(chan reply) <- r //nolint:forcetypeassert // request stored it
		}
	}
}
