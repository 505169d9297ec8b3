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
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// InheritedFD is the descriptor number of the file that [Host.Inherit] returns, in the process of the plugin.
const InheritedFD = 4

// DefaultStartTimeout limits the whole start of a plugin, from exec to the end of Configure.
const DefaultStartTimeout = 10 * time.Second

// handshakesAtOnce limits the number of processes that are between exec and their handshake. Without this limit, the
// processes of many sessions that begin together slow each other down until each of them exceeds its start timeout.
func handshakesAtOnce() int { return max(8, 4*runtime.GOMAXPROCS(0)) }

// Spec describes a plugin and its launch settings.
type Spec struct {
	// Name is the name of the plugin in the configuration. It must be unique.
	Name string
	// Path is the absolute path of the binary.
	Path string
	Args []string
	// Env contains additional environment variables for the plugin.
	Env map[string]string
	// StartTimeout limits the duration of a start. It does not include the wait for other processes that are starting.
	// Zero means DefaultStartTimeout.
	StartTimeout time.Duration
	// Config is the configuration for the plugin, a JSON object. It can be nil.
	Config json.RawMessage
	Roots  []tool.Root
	// Place is the place of the process of the local user.
	Place   Place
	Restart Restart
	// DependsOn lists the plugins on which this plugin depends. They are stopped after this plugin.
	DependsOn []string
	// Host decides what the plugin is allowed to do. A nil Host means [Alone].
	Host Host
}

// Options configures a supervisor.
type Options struct {
	HostVersion string
	// RuntimeDir is the directory for sockets. Its path must be short, because the system limits the length of socket
	// paths. Only the user is allowed to access the directory. If RuntimeDir is empty, the supervisor creates a
	// directory in the default location of the system.
	RuntimeDir string
	Log        *slog.Logger
	// Site is what the processes of all plugins have in common. A nil Site means [Alone].
	Site Site
	// Programs starts the programs of plugins. If Programs is nil, the operating system starts them.
	Programs Programs
}

// Start describes a process that is about to start.
type Start struct {
	Cmd       *exec.Cmd
	Roots     []tool.Root
	StateDir  string
	Owner     string
	SocketDir string
}

// Confined contains functions that the supervisor calls for a confined process.
type Confined struct {
	// Running is called after the start with the error of the start. It returns an error if the plugin is not running.
	Running func(start error) error
	// Ended is called when the process ended or did not start. Ended can be nil.
	Ended func()
}

// Supervisor runs plugins. It is safe for concurrent use.
type Supervisor struct {
	opts       Options
	hclog      hclog.Logger
	handshakes chan struct{} // has an element for each process that is between exec and its handshake

	mu      sync.Mutex
	plugins map[*Plugin]struct{} // all plugins until they are closed
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
	if opts.Site == nil {
		opts.Site = Alone{}
	}
	return &Supervisor{opts: opts, hclog: hclog.NewNullLogger(), handshakes: make(chan struct{}, handshakesAtOnce()),
		plugins: make(map[*Plugin]struct{})}
}

// Add adds a plugin without starting it.
func (s *Supervisor) Add(spec Spec) *Plugin {
	if spec.Host == nil {
		spec.Host = Alone{}
	}
	p := newPlugin(s, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plugins[p] = struct{}{}
	p.closed = s.closed
	return p
}

// Set maps configured names to the plugins for new calls. A Set never changes.
type Set map[string]*Plugin

// Reserve leases a plugin to one call. Each owner has processes of its own, which use the owner's state directory. An
// empty owner means the local user. Reserve returns nil if the plugin is retired because a newer set replaced this set.
func (s Set) Reserve(name, owner string) *Lease {
	p := s[name]
	if p != nil && !p.users.take() {
		return nil
	}
	return &Lease{name: name, owner: owner, plugin: p}
}

// Lease permits one call to use a plugin; see [Set.Reserve].
type Lease struct {
	name   string
	owner  string
	plugin *Plugin // nil if the name is unknown
}

// Release returns the lease. It must be called exactly once.
func (l *Lease) Release() {
	if l.plugin != nil {
		l.plugin.users.release()
	}
}

// Version identifies the plugin. It changes with the plugin's binary and launch settings.
func (l *Lease) Version() any { return l.plugin }

// Call calls a tool of the plugin. It starts the plugin if necessary.
func (l *Lease) Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	if l.plugin == nil {
		return tool.Failed(tool.Errorf(tool.Internal, "no plugin is named %q", l.name).From(tool.SourceHost))
	}
	p, done := l.plugin.sibling(l.owner, call.Roots)
	defer done()
	switch s := p.poisons.strikesOf(call); {
	case s.n >= maxStrikes:
		return tool.Failed(p.refused(call.Tool, s))
	case s.n > 0 && s.repeatable:
		alone, left, err := p.isolated(ctx)
		if err != nil {
			return tool.Failed(tool.AsError(err).From(tool.SourceHost))
		}
		res, in := alone.call(ctx, call, peer, p)
		left(in == nil || in.dead())
		return res
	}
	res, in := p.call(ctx, call, peer, p)
	if in != nil && in.mayHaveChanged() && p == l.plugin { // ignore processes for other roots, because their tools can differ
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

// leases counts the users of a resource. The resource is released after its last user. A lease costs one
// atomic addition. After a call of the method "end", no more leases are available.
type leases struct {
	n     atomic.Int64
	ended atomic.Bool
	idle  chan struct{} // receives a value when n becomes 0 after a call of the method "end"
}

func newLeases() leases { return leases{idle: make(chan struct{}, 1)} }

// take leases the resource. If it returns true, the caller must call release.
func (l *leases) take() bool {
	l.n.Add(1)
	if l.ended.Load() {
		l.release()
		return false
	}
	return true
}

func (l *leases) release() {
	if l.n.Add(-1) == 0 && l.ended.Load() {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
}

// end prevents new leases. It returns a channel that receives one value after the last lease is released.
func (l *leases) end() <-chan struct{} {
	l.ended.Store(true)
	if l.n.Load() == 0 {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
	return l.idle
}

// call runs a call in the process of the plugin and also returns the process. The argument "counted" is
// the plugin that records which calls crash the process. The returned process is nil if it did not start.
func (p *Plugin) call(ctx context.Context, call *tool.Call, peer tool.Peer,
	counted *Plugin) (res *tool.Result, in *instance) {
	in, err := p.acquire(ctx)
	if err != nil {
		return tool.Failed(err), nil
	}
	defer in.calls.release()
	if err := p.spec.Host.Permit(call); err != nil {
		return tool.Failed(tool.AsError(err).From(tool.SourceHost)), in
	}
	if err := p.invalidate(ctx, in); err != nil {
		res = tool.Failed(err)
	} else {
		res = in.rpc.Call(ctx, call, peer)
	}
	switch {
	case mayHaveDied(ctx, res.Error) && in.proc.hasExited(500*time.Millisecond):
		if !in.hung.Load() && !killedFromOutside(in) {
			p.blame(in, call, counted)
		}
		p.forget(in)
		res.Error = p.crashed(call.Tool, in, res.Error)
		res.Output = ""
	case res.Error != nil && errors.Is(res.Error, toolrpc.ErrAbandoned):
		p.suspect(in)
	default:
		if !in.proven.Load() && in.proven.CompareAndSwap(false, true) {
			p.recovery.proven()
		}
		counted.poisons.clear(call)
	}
	res.Run.Plugin, res.Run.PluginVersion = in.desc.Name, in.desc.Version
	return res, in
}

// mayHaveDied reports whether the death of the plugin's process can be the cause of an error. If the process dies, the
// connection closes, and a running call fails with a cancellation. A process that ends on request cancels its calls,
// but their tools can still answer.
func mayHaveDied(ctx context.Context, e *tool.Error) bool {
	switch {
	case e == nil:
		return false
	case e.Kind == tool.Canceled:
		return ctx.Err() == nil
	}
	return e.Source == tool.SourcePlugin && (e.Kind == tool.Unavailable || e.Kind == tool.Internal)
}

// Close stops all plugins. A plugin is stopped before the plugins on which it depends. Running calls can continue for
// the duration grace. Close returns when all processes have ended.
func (s *Supervisor) Close(grace time.Duration) {
	s.mu.Lock()
	s.closed = true
	plugins := slices.Collect(maps.Keys(s.plugins))
	s.mu.Unlock()
	for len(plugins) > 0 {
		var first, later []*Plugin
		for _, p := range plugins {
			if slices.ContainsFunc(plugins,
				func(q *Plugin) bool { return slices.Contains(q.spec.DependsOn, p.spec.Name) }) {
				later = append(later, p)
			} else {
				first = append(first, p)
			}
		}
		if len(first) == 0 { // dependency cycle
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

// RuntimeDir returns the directory that contains a socket directory for each process. The first call creates the
// directory and removes the directories that ended hosts left behind.
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
		// Another user has created a directory with this name in a shared directory. The other user must not be able to
		// prevent the start, so use a directory with a new name.
		var made error
		if base, made = os.MkdirTemp(filepath.Dir(base), fmt.Sprintf("toolhost-%d-*", os.Getuid())); made != nil {
			return "", errors.Join(err, made)
		}
		return base, nil
	}
	sweep(base)
	dir := filepath.Join(base, runtimeName())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	const sunPath, pluginPart = 104, len("/plugin-dir1234567890/plugin1234567890")
	if len(dir)+pluginPart > sunPath {
		return "", fmt.Errorf("the path %s is too long for a socket; set TMPDIR or XDG_RUNTIME_DIR to a shorter path", dir)
	}
	return dir, nil
}
