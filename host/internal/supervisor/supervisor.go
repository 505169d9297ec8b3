// Package supervisor owns the plugin processes. Each plugin is started by the
// first call that needs it, and started again by the next call after it died.
//
// A plugin's life, in order:
//
//  1. the binary is started in its own process group, with a built environment, no
//     standard input, and a lifeline pipe that tells it when the host is gone; where it is
//     confined, a launcher does that and becomes the plugin;
//  2. handshake: one line on its standard output, read under a deadline;
//  3. Describe and Configure, checked; Describe again where tools are discovered;
//  4. its socket is unlinked (the connection stays), and the instance is published;
//  5. calls lease the instance;
//  6. stopped: asked to end, then its process group is killed.
//
// A [Plugin] is one binary run in one way. What replaces it is another Plugin, which is started
// and checked beside it; then the host publishes a [Set] with that one in its place, and
// retires the old one: it takes no more calls, and is stopped when it has none left.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"toolhost.dev/sdk/tool"
)

// InheritedFD is where a plugin finds the file of Spec.Inherit.
const InheritedFD = 4

// DefaultStartTimeout bounds a plugin's start, from exec to configured.
const DefaultStartTimeout = 10 * time.Second

// Spec says how a plugin is run.
type Spec struct {
	// Name in the configuration, unique.
	Name string
	// Path of the binary, absolute.
	Path string
	Args []string
	// Env is added to the built environment.
	Env map[string]string
	// StartTimeout; 0 means DefaultStartTimeout.
	StartTimeout time.Duration
	// Config is the plugin's own configuration as a JSON object; nil: none.
	Config json.RawMessage
	Roots  []tool.Root
	// StateDir is made before the start; empty: none.
	StateDir string
	// Inherit gives a file that the plugin inherits, as its descriptor InheritedFD; the
	// supervisor does not close it. nil, or a nil file: none.
	Inherit func() *os.File
	// Executable gives the file that is run in the place of the binary, or says why none is.
	// nil: the binary itself.
	Executable func() (string, error)
	// Confine has a process confined that is about to be started, and may change all of
	// its command. It gives nil for one that is not confined. nil: none is.
	Confine func(Start) (*Confined, error)
	// Diagnose writes what is wrong with the configuration for the operator. nil: plainly.
	Diagnose func(diags []tool.Diagnostic) string
	Restart  Restart
	// Observe hears of the turns of its life, with a reason where there is one; it must return
	// soon. nil: nobody does.
	Observe func(event Event, why string)
	// DependsOn names the plugins that are stopped after it.
	DependsOn []string
	// Prepare has everything started that the plugin depends on, before each start. nil: nothing.
	Prepare func(ctx context.Context) error
	// Granted says what the plugin needs and is not granted, before it is configured; nil: nothing
	// is ever missing.
	Granted func(*tool.Description) error
	// Accept says what is wrong with what the plugin says of itself, with its tools; nil: nothing
	// ever is.
	Accept func(*tool.Description) error
}

// Options of a supervisor.
type Options struct {
	HostVersion string
	// RuntimeDir holds the sockets: short, private to the user. Empty: one is made
	// in the system's place for it.
	RuntimeDir string
	Log        *slog.Logger
}

// Start is a process that is about to be started.
type Start struct {
	Cmd       *exec.Cmd
	Roots     []tool.Root
	SocketDir string
}

// Confined is a process that is started confined.
type Confined struct {
	// Running is called with what starting it gave, and says whether the plugin runs.
	Running func(start error) error
	// Ended is called when the process has ended, or did not come to run. nil: nobody waits for that.
	Ended func()
}

// Supervisor owns plugins. It is safe for concurrent use.
type Supervisor struct {
	opts  Options
	hclog hclog.Logger

	mu      sync.Mutex
	plugins map[*Plugin]struct{} // until they are closed
	closed  bool

	runtimeOnce sync.Once
	runtimeErr  error
	runtimeDir  string
}

// New makes a supervisor.
func New(opts Options) *Supervisor {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Supervisor{opts: opts, hclog: hclog.NewNullLogger(), plugins: make(map[*Plugin]struct{})}
}

// Add makes a plugin; it is not started yet.
func (s *Supervisor) Add(spec Spec) *Plugin {
	if spec.Diagnose == nil {
		spec.Diagnose = plainDiagnostics
	}
	p := newPlugin(s, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plugins[p] = struct{}{}
	p.closed = s.closed
	return p
}

// Set is the plugins that serve calls, by their configured names. It is not changed: others
// are another set.
type Set map[string]*Plugin

// Reserve keeps the plugin that serves a name now for one call; nil: it has been replaced, and
// there is another set by now.
func (s Set) Reserve(name string) *Place {
	p := s[name]
	if p != nil && !p.users.take() {
		return nil
	}
	return &Place{name: name, plugin: p}
}

// Place is a call's place on a plugin; see [Set.Reserve].
type Place struct {
	name   string
	plugin *Plugin // nil: there is none of the name
}

// Release gives the place up. It must be called once.
func (at *Place) Release() {
	if at.plugin != nil {
		at.plugin.users.release()
	}
}

// Version tells the plugin from any that runs another binary, or runs it in another way.
func (at *Place) Version() any { return at.plugin }

// Call runs a call on the plugin, starting it if need be.
func (at *Place) Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	if at.plugin == nil {
		return tool.Failed(tool.Errorf(tool.Internal, "no plugin is named %q", at.name).From(tool.SourceHost))
	}
	p, done := at.plugin.within(call.Roots)
	defer done()
	in, err := p.acquire(ctx)
	if err != nil {
		return tool.Failed(err)
	}
	defer in.calls.release()
	res := in.rpc.Call(ctx, call, peer)
	if mayHaveDied(ctx, res.Error) && in.proc.hasExited(500*time.Millisecond) {
		p.forget(in)
		res = tool.Failed(p.crashed(call.Tool, in))
	} else if !in.proven.Load() && in.proven.CompareAndSwap(false, true) {
		p.recovery.proven()
	}
	res.Run.Plugin, res.Run.PluginVersion = in.desc.Name, in.desc.Version
	if in.discovers && p == at.plugin { // processes for other roots may have other tools
		go p.rediscover(in)
	}
	return res
}

// Hook has the plugin answer as a hook, starting it if need be.
func (at *Place) Hook(ctx context.Context, input *tool.HookInput) (*tool.HookAnswer, error) {
	if at.plugin == nil {
		return nil, fmt.Errorf("no plugin is named %q", at.name)
	}
	in, err := at.plugin.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer in.calls.release()
	hooks, ok := in.rpc.(tool.Hook)
	if !ok || !slices.Contains(in.desc.Capabilities, tool.CapabilityHooks) {
		return nil, fmt.Errorf("plugin %s serves no hooks (it lacks the capability %q): take it out of the hook block, or rebuild it with sdk.Plugin.Hook", at.name, tool.CapabilityHooks)
	}
	a, err := hooks.Hook(ctx, input)
	if err != nil && mayHaveDied(ctx, tool.AsError(err)) && in.proc.hasExited(500*time.Millisecond) {
		at.plugin.forget(in)
		return nil, fmt.Errorf("plugin %s ended during the hook (%s)", at.name, in.proc.exitText())
	}
	if in.proven.CompareAndSwap(false, true) {
		at.plugin.recovery.proven()
	}
	return a, err
}

// mayHaveDied reports whether a call can have failed because its process died. The connection is
// closed then, which a call that nobody canceled hears as that.
func mayHaveDied(ctx context.Context, e *tool.Error) bool {
	if e == nil || e.Source != tool.SourcePlugin {
		return false
	}
	return e.Kind == tool.Unavailable || e.Kind == tool.Internal || e.Kind == tool.Canceled && ctx.Err() == nil
}

// Close stops every plugin, those first that others do not depend on: calls that run get grace to
// end. It returns when no process is left.
func (s *Supervisor) Close(grace time.Duration) {
	s.mu.Lock()
	s.closed = true
	plugins := slices.Collect(maps.Keys(s.plugins))
	s.mu.Unlock()
	for len(plugins) > 0 {
		var first, later []*Plugin
		for _, p := range plugins {
			if slices.ContainsFunc(plugins, func(q *Plugin) bool { return slices.Contains(q.spec.DependsOn, p.spec.Name) }) {
				later = append(later, p)
			} else {
				first = append(first, p)
			}
		}
		if len(first) == 0 { // they depend on each other
			first, later = later, nil
		}
		var wg sync.WaitGroup
		for _, p := range first {
			wg.Go(func() { p.close(grace) })
		}
		wg.Wait()
		plugins = later
	}
	s.runtimeOnce.Do(func() { s.runtimeErr = errClosed })
	if s.runtimeDir != "" && s.opts.RuntimeDir == "" {
		_ = os.RemoveAll(s.runtimeDir)
	}
}

var errClosed = errors.New("the host is closed")

// RuntimeDir gives the directory in which each process gets its own socket directory.
// It is made on first use, named by this process, and what dead hosts left is swept.
func (s *Supervisor) RuntimeDir() (string, error) {
	s.runtimeOnce.Do(func() {
		if s.runtimeDir = s.opts.RuntimeDir; s.runtimeDir == "" {
			s.runtimeDir, s.runtimeErr = makeRuntimeDir()
		}
	})
	return s.runtimeDir, s.runtimeErr
}

func makeRuntimeDir() (string, error) {
	base := os.Getenv("XDG_RUNTIME_DIR")
	if st, err := os.Stat(base); base == "" || err != nil || !st.IsDir() {
		base = os.TempDir()
	}
	base = filepath.Join(base, fmt.Sprintf("toolhost-%d", os.Getuid()))
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	if err := ownedPrivately(base); err != nil {
		return "", err
	}
	sweep(base)
	dir := filepath.Join(base, fmt.Sprint(os.Getpid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	const sunPath, pluginPart = 104, len("/plugin-dir1234567890/plugin1234567890")
	if len(dir)+pluginPart > sunPath {
		return "", fmt.Errorf("the directory %s is too long a path for a socket: set TMPDIR or XDG_RUNTIME_DIR to a shorter one", dir)
	}
	return dir, nil
}
