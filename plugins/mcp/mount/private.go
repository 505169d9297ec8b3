package mount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

const (
	// maxPrivate is the maximum number of private connections of a mount.
	maxPrivate = 8
	// privateIdle is the time for which a private connection stays open after its last use.
	privateIdle = 5 * time.Minute
)

// privateConns contains the connections of single sessions.
type privateConns struct {
	mount *mount

	mu     sync.Mutex
	by     map[string]*privateConn
	closed bool
}

// privateConn is the connection of one session.
type privateConn struct {
	conn  *conn
	ready chan struct{} // closed when conn is connected, or err is set
	err   error
	users int
	used  time.Time   // the end of the last use
	idle  *time.Timer // ends the connection; nil while it is used
}

// connFor returns the connection for a call. The caller must call the function "done" at the end of the call.
func (m *mount) connFor(ctx context.Context, call *sdk.Call) (c *conn, done func(), err error) {
	m.connecting.Lock()
	shared := m.shared
	m.connecting.Unlock()
	if shared == nil {
		return nil, nil, sdk.Errorf(tool.Unavailable, "The MCP server is not connected. Call again.")
	}
	subscription := strings.HasPrefix(call.Method, "resources/") && call.Method != "resources/read" // see subscriptions
	if subscription || !m.cfg.separates() || call.Client == nil ||
		shared.stateless() && (call.Client.Protocol >= statelessVersion || m.newestOnly.Load()) {
		return shared, func() {}, nil
	}
	c, done, err = m.private.enter(ctx, call.SessionID)
	if err != nil && m.newestOnly.Load() {
		return shared, func() {}, nil
	}
	return c, done, err
}

// ended reports whether the server has ended an open connection.
func (c *privateConn) ended() bool {
	select {
	case <-c.ready:
		return c.conn.ended()
	default:
		return false
	}
}

// enter returns the connection of a session. It opens a connection if the session has none.
func (p *privateConns) enter(ctx context.Context, session string) (*conn, func(), error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, nil, sdk.Errorf(tool.Unavailable, "The MCP server is being stopped. Call again.")
	}
	c := p.by[session]
	if c != nil && c.ended() { // open has not noticed it yet
		logf("warn", "the connection of a session to the server ended")
		delete(p.by, session)
		c = nil
	}
	if c == nil {
		if len(p.by) >= maxPrivate && !p.evict() {
			p.mu.Unlock()
			return nil, nil, sdk.Errorf(tool.Unavailable, "%d sessions have a connection of their own to the MCP server, which is the maximum. Try again later, or let sessions share a connection: sessions = \"shared\" in the mcp block.", maxPrivate)
		}
		c = &privateConn{conn: newConn(p.mount, session), ready: make(chan struct{})}
		if p.by == nil {
			p.by = make(map[string]*privateConn)
		}
		p.by[session] = c
		go p.open(c) //nolint:gosec // the connection outlives the call
	}
	c.users++
	if c.idle != nil {
		c.idle.Stop()
		c.idle = nil
	}
	p.mu.Unlock()
	done := sync.OnceFunc(func() { p.leave(session, c) })
	select {
	case <-c.ready:
	case <-ctx.Done():
		done()
		return nil, nil, context.Cause(ctx)
	}
	if c.err != nil {
		done()
		return nil, nil, c.err
	}
	return c.conn, done, nil
}

// open connects to the server and waits for the end of the connection.
func (p *privateConns) open(c *privateConn) {
	ctx, cancel := context.WithTimeout(context.Background(), p.mount.limits.Start)
	err := c.conn.connect(ctx, legacyVersion)
	if err != nil {
		if p.mount.refusesLegacy(err) {
			p.mount.newestOnly.Store(true)
		}
		c.err = c.conn.startError(ctx, err)
		p.forget(c)
	}
	cancel()
	close(c.ready)
	if err != nil {
		c.conn.close(0)
		return
	}
	why := c.conn.wait()
	if p.forget(c) {
		logf("warn", "the connection of a session to the server ended: %s", why)
	}
}

// refusesLegacy reports whether an error of a private connection means that the server speaks only the newer protocol.
// Such a server sends its questions in the results of calls. Therefore each question belongs to a call even on a shared
// connection.
func (m *mount) refusesLegacy(err error) bool {
	m.connecting.Lock()
	shared := m.shared
	m.connecting.Unlock()
	if shared == nil || !shared.stateless() {
		return false
	}
	if versions := (*versionsError)(nil); errors.As(err, &versions) {
		return true
	}
	e := (*jsonrpc.Error)(nil)
	return errors.As(err, &e) &&
		slices.Contains([]int64{mcp.CodeUnsupportedProtocolVersion, jsonrpc.CodeMethodNotFound,
			jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams}, e.Code)
}

// forget removes a connection. It reports whether the connection was still in use.
func (p *privateConns) forget(c *privateConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[c.conn.key] != c {
		return false
	}
	delete(p.by, c.conn.key)
	return true
}

// leave ends the use of a connection by a call.
func (p *privateConns) leave(session string, c *privateConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users--; c.users > 0 || p.by[session] != c {
		return
	}
	c.used = time.Now()
	c.idle = time.AfterFunc(privateIdle, func() {
		p.mu.Lock()
		unused := c.users == 0 && p.by[session] == c
		if unused {
			delete(p.by, session)
		}
		p.mu.Unlock()
		if unused {
			c.conn.close(time.Second)
		}
	})
}

// evict ends the connection that was unused for the longest time. If the client of this connection still exists, it
// gets a new connection at its next call. evict returns false if all connections are in use. The caller must hold the
// lock.
func (p *privateConns) evict() bool {
	var oldest *privateConn
	for _, c := range p.by {
		if c.users == 0 && c.idle != nil && (oldest == nil || c.used.Before(oldest.used)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	oldest.idle.Stop()
	delete(p.by, oldest.conn.key)
	go oldest.conn.close(time.Second)
	return true
}

// close ends all connections. After that, no connection can be opened.
func (p *privateConns) close() {
	p.mu.Lock()
	all := p.by
	p.by, p.closed = nil, true
	p.mu.Unlock()
	var ended sync.WaitGroup
	for _, c := range all {
		ended.Go(func() {
			select {
			case <-c.ready:
				c.conn.close(time.Second)
			case <-time.After(time.Second):
				_, _ = fmt.Fprintln(stderr, "a connection to the server was still being opened")
			}
		})
	}
	ended.Wait()
}
