package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trace"
	"toolhost.dev/host/router"
)

// Request is one call. See host.Request for the meaning of the fields.
type Request struct {
	ID        string
	MessageID string
	Command   string
	Name      string
	Arguments json.RawMessage
	Session   string
	Workspace string
	Trace     string
}

// Pending is a request that is queued in its session.
type Pending struct {
	engine *Engine
	inner  *dispatch.Pending
	client Client
	failed *tool.Result
}

// Begin resolves and queues a request without blocking. If requests of one session must run in order, they run in the
// order of their Begin calls. The caller must call Run on the result.
func (e *Engine) Begin(req Request, client Client) *Pending {
	if req.ID == "" {
		req.ID = e.ids.next()
	}
	s, err := e.session(req)
	if err != nil {
		err := tool.AsError(err).From(tool.SourceHost)
		e.auditRefused(req, err)
		e.reloader.Builder.Calls.Metrics.Tool(metrics.None).Ended(metrics.Call{Kind: err.Kind})
		return &Pending{failed: &tool.Result{Error: err, Run: tool.Run{CallID: req.ID}}}
	}
	inner := e.Current().Dispatch.Begin(e.dispatchRequest(req, s))
	return &Pending{engine: e, inner: inner, client: e.client(client)}
}

// Native reports whether the request is a native command.
func (p *Pending) Native() bool { return p.inner != nil && p.inner.Native() }

// Run runs the request. If ctx is canceled, the tool is canceled. Run must be called once.
func (p *Pending) Run(ctx context.Context) *tool.Result {
	if p.failed != nil {
		return p.failed
	}
	if !p.inner.ReadOnly() {
		defer p.engine.Current().Roots.Forget()
	}
	return p.inner.Run(ctx, p.client)
}

// Explain returns the interpretation of a command without running it.
func (e *Engine) Explain(req Request) *router.Command {
	cwd := e.opts.Workspace
	if s, err := e.session(req); err == nil {
		cwd = s.Cwd
	}
	return e.Current().Dispatch.Explain(req.Command, cwd)
}

func (e *Engine) dispatchRequest(req Request, s call.Session) call.Request {
	return call.Request{
		ID: req.ID, MessageID: req.MessageID, Command: req.Command, Name: e.toolName(req.Name), Arguments: req.Arguments, Session: s, Trace: trace.Parse(req.Trace),
	}
}

// toolName converts the function name of a tool to the tool's full name. It returns other names unchanged.
func (e *Engine) toolName(name string) string {
	r := e.Current().Registry
	if name == "" || r.Lookup("", name) != nil {
		return name
	}
	if _, _, _, alias := r.Alias(name); alias {
		return name
	}
	if full := r.FullName(name); full != "" {
		return full
	}
	return name
}

// session returns the session of a request. It creates a missing session.
func (e *Engine) session(req Request) (call.Session, error) {
	workspace := e.opts.Workspace
	if req.Workspace != "" {
		var err error
		if workspace, err = roots.Workspace(req.Workspace); err != nil {
			return call.Session{}, tool.Errorf(tool.InvalidArguments, "%w. Name an existing directory.", err)
		}
	}
	if err := e.Current().Roots.Refused(workspace); err != nil {
		return call.Session{}, tool.Errorf(tool.PermissionDenied, "%w.", err)
	}
	cfg := e.Current().Config
	if err := errors.Join(e.keepsStateOut(cfg, workspace), e.keepsHostOut(cfg, workspace)); err != nil {
		return call.Session{}, tool.Errorf(tool.PermissionDenied, "%w.", err)
	}
	id := req.Session
	if id == "" {
		id = "workspace:" + workspace
	}
	s, known, err := e.state.Session(id)
	if err != nil {
		return call.Session{}, fmt.Errorf("the session %s cannot be read: %w", id, err)
	}
	named := strings.Contains(req.Command, state.OutputDir) || bytes.Contains(req.Arguments, []byte(state.OutputDir))
	out := call.Session{Session: s, Roots: e.Current().Roots.Of(workspace, named)}
	if !known || s.Workspace != workspace || !out.Contains(s.Cwd) || !roots.IsDir(s.Cwd) {
		out.Session = state.Session{ID: id, Workspace: workspace, Cwd: workspace}
		e.state.SaveSession(out.Session)
	}
	return out, nil
}

// History returns the last commands of a request's session, oldest first.
func (e *Engine) History(req Request, limit int) ([]state.Entry, error) {
	s, err := e.session(req)
	if err != nil {
		return nil, err
	}
	return e.state.History(s.ID, limit)
}

// Cwd returns the working directory of a request's session.
func (e *Engine) Cwd(req Request) (string, error) {
	s, err := e.session(req)
	return s.Cwd, err
}

// auditRefused writes an audit entry for a request without a valid session.
func (e *Engine) auditRefused(req Request, err *tool.Error) {
	args := req.Arguments
	if req.Name == "" {
		args, _ = json.Marshal(map[string]string{"command": req.Command}) // the error is ignored, because strings can always be encoded
	}
	e.state.AddAudit(state.AuditEntry{
		At: time.Now(), Session: req.Session, Workspace: req.Workspace, Call: req.ID, Tool: req.Name, Arguments: args, Outcome: string(err.Kind), Error: err.Message,
	})
}

// ids generates the ids of calls. The ids are unique in this process, and other processes cannot easily guess them.
type ids struct {
	prefix string
	last   *atomic.Uint64
}

func newIDs() ids {
	var b [6]byte
	_, _ = rand.Read(b[:]) // the error is ignored, because Read always succeeds
	return ids{prefix: hex.EncodeToString(b[:]) + "-", last: new(atomic.Uint64)}
}

func (i ids) next() string { return i.prefix + strconv.FormatUint(i.last.Add(1), 36) }
