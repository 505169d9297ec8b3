package mcp

import (
	"context"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/tool"
)

// rootsTimeout is the maximum time that calls wait for a client's roots.
const rootsTimeout = 5 * time.Second

// workspaces determines the workspace of each client from its roots. The calls of a client wait, in order, until the
// client sends its roots.
type workspaces struct {
	use   bool
	start string // the workspace of the host
	fixed string // of clients whose roots are not used; empty means the workspace of the host

	mu sync.Mutex
	by map[*mcp.ServerSession]*clientRoots
}

// clientRoots holds the workspace of one client.
type clientRoots struct {
	known chan struct{} // closed after the client sent its roots
	last  chan struct{} // closed after the last waiting call was queued

	mu        sync.Mutex
	workspace string // empty means the workspace of the host
}

// clientOf returns the workspace of a client. The first call of the client requests its roots. A client without roots
// has a nil result.
func (w *workspaces) clientOf(session *mcp.ServerSession) *clientRoots {
	if !w.use || session == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c, asked := w.by[session]
	if asked {
		return c
	}
	//nolint:staticcheck // revisions before 2026-07-28 have roots, and their clients name their workspace in this way
	if params := session.InitializeParams(); params != nil && params.Capabilities != nil &&
		params.Capabilities.RootsV2 != nil {
		c = w.ask(session, "")
	}
	w.by[session] = c
	if !asked {
		go func() {
			_ = session.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.by, session)
		}()
	}
	return c
}

// changed requests a client's roots again. The client keeps its workspace until it answers.
func (w *workspaces) changed(session *mcp.ServerSession) {
	if c := w.clientOf(session); c != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.by[session] = w.ask(session, c.workspaceNow())
	}
}

// ask requests the roots of a client in a new goroutine.
func (w *workspaces) ask(session *mcp.ServerSession, workspace string) *clientRoots {
	c := &clientRoots{known: make(chan struct{}), last: make(chan struct{}), workspace: workspace}
	close(c.last)
	go func() {
		defer close(c.known)
		ctx, cancel := context.WithTimeout(context.Background(), rootsTimeout)
		defer cancel()
		//nolint:staticcheck // see of
		res, err := session.ListRoots(ctx, nil)
		if err != nil {
			return // keep the workspace
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.workspace = choose(w.start, res.Roots)
	}()
	return c
}

func (c *clientRoots) workspaceNow() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workspace
}

// enter waits until the workspace of a client is known. It returns "" for the workspace of the host. The caller must
// queue the call and then call leave. The next call of the client waits for leave, so that calls keep their order.
func (w *workspaces) enter(ctx context.Context, session *mcp.ServerSession) (workspace string, leave func()) {
	c := w.clientOf(session)
	if c == nil {
		return w.fixed, func() {}
	}
	w.mu.Lock()
	before, passed := c.last, make(chan struct{})
	c.last = passed
	w.mu.Unlock()
	for _, wait := range []chan struct{}{c.known, before} {
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	return c.workspaceNow(), sync.OnceFunc(func() { close(passed) })
}

// peek returns the workspace of a client without waiting. ok is false if the workspace is unknown or other calls wait
// for it.
func (w *workspaces) peek(session *mcp.ServerSession) (workspace string, ok bool) {
	c := w.clientOf(session)
	if c == nil {
		return w.fixed, true
	}
	w.mu.Lock()
	last := c.last
	w.mu.Unlock()
	for _, done := range []chan struct{}{c.known, last} {
		select {
		case <-done:
		default:
			return "", false
		}
	}
	return c.workspaceNow(), true
}

// choose returns the workspace for a client's roots. It returns "" if one of the roots contains the host's workspace.
// Otherwise it returns the first root that is a directory on this machine.
func choose(start string, roots []*mcp.Root) string { //nolint:staticcheck // see of
	first := ""
	for _, r := range roots {
		u, err := url.Parse(r.URI)
		if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
			continue
		}
		path, err := filepath.EvalSymlinks(filepath.Clean(u.Path))
		if err != nil {
			continue
		}
		if (tool.Root{Path: path}).Contains(start) {
			return ""
		}
		if first == "" {
			first = path
		}
	}
	return first
}
