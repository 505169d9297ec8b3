// Package supervisor runs the plugin processes.
//
// [Supervisor.Add] adds a plugin, and [Set.Reserve] leases it to a call. The first call of a plugin starts
// its process, and the next call after the process died starts it again.
//
// A plugin's life, in order:
//
//  1. the binary is started in its own process group, with a built environment, no
//     standard input, and a lifeline pipe that closes when the host ends; if the plugin is
//     confined, a launcher confines itself and becomes the plugin;
//  2. handshake: one line on its standard output, read under a deadline;
//  3. Describe and Configure, checked; Describe again where tools are discovered;
//  4. its socket is unlinked (the connection stays), and the instance is published;
//  5. calls lease the instance;
//  6. stopped: asked to end, then its process group is killed.
//
// A [Plugin] is one binary with one set of launch settings. Its replacement is another Plugin, which is
// started and checked at the same time. Then the host publishes a [Set] with the replacement and retires the
// old plugin, which takes no more calls and stops after its last one.
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

// InheritedFD is the descriptor of the file of Spec.Inherit in a plugin.
const InheritedFD = 4

// DefaultStartTimeout limits the start of a plugin, from exec to Configure.
const DefaultStartTimeout = 10 * time.Second

// Spec configures a plugin and its launch.
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
	// Config is the plugin's own configuration, a JSON object. It may be nil.
	Config json.RawMessage
	Roots  []tool.Root
	// StateDir is created before the start. It may be empty.
	StateDir string
	// Inherit returns a file that the plugin inherits as descriptor InheritedFD. The supervisor does not close it.
	// Inherit and the file may be nil.
	Inherit func() *os.File
	// Executable returns the file to run instead of the binary, or an error that prevents the start. A nil
	// Executable runs the binary.
	Executable func() (string, error)
	// Confine confines a process before it starts, and may change its whole command. It returns nil for a
	// process that is not confined. A nil Confine confines none.
	Confine func(Start) (*Confined, error)
	// Diagnose formats problems of the configuration for the operator. A nil Diagnose uses a plain format.
	Diagnose func(diags []tool.Diagnostic) string
	Restart  Restart
	// Observe is called for each event of the plugin, with a reason if there is one. It must not block. It
	// may be nil.
	Observe func(event Event, why string)
	// DependsOn names the plugins that are stopped after this one.
	DependsOn []string
	// Prepare starts the plugins that this one depends on, before each start. It may be nil.
	Prepare func(ctx context.Context) error
	// Granted returns an error if the plugin needs more than it is granted. It is called before Configure. It
	// may be nil.
	Granted func(*tool.Description) error
	// Accept returns an error if the plugin's description and tools are not acceptable. It may be nil.
	Accept func(*tool.Description) error
}

// Options configure a supervisor.
type Options struct {
	HostVersion string
	// RuntimeDir contains the sockets. Its path must be short and the directory private to the user. If it is
	// empty, the supervisor creates one in the system's default location.
	RuntimeDir string
	Log        *slog.Logger
}

// Start is a process that is about to be started.
type Start struct {
	Cmd       *exec.Cmd
	Roots     []tool.Root
	SocketDir string
}

// Confined has the callbacks of a confined process.
type Confined struct {
	// Running is called with the error of the start, and returns an error if the plugin does not run.
	Running func(start error) error
	// Ended is called when the process has ended or did not start. It may be nil.
	Ended func()
}

// Supervisor runs plugins. It is safe for concurrent use.
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

// Set holds the plugins that serve calls, by their configured names. It is immutable.
type Set map[string]*Plugin

// Reserve leases the plugin of a name to one call. It returns nil if the plugin was retired, because a newer
// set replaces this one.
func (s Set) Reserve(name string) *Lease {
	p := s[name]
	if p != nil && !p.users.take() {
		return nil
	}
	return &Lease{name: name, plugin: p}
}

// Lease is the use of a plugin by one call; see [Set.Reserve].
type Lease struct {
	name   string
	plugin *Plugin // nil if no plugin has the name
}

// Release returns the lease. It must be called once.
func (l *Lease) Release() {
	if l.plugin != nil {
		l.plugin.users.release()
	}
}

// Version identifies the plugin. A plugin with another binary or other launch settings has another version.
func (l *Lease) Version() any { return l.plugin }

// Call runs a call on the plugin, and starts the plugin if it does not run.
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
	if in.discovers && p == l.plugin { // processes for other roots may have other tools
		go p.rediscover(in)
	}
	return res
}

// Hook calls the hook of the plugin, and starts the plugin if it does not run.
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

// RuntimeDir returns the directory in which each process gets its own socket directory. The first call creates it
// and removes those of hosts that have ended.
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
