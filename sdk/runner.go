package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/internal/lazyctx"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

// runner implements [tool.Plugin] for a [Plugin]. It calls the handlers and counts the running calls. If a handler
// panics, only the call of that handler fails.
type runner struct {
	plugin Plugin
	served atomic.Pointer[served]

	mu         sync.Mutex
	configured bool
	calls      map[*tool.Call]*lazyctx.Context
	draining   bool
	idle       chan struct{} // closed when the plugin is draining and no call is running
	spaces     []space
	journal    *workspace.Journal // nil if the plugin has no state directory
	dir        string             // state directory; empty if the plugin has none
	close      sync.Once
}

// served holds the plugin's description and the tools by name.
type served struct {
	desc  *tool.Description
	tools map[string]Tool
}

func serve(desc *tool.Description, tools []Tool) *served {
	s := &served{desc: desc, tools: make(map[string]Tool, len(tools))}
	for _, t := range tools {
		s.tools[t.def.Name] = t
	}
	return s
}

var errDrained = tool.Errorf(tool.Unavailable, "The call was stopped because it did not end before the plugin was replaced. Call again.")

// New returns the same [tool.Plugin] that [Serve] serves, for tests that call a plugin in process. Most tests use
// package tooltest, which calls New. The error joins all problems in the definition of the plugin.
func New(p Plugin) (tool.Plugin, error) {
	r, toolErr, err := newRunner(p)
	errs := []error{err, toolErr}
	for _, t := range p.Tools {
		if err := t.def.Validate(); t.err == nil && err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", t.def.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("plugin %q is invalid: %w", p.Name, err)
	}
	return r, nil
}

func newRunner(p Plugin) (r *runner, toolErr, err error) {
	if p.Relay, err = p.relay(); err != nil {
		return nil, nil, err
	}
	desc, toolErr, err := p.description()
	if err != nil {
		return nil, toolErr, err
	}
	r = &runner{plugin: p, calls: make(map[*tool.Call]*lazyctx.Context), idle: make(chan struct{})}
	r.served.Store(serve(desc, p.Tools))
	return r, toolErr, nil
}

// Describe returns the current description. If the plugin has not yet discovered its tools, the description contains
// no tools.
func (r *runner) Describe(ctx context.Context) (*tool.Description, error) {
	r.mu.Lock()
	discover := r.plugin.Discover != nil && r.configured
	r.mu.Unlock()
	old := r.served.Load()
	if !discover {
		return old.desc, nil
	}
	tools, err := r.plugin.Discover(ctx)
	if err != nil {
		return nil, err
	}
	desc := *old.desc
	var toolErr error
	if desc.Tools, toolErr = definitions(tools); toolErr != nil {
		fmt.Fprintf(os.Stderr, "plugin %s: the host will refuse some tools: %v\n", desc.Name, toolErr)
	}
	if r.plugin.Relay != nil && r.plugin.Relay.Items != nil {
		desc.Items = r.plugin.Relay.Items()
	}
	r.served.Store(serve(&desc, tools))
	return &desc, nil
}

func (r *runner) Configure(ctx context.Context, c tool.Configuration) ([]tool.Diagnostic, error) {
	diags := r.configure(ctx, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.configured = !slices.ContainsFunc(diags, func(d tool.Diagnostic) bool { return d.Severity == tool.SeverityError })
	return diags, nil
}

func (r *runner) configure(ctx context.Context, c tool.Configuration) []tool.Diagnostic {
	if c.StateDir != "" {
		r.mu.Lock()
		r.journal = workspace.NewJournal(filepath.Join(c.StateDir, "writes"))
		r.dir = c.StateDir
		r.mu.Unlock()
	}
	if r.plugin.Config.apply == nil {
		return nil
	}
	err := r.plugin.Config.apply(ctx, c.Config, Setup{
		Roots: c.Roots, StateDir: c.StateDir, OutputBytes: c.OutputBytes, HostVersion: c.HostVersion,
	})
	if err == nil {
		return nil
	}
	var at *ConfigError
	if errors.As(err, &at) {
		return []tool.Diagnostic{{Severity: tool.SeverityError, Summary: at.Summary, Detail: at.Detail, Path: at.Path}}
	}
	return []tool.Diagnostic{{Severity: tool.SeverityError, Summary: err.Error()}}
}

func (r *runner) Call(parent context.Context, call *tool.Call, peer tool.Peer) (res *tool.Result) {
	now := r.served.Load()
	t, ok := now.tools[call.Tool]
	if !ok {
		var names []string
		for _, d := range now.desc.Tools {
			names = append(names, d.Name)
		}
		return tool.Failed(tool.Errorf(tool.NotFound, "Plugin %s has no tool %q.%s", r.plugin.Name, call.Tool,
			suggest.DidYouMean(call.Tool, names)))
	}
	ctx := lazyctx.New(parent, time.Time{}, nil)
	defer ctx.Cancel(nil)
	if !r.enter(call, ctx) {
		return tool.Failed(tool.Errorf(tool.Unavailable, "Plugin %s is being replaced and accepts no more calls. Try again.", r.plugin.Name))
	}
	defer r.leave(call)
	defer func() {
		if p := recover(); p != nil {
			res = tool.Failed(panicked(tool.Errorf(tool.Internal, "Tool %s of plugin %s panicked: %v. This is a bug in the plugin. The error's data and the plugin's log contain the stack (toolhost plugin logs %s). The other tools still work.",
				call.Tool, r.plugin.Name, p, r.plugin.Name), "tool "+call.Tool, p))
		}
	}()
	res, err := t.run(ctx, &Call{Call: call, peer: peer, files: r.workspace, stateDir: r.stateDir})
	if res != nil && res.SessionState != nil && t.def.Traits.ReadOnly {
		slog.Warn("a read-only tool returned session state, which hosts ignore; remove the trait ReadOnly or the state", "tool", call.Tool)
		res.SessionState = nil
	}
	switch {
	case err != nil:
		if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && cause != nil {
			err = cause
		}
		failed := tool.Failed(err)
		if res != nil { // a failed call can also return data and effects
			failed.Title, failed.Metadata, failed.Data, failed.Attachments, failed.Contents = res.Title, res.Metadata,
				res.Data, res.Attachments, res.Contents
			failed.Effects, failed.SessionState, failed.Cwd = res.Effects, res.SessionState, res.Cwd
		}
		return failed
	case res == nil:
		return tool.Failed(tool.Errorf(tool.Internal, "Tool %s of plugin %s returned neither a result nor an error. Report this to the plugin's author.", call.Tool, r.plugin.Name))
	}
	return res
}

// stateDir returns the plugin's state directory, or "" if it has none.
func (r *runner) stateDir() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dir
}

// maxStack is the maximum size of the stack trace in the error of a panic, in bytes.
const maxStack = 8 << 10

// panicked adds the stack of a panic to an error and also writes the stack to the log. It must be called by the
// deferred function that recovered the panic.
func panicked(e *tool.Error, where string, value any) *tool.Error {
	stack := string(debug.Stack())
	if i := strings.Index(stack, "\npanic("); i >= 0 { // omit the frames of this function and of the recovery
		stack = stack[i+1:]
	}
	fmt.Fprintf(os.Stderr, "panic in %s: %v\n%s", where, value, stack)
	if len(stack) > maxStack {
		stack = stack[:maxStack] + "…"
	}
	e.Data = Data(map[string]string{"panic": fmt.Sprint(value), "stack": stack})
	return e
}

func (r *runner) enter(call *tool.Call, ctx *lazyctx.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return false
	}
	r.calls[call] = ctx
	return true
}

func (r *runner) leave(call *tool.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, call)
	if r.draining && len(r.calls) == 0 {
		close(r.idle)
	}
}

// maxWorkspaces is the maximum number of open workspaces.
const maxWorkspaces = 64

// space is the workspace for one set of roots.
type space struct {
	roots []tool.Root
	ws    *workspace.Workspace
}

// workspace returns the workspace for a set of roots. Calls with the same roots share one workspace.
func (r *runner) workspace(roots []tool.Root) (*workspace.Workspace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spaces {
		if slices.Equal(s.roots, roots) {
			return s.ws, nil
		}
	}
	w, err := workspace.Open(roots)
	if err != nil {
		return nil, err
	}
	if r.journal != nil {
		if err := w.UseJournal(r.journal); err != nil {
			fmt.Fprintln(os.Stderr, err) // the error is only logged, because the call can continue without the journal
		}
	}
	if len(r.spaces) >= maxWorkspaces {
		// Running calls can still use the dropped workspaces, so they are not closed. The garbage collector closes
		// their descriptors later.
		r.spaces = nil
	}
	r.spaces = append(r.spaces, space{roots, w})
	return w, nil
}

func (r *runner) Health(ctx context.Context, name string) (tool.Health, error) {
	if _, ok := r.served.Load().tools[name]; !ok && name != "" {
		return tool.Health{Status: tool.HealthNotFound,
			Message: fmt.Sprintf("plugin %s has no tool %q", r.plugin.Name, name)}, nil
	}
	if r.plugin.Health != nil {
		return r.plugin.Health(ctx, name), nil
	}
	return tool.Health{Status: tool.Healthy}, nil
}

// Hook implements [tool.Hook]. If the hook panics, only the current event fails.
func (r *runner) Hook(ctx context.Context, in *tool.HookInput) (a *tool.HookAnswer, err error) {
	if r.plugin.Hook == nil {
		return nil, Errorf(tool.Unavailable, "Plugin %s serves no hooks. Remove the hook block that names it.", r.plugin.Name)
	}
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "panic in hook %s: %v\n%s", in.Hook, p, debug.Stack())
			err = fmt.Errorf("the hook panicked: %v", p)
		}
	}()
	return r.plugin.Hook(ctx, in)
}

// Invalidate implements [tool.Invalidator].
func (r *runner) Invalidate(ctx context.Context, i tool.Invalidation) error {
	if r.plugin.Invalidate == nil {
		return nil
	}
	return r.plugin.Invalidate(ctx, i)
}

func (r *runner) Drain(ctx context.Context, grace time.Duration) (int, error) {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		if len(r.calls) == 0 {
			close(r.idle)
		}
	}
	r.mu.Unlock()
	var over <-chan time.Time
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-r.idle:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-over:
	}
	return r.cancelAll(errDrained), nil
}

// cancelAll cancels the running calls. It then waits a short time while their handlers clean up.
func (r *runner) cancelAll(why error) int {
	r.mu.Lock()
	n := len(r.calls)
	for _, ctx := range r.calls {
		ctx.Cancel(why)
	}
	r.mu.Unlock()
	if n > 0 {
		select {
		case <-r.idle:
		case <-time.After(2 * time.Second):
		}
	}
	return n
}

// shutdown ends all calls and closes the plugin before the process exits. It returns the number of canceled calls.
func (r *runner) shutdown(why error) (canceled int) {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		if len(r.calls) == 0 {
			close(r.idle)
		}
	}
	r.mu.Unlock()
	canceled = r.cancelAll(why)
	if r.plugin.Close != nil {
		r.close.Do(r.plugin.Close)
	}
	return canceled
}
