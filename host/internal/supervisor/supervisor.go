// Package supervisor runs the processes of plugins.
//
// [Supervisor.Add] adds a plugin, and [Set.Reserve] leases the plugin to a call. The first call of a plugin starts
// its process. If the process dies, the next call starts it again.
//
// The life of a plugin's process has these steps:
//
//  1. The supervisor starts the binary in its own process group, with a new environment and without standard
//     input. A lifeline pipe closes when the host ends. If the plugin is confined, a launcher confines itself
//     and then executes the plugin.
//  2. The plugin prints one handshake line on its standard output. A timeout limits the wait.
//  3. The supervisor calls Describe and Configure and checks the results. If the plugin discovers its tools,
//     it calls Describe again.
//  4. The supervisor removes the plugin's socket file, but keeps the connection. Then it publishes the instance.
//  5. Calls lease the instance.
//  6. The supervisor asks the plugin to end, and then kills its process group.
//
// A [Plugin] is one binary with one set of launch settings. Its replacement is a new Plugin, which is
// started and checked while the old one still runs. Then the host publishes a [Set] with the replacement and
// retires the old plugin. The old plugin accepts no more calls and stops after its last call.
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

// InheritedFD is the descriptor number under which a plugin inherits the file of Spec.Inherit.
const InheritedFD = 4

// DefaultStartTimeout limits the start of a plugin, from exec to Configure.
const DefaultStartTimeout = 10 * time.Second

// Spec describes a plugin and its launch settings.
type Spec struct {
	// Name is the unique name in the configuration.
	Name string
	// Path is the absolute path of the binary.
	Path string
	Args []string
	// Env is added to the built environment.
	Env map[string]string
	// StartTimeout limits the start. 0 means DefaultStartTimeout.
	StartTimeout time.Duration
	// Config is the configuration for the plugin, a JSON object. It can be nil.
	Config json.RawMessage
	Roots  []tool.Root
	// StateDir is the plugin's state directory. It is created before the start. Empty means that the plugin has no state
	// directory.
	StateDir string
	// Inherit returns a file that the plugin inherits as descriptor InheritedFD. The supervisor does not close the file.
	// Both Inherit and the returned file can be nil.
	Inherit func() *os.File
	// Executable returns the file to run instead of the binary, or an error that prevents the start. A nil
	// Executable runs the binary.
	Executable func() (string, error)
	// Confine confines a process before it starts. It can change the whole command. It returns nil for a process without
	// confinement. A nil Confine means that no process is confined.
	Confine func(Start) (*Confined, error)
	// Diagnose formats problems of the configuration for the operator. A nil Diagnose uses a plain format.
	Diagnose func(diags []tool.Diagnostic) string
	Restart  Restart
	// Observe is called for each event of the plugin, with a reason if one is known. It must not block. It can be nil.
	Observe func(event Event, why string)
	// DependsOn lists plugins that must be stopped after this plugin.
	DependsOn []string
	// Prepare starts the plugins on which this plugin depends, before each start. It can be nil.
	Prepare func(ctx context.Context) error
	// Granted returns an error if the plugin requires more permissions than it has. It is called before Configure. It
	// can be nil.
	Granted func(*tool.Description) error
	// Accept returns an error if the plugin's description or tools are unacceptable. It can be nil.
	Accept func(*tool.Description) error
}

// Options configure a supervisor.
type Options struct {
	HostVersion string
	// RuntimeDir is the directory for the sockets. Its path must be short, and the directory must be private to the
	// user. If it is empty, the supervisor creates a directory in the system's default location.
	RuntimeDir string
	Log        *slog.Logger
}

// Start describes a process that is about to start.
type Start struct {
	Cmd       *exec.Cmd
	Roots     []tool.Root
	SocketDir string
}

// Confined contains the callbacks of a confined process.
type Confined struct {
	// Running is called with the error of the start. It returns an error if the plugin does not run.
	Running func(start error) error
	// Ended is called when the process has ended or failed to start. It can be nil.
	Ended func()
}

// Supervisor runs plugins. It is safe for concurrent use.
type Supervisor struct {
	opts  Options
	hclog hclog.Logger

	mu      sync.Mutex
	plugins map[*Plugin]struct{} // all plugins that are not closed
	closed  bool

	runtimeOnce sync.Once
	runtimeErr  error
	runtimeDir  string
}

// New returns a supervisor.
func New(opts Options) *Supervisor {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Supervisor{opts: opts, hclog: hclog.NewNullLogger(), plugins: make(map[*Plugin]struct{})}
}

// Add adds a plugin without starting it.
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

// Set maps configured names to the plugins that serve calls. It is immutable.
type Set map[string]*Plugin

// Reserve leases the named plugin to one call. It returns nil if the plugin was retired because a newer set replaces
// this set.
func (s Set) Reserve(name string) *Lease {
	p := s[name]
	if p != nil && !p.users.take() {
		return nil
	}
	return &Lease{name: name, plugin: p}
}

// Lease entitles one call to use a plugin; see [Set.Reserve].
type Lease struct {
	name   string
	plugin *Plugin // nil if no plugin has this name
}

// Release returns the lease. It must be called exactly once.
func (l *Lease) Release() {
	if l.plugin != nil {
		l.plugin.users.release()
	}
}

// Version identifies the plugin. A plugin with another binary or other launch settings has another version.
func (l *Lease) Version() any { return l.plugin }

// Call calls a tool of the plugin. It starts the plugin if necessary.
func (l *Lease) Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	if l.plugin == nil {
		return tool.Failed(tool.Errorf(tool.Internal, "no plugin is named %q", l.name).From(tool.SourceHost))
	}
	p, done := l.plugin.within(call.Roots)
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
	if in.discovers && p == l.plugin { // the tools of processes for other roots can differ
		go p.rediscover(in)
	}
	return res
}

// Hook calls the hook of the plugin. It starts the plugin if necessary.
func (l *Lease) Hook(ctx context.Context, input *tool.HookInput) (*tool.HookAnswer, error) {
	if l.plugin == nil {
		return nil, fmt.Errorf("no plugin is named %q", l.name)
	}
	in, err := l.plugin.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer in.calls.release()
	hooks, ok := in.rpc.(tool.Hook)
	if !ok || !slices.Contains(in.desc.Capabilities, tool.CapabilityHooks) {
		return nil, fmt.Errorf("plugin %s serves no hooks (capability %q is missing); name another plugin in the hook block, or rebuild the plugin with sdk.Plugin.Hook", l.name, tool.CapabilityHooks)
	}
	a, err := hooks.Hook(ctx, input)
	if err != nil && mayHaveDied(ctx, tool.AsError(err)) && in.proc.hasExited(500*time.Millisecond) {
		l.plugin.forget(in)
		return nil, fmt.Errorf("plugin %s ended during the hook (%s)", l.name, in.proc.exitText())
	}
	if in.proven.CompareAndSwap(false, true) {
		l.plugin.recovery.proven()
	}
	return a, err
}

// mayHaveDied reports whether a call may have failed because its process died. The connection is then closed, which a
// running call sees as a cancellation.
func mayHaveDied(ctx context.Context, e *tool.Error) bool {
	if e == nil || e.Source != tool.SourcePlugin {
		return false
	}
	return e.Kind == tool.Unavailable || e.Kind == tool.Internal || e.Kind == tool.Canceled && ctx.Err() == nil
}

// Close stops all plugins. A plugin stops before the plugins on which it depends. Running calls have up to grace to end.
// Close returns when no process is left.
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
		if len(first) == 0 { // the plugins depend on each other
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

// RuntimeDir returns the directory that contains the socket directory of each process. The first call creates it and
// removes the directories of hosts that have ended.
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
		// Somebody else has prepared the name in a shared directory, which must not prevent a start.
		var made error
		if base, made = os.MkdirTemp(filepath.Dir(base), fmt.Sprintf("toolhost-%d-*", os.Getuid())); made != nil {
			return "", errors.Join(err, made)
		}
		return base, nil
	}
	sweep(base)
	dir := filepath.Join(base, fmt.Sprint(os.Getpid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	const sunPath, pluginPart = 104, len("/plugin-dir1234567890/plugin1234567890")
	if len(dir)+pluginPart > sunPath {
		return "", fmt.Errorf("the path %s is too long for a socket; set TMPDIR or XDG_RUNTIME_DIR to a shorter path", dir)
	}
	return dir, nil
}
