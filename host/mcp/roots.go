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

// workspaces finds the workspace of each client that names roots. Calls of a client wait, in order, until its roots are
// known.
type workspaces struct {
	use   bool
	start string // the host's own workspace

	mu sync.Mutex
	by map[*mcp.ServerSession]*clientRoots
}

// clientRoots is what one client named.
type clientRoots struct {
	known chan struct{} // closed when the roots are known
	last  chan struct{} // closed when the last call in line has passed

	mu        sync.Mutex
	workspace string // empty means the host's own
}

// of returns what a client named, and asks the client at the first call. It returns nil if the client has no roots.
func (w *workspaces) of(session *mcp.ServerSession) *clientRoots {
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
	if params := session.InitializeParams(); params != nil && params.Capabilities != nil && params.Capabilities.RootsV2 != nil {
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

// changed asks a client again. Until it answers, its workspace stays.
func (w *workspaces) changed(session *mcp.ServerSession) {
	if c := w.of(session); c != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.by[session] = w.ask(session, c.workspaceNow())
	}
}

// ask asks a client for its roots.
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
			return // the workspace stays
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

// enter waits until the workspace of a client's call is known. It returns "" for the host's own workspace. The caller must
// call leave once its call is queued; calls pass one after the other, so that they keep their order.
func (w *workspaces) enter(ctx context.Context, session *mcp.ServerSession) (workspace string, leave func()) {
	c := w.of(session)
	if c == nil {
		return "", func() {}
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

// peek returns the workspace of a client's call without waiting. ok is false if it is not known yet, or if calls wait for
// it.
func (w *workspaces) peek(session *mcp.ServerSession) (workspace string, ok bool) {
	c := w.of(session)
	if c == nil {
		return "", true
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

// choose returns the workspace for a client's roots: the host's own, "", if it is in one of them, or else the first root
// that is a directory of this machine.
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
