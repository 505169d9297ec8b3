// Package host is toolhost as a Go library: it loads tools from plugins as a
// configuration says, and runs calls on them.
//
//	h, err := host.New(ctx, host.Options{Workspace: dir})
//	if err != nil { … }
//	defer h.Close()
//	res := h.Run(ctx, host.Request{Command: "read main.go --limit 20"}, nil)
//
// A [Host] is safe for concurrent use. A call never returns an error: whatever goes
// wrong is in its result, with a kind, a message that says what to do next, and whose
// failure it was.
package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/dispatch"
	"toolhost.dev/host/internal/metrics"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/trace"
	"toolhost.dev/host/router"
)

// Version of the host, as plugins see it.
const Version = "0.1.0"

// Options of a host; the zero value uses the built-in configuration and the current
// directory.
type Options struct {
	// Config is a configuration file or directory; empty: the built-in default, which
	// enables the bundled plugins.
	Config string
	// Variables are values for the variables of the configuration, each "NAME=VALUE"; the last of
	// a name counts. VariableFiles hold more, and count less.
	Variables, VariableFiles []string
	// BundledDir holds the bundled plugins. Empty: "plugins" beside the executable.
	BundledDir string
	// Workspace is the root of sessions that name none. Empty: the current directory.
	Workspace string
	// StateDir keeps sessions across runs. Empty: what the configuration says, else the
	// user's ($XDG_STATE_HOME/toolhost).
	StateDir string
	// OnAsk decides asks of requests whose [Front] cannot: "allow" or "deny". Empty: what
	// the configuration says ("prompt" counts as deny here).
	OnAsk string
	// Prompt has asks go to the [Front] of a request when neither OnAsk nor the configuration
	// says what becomes of them. Otherwise they are declined then.
	Prompt bool
	// Log receives the host's and the plugins' logs. nil: they are discarded.
	Log *slog.Logger
	// RetryFailed starts plugins again that took long to fail a moment ago; otherwise
	// such a failure is remembered for a minute, so that it does not delay every run.
	RetryFailed bool
	// Live has the host take over changed binaries and configuration files by itself, and
	// answer other processes of the user that use the same state directory; see [Running].
	// For a host that lives longer than a few calls.
	Live bool
	// Hooks take part in the life of tools and calls, beside those of the configuration, and
	// before them where the priority is the same.
	Hooks []Hook
	// OnConfig, if set, is told the configured log level as soon as it is known, and again
	// when it changes.
	OnConfig func(level slog.Level)

	// ignorePins loads plugins that are not what they are pinned to.
	ignorePins bool
	// nothing is configured.
	nothing bool
}

// Host runs calls on the configured tools.
type Host struct {
	opts  Options
	log   *slog.Logger
	state *state.DB
	// stateRoot is the state directory without symbolic links; empty: in memory.
	stateRoot string
	super     *supervisor.Supervisor
	scheduler *scheduler.Scheduler
	gates     scheduler.Gates
	pins      *pins
	commands  *commands
	idPrefix  string
	lastID    atomic.Uint64
	problems  []string // that stay whatever is reloaded

	current  atomic.Pointer[generation]
	lives    registry.Lives
	managed  managed
	reloads  reloads
	watchers subscribers[Update]
	states   subscribers[Transition]
	metrics  metrics.Metrics
	live     live
	notices  notices
	adaptive dispatch.Adaptive
	tracing  tracing
	denials  denials
	// redirected tells, by root, whether git was sent elsewhere there before any plugin could do so.
	redirected sync.Map

	closeOnce sync.Once
	closeErr  error
}

// Result is the outcome of a call; see package tool.
type Result = tool.Result

// Front hears from a call while it runs and answers its asks. Its methods may be
// called from several goroutines.
type Front = dispatch.Front

// Request is one call: a command string, or a name with arguments.
type Request struct {
	// ID of the call; empty: one is made.
	ID string
	// MessageID is the caller's own id of the message that holds the call.
	MessageID string
	// Command is a command string. Ignored when Name is set.
	Command string
	// Name of a tool, with Arguments, a JSON object.
	Name      string
	Arguments json.RawMessage
	// Session whose file states, working directory and shell state apply. Empty: the
	// workspace's own.
	Session string
	// Workspace is the read-write root of the session, absolute. Empty: the host's.
	Workspace string
	// Trace is the W3C trace context that the call is a part of, as the header traceparent has
	// it. Empty, or not valid: none.
	Trace string
}

// New reads the configuration and registers the tools. Plugins are started by the
// first call that needs them; one that was never described before is started once to
// hear what it serves. A plugin that cannot be loaded does not keep the others out:
// see [Host.Problems].
func New(ctx context.Context, opts Options) (*Host, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.BundledDir == "" {
		opts.BundledDir = BundledDir()
	}
	cfg, err := opts.readConfig()
	if err != nil {
		return nil, err
	}
	if opts.OnConfig != nil {
		opts.OnConfig(cfg.Host.LogLevel)
	}
	workspace, err := realDir(opts.Workspace)
	if err != nil {
		return nil, err
	}
	if err := checkHooks(opts.Hooks, cfg); err != nil {
		return nil, err
	}
	opts.Workspace = workspace
	h := &Host{opts: opts, log: opts.Log, idPrefix: randomPrefix(), scheduler: scheduler.New(cfg.Host.MaxParallel)}
	h.openState(cfg)
	auditing(cfg, h.state)
	conf := &confinement{cfg: cfg, bundled: opts.BundledDir, cache: h.stateRoot}
	if err := conf.check(configuredRoots(cfg, workspace)); err != nil {
		return nil, errors.Join(err, h.state.Close())
	}
	if h.pins, err = newPins(h, opts.Config); err != nil {
		return nil, errors.Join(err, h.state.Close())
	}
	h.commands = h.newCommands()
	h.super = supervisor.New(supervisor.Options{HostVersion: Version, Log: h.log})
	h.reloads.seen = h.onDisk(cfg)
	h.lives.Tell = h.states.tell
	g, err := h.load(ctx, cfg, conf)
	h.reportDefinitions(g)
	h.lives.Publish(g.registry, g.down)
	h.current.Store(g)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.tellHooks(nil, g)
	if opts.Live {
		h.keepApplied(g)
		h.goLive()
	}
	return h, nil
}

// realDir makes a directory's path absolute and free of symbolic links.
func realDir(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("the workspace cannot be used: %w", err)
	}
	if st, err := os.Stat(abs); err != nil || !st.IsDir() {
		return "", fmt.Errorf("the workspace %s is not a directory", abs)
	}
	return abs, nil
}

// openState opens the state database, or one in memory when that fails: calls work
// without it, but sessions end with the process, which Problems tells.
func (h *Host) openState(cfg *config.Config) {
	dir, err := stateDir(h.opts.StateDir, cfg)
	if err == nil {
		h.state, err = state.Open(dir, h.log)
	}
	if err == nil {
		h.stateRoot, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		return
	}
	h.problem("Sessions are not kept after this run: %v.", err)
	if h.state, err = state.OpenInMemory(h.log); err != nil {
		panic("host: an in-memory database cannot be opened: " + err.Error()) // only out of memory
	}
}

func stateDir(wanted string, cfg *config.Config) (string, error) {
	for _, dir := range []string{wanted, cfg.Host.StateDir} {
		if dir != "" {
			return filepath.Abs(dir)
		}
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "toolhost"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "toolhost"), nil
}

func (h *Host) problem(format string, a ...any) {
	h.problems = append(h.problems, fmt.Sprintf(format, a...))
}

// Problems lists what keeps a part of the configuration from working: plugins that
// could not be loaded, tools that could not be registered. Empty: nothing.
func (h *Host) Problems() []string {
	return slices.Concat(h.problems, h.current.Load().problems)
}

// Close ends what runs, stops every plugin and saves the sessions. It returns when no
// process is left.
func (h *Host) Close() error {
	h.closeOnce.Do(func() {
		h.reloads.close() // from now on nothing of what is live changes
		h.live.close()
		h.live.background.Wait()
		h.notices.close()
		h.super.Close(5 * time.Second)
		h.commands.close()
		h.tracing.close()
		h.closeErr = h.state.Close()
	})
	return h.closeErr
}

// Begin takes a request up to its place in its session's line without waiting, so
// that requests begun one after the other also run in that order where they must.
// Run must be called on what it gives.
func (h *Host) Begin(req Request, front Front) *Pending {
	if req.ID == "" {
		req.ID = h.newID()
	}
	s, err := h.session(req)
	if err != nil {
		e := tool.AsError(err).From(tool.SourceHost)
		h.auditRefused(req, e)
		h.metrics.Tool(metrics.None).Ended(metrics.Call{Kind: e.Kind})
		return &Pending{failed: &tool.Result{Error: e, Run: tool.Run{CallID: req.ID}}}
	}
	inner := h.current.Load().dispatch.Begin(h.dispatchRequest(req, s))
	return &Pending{host: h, inner: inner, front: h.front(front)}
}

func (h *Host) dispatchRequest(req Request, s dispatch.Session) dispatch.Request {
	return dispatch.Request{
		ID: req.ID, MessageID: req.MessageID, Command: req.Command, Name: h.toolName(req.Name), Arguments: req.Arguments, Session: s, Trace: trace.Parse(req.Trace),
	}
}

// toolName gives the full name for a function name; other names stay as they are.
func (h *Host) toolName(name string) string {
	r := h.current.Load().registry
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

// Pending is a request that has its place in line; see [Host.Begin].
type Pending struct {
	host   *Host
	inner  *dispatch.Pending
	front  Front
	failed *tool.Result
}

// Native reports whether the request is a native command, whose output comes as it is
// printed.
func (p *Pending) Native() bool { return p.inner != nil && p.inner.Native() }

// Run carries the request out. Call it once. When ctx ends, the tool is told to stop.
func (p *Pending) Run(ctx context.Context) *Result {
	if p.failed != nil {
		return p.failed
	}
	if !p.inner.ReadOnly() {
		defer p.host.current.Load().roots.forget()
	}
	return p.inner.Run(ctx, p.front)
}

// Run carries out one request. front may be nil. When ctx ends, the tool is told to
// stop and the result says so.
func (h *Host) Run(ctx context.Context, req Request, front Front) *Result {
	return h.Begin(req, front).Run(ctx)
}

// Explain says what a command means without running it.
func (h *Host) Explain(req Request) *router.Command {
	cwd := h.opts.Workspace
	if s, err := h.session(req); err == nil {
		cwd = s.Cwd
	}
	return h.current.Load().dispatch.Explain(req.Command, cwd)
}

// session finds or begins a request's session.
func (h *Host) session(req Request) (dispatch.Session, error) {
	workspace := h.opts.Workspace
	if req.Workspace != "" {
		var err error
		if workspace, err = realDir(req.Workspace); err != nil {
			return dispatch.Session{}, tool.Errorf(tool.InvalidArguments, "%w. Name an existing directory.", err)
		}
	}
	id := req.Session
	if id == "" {
		id = "workspace:" + workspace
	}
	s, known, err := h.state.Session(id)
	if err != nil {
		return dispatch.Session{}, fmt.Errorf("the session %s cannot be read: %w", id, err)
	}
	named := strings.Contains(req.Command, outputName) || bytes.Contains(req.Arguments, []byte(outputName))
	out := dispatch.Session{Session: s, Roots: h.current.Load().roots.of(workspace, named)}
	if !known || s.Workspace != workspace || !out.Contains(s.Cwd) || !isDir(s.Cwd) {
		out.Session = state.Session{ID: id, Workspace: workspace, Cwd: workspace}
		h.state.SaveSession(out.Session)
	}
	return out, nil
}

// configuredRoots are the roots of a workspace's sessions, as far as the configuration
// says them.
func configuredRoots(cfg *config.Config, workspace string) []tool.Root {
	roots := []tool.Root{{Path: workspace, Writable: cfg.Sandbox.Workspace != "read-only"}}
	for _, r := range cfg.Sandbox.Roots {
		if path, err := filepath.EvalSymlinks(r.Path); err == nil && path != workspace {
			roots = append(roots, tool.Root{Path: path, Writable: r.Writable})
		}
	}
	return roots
}

// pluginStateDir is a plugin's own directory; empty when nothing is kept.
func (h *Host) pluginStateDir(plugin string) string {
	if h.stateRoot == "" {
		return ""
	}
	return filepath.Join(h.stateRoot, "plugins", plugin)
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
