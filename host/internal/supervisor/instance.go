package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/mod/semver"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// instance is a running process of a plugin. An instance never changes: a reload creates a new instance.
type instance struct {
	client *plugin.Client
	proc   *process
	rpc    tool.Plugin
	desc   *tool.Description

	calls     leases
	once      sync.Once
	began     time.Time
	discovers bool         // whether the plugin discovers its tools at run time; such tools can change
	listens   atomic.Bool  // whether the plugin can notify the host of changed tools
	asked     atomic.Int64 // time of the last request for the tools in Unix nanoseconds
	proven    atomic.Bool  // whether the process answered a call
	checking  atomic.Bool  // whether the method "suspect" is running; see Plugin.suspect
	hung      atomic.Bool  // whether the process was killed because it did not answer
	told      reports
	countOnce sync.Once
	atEnd     int64 // number of running calls at the end of the process; see callsAtEnd
}

func (in *instance) dead() bool {
	select {
	case <-in.proc.exited:
		return true
	default:
		return false
	}
}

// stop waits for running calls, at most for the duration grace. Then it ends the process and its process
// group.
func (in *instance) stop(grace time.Duration) {
	in.once.Do(func() {
		idle := in.calls.end()
		if in.rpc != nil && grace > 0 && !in.dead() {
			select {
			case <-idle:
			case <-in.proc.exited:
			case <-time.After(grace):
			}
		}
		// When the lifeline closes, the plugin cancels its calls and cleans up. The wait function of go-plugin is not
		// used, because it polls.
		if in.proc.pid() != 0 {
			in.proc.release()
			if in.client != nil && in.client.NegotiatedVersion() == toolrpc.LegacyVersion {
				in.client.Kill() // the legacy protocol has no lifeline
			}
			in.proc.hasExited(stopTimeout)
		}
		_ = in.proc.Kill(context.Background())
		if in.client != nil {
			in.client.Kill()
		}
	})
}

// stopTimeout is the time within which a plugin must clean up. After this time the plugin is killed.
const stopTimeout = 2 * time.Second

// launch performs the steps 1 to 4 in the package comment. Its error describes the problem of the binary
// and the remedy. If launch fails after the start of the process, it returns both the instance and the error, and the
// caller must stop the instance.
func (p *Plugin) launch() (*instance, error) {
	timeout := p.spec.StartTimeout
	if timeout <= 0 {
		timeout = DefaultStartTimeout
	}
	select {
	case p.super.handshakes <- struct{}{}:
	case <-p.life.Done():
		return nil, errClosed
	}
	ctx, cancel := context.WithTimeout(p.life, timeout)
	defer cancel()
	in, proto, err := p.connect(ctx)
	<-p.super.handshakes
	if err != nil {
		return in, in.explain(ctx, err, timeout)
	}
	if err := in.dispense(proto, p.super.opts.HostVersion); err != nil {
		return in, err
	}
	if in.desc, err = in.rpc.Describe(ctx); err != nil {
		return in, in.explain(ctx, fmt.Errorf("the description of the plugin cannot be read: %w", err), timeout)
	}
	if v := in.desc.MinHostVersion; v != "" && semver.Compare("v"+p.super.opts.HostVersion, "v"+v) < 0 {
		return in, fmt.Errorf("version %s of the plugin needs host %s or later, but this is host %s; upgrade toolhost, or use an older release of the plugin",
			in.desc.Version, in.desc.MinHostVersion, p.super.opts.HostVersion)
	}
	if err := p.spec.Host.Granted(in.desc); err != nil {
		return in, err
	}
	in.discovers = slices.Contains(in.desc.Capabilities, tool.CapabilityDiscovery)
	if !in.discovers { // a plugin that discovers its tools has no tool list before Configure
		if err := p.spec.Host.Accept(in.desc); err != nil {
			return in, err
		}
	}
	if err := p.configure(ctx, in); err != nil {
		return in, in.explain(ctx, err, timeout)
	}
	if in.discovers {
		if in.desc, err = in.rpc.Describe(ctx); err != nil {
			return in, in.explain(ctx, fmt.Errorf("the tools of the plugin cannot be listed: %s", tool.AsError(err).Message), timeout)
		}
		if err := p.spec.Host.Accept(in.desc); err != nil {
			return in, err
		}
	}
	// Remove the directory with the socket, because the host is already connected. Even after a crash of the host, no
	// file remains.
	_ = os.RemoveAll(in.proc.socketDir)
	if relay, ok := in.rpc.(tool.Relay); ok && slices.Contains(in.desc.Capabilities, tool.CapabilityRelay) {
		go p.listen(in, relay)
	}
	return in, nil
}

// dispense sets the connection to the plugin. A program of Options.Programs is already connected.
func (in *instance) dispense(proto plugin.ClientProtocol, hostVersion string) (err error) {
	if in.rpc == nil {
		in.rpc, err = toolrpc.Dispense(proto, hostVersion)
	}
	return err
}

// Notice is a notification of a plugin, or the notice that a process of the plugin started.
type Notice struct {
	tool.Notification
	// Owner is the principal whose calls the process runs. Empty means the local user.
	Owner string
	// Started means that the process started, or that another process replaced it. The new process knows no
	// subscriptions. The other fields except Owner are empty.
	Started bool
}

func (p *Plugin) notify(n Notice) {
	n.Owner = p.spec.Place.Owner
	p.spec.Host.Notify(n)
}

// listen handles the notifications of a plugin until its process ends.
func (p *Plugin) listen(in *instance, relay tool.Relay) {
	p.notify(Notice{Started: true})
	defer func() {
		if p.life.Err() != nil && !p.evicted.Load() {
			p.notify(Notice{Started: true}) // the next generation already started its process before this process ended
		}
	}()
	in.listens.Store(true)
	defer in.listens.Store(false)
	err := relay.Listen(p.life, func(n tool.Notification) {
		switch n.Method {
		case tool.NotifyPromptsChanged, tool.NotifyResourcesChanged, tool.NotifyToolsChanged:
			if in.discovers {
				p.rediscover(in)
			}
		default:
			p.notify(Notice{Notification: n})
		}
	})
	if err != nil && !in.dead() && p.life.Err() == nil {
		p.super.opts.Log.Info("the notifications of a plugin cannot be read", "plugin", p.spec.Name, "why", err)
	}
}

// rediscoverPause is the minimum time between two requests for the tools of a plugin that notifies the host of changes.
// These requests are necessary, because a notification can be lost. They are limited, because each takes about as long
// as a short call.
const rediscoverPause = 2 * time.Second

// mayHaveChanged reports whether the host must request the plugin's tools again after a call, because they can have
// changed.
func (in *instance) mayHaveChanged() bool {
	return in.discovers && (!in.listens.Load() || time.Since(time.Unix(0, in.asked.Load())) > rediscoverPause)
}

// rediscover asks the plugin whether its tools changed.
func (p *Plugin) rediscover(in *instance) {
	in.asked.Store(time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(p.life, rediscoverTimeout)
	defer cancel()
	d, err := in.rpc.Describe(ctx)
	if err == nil {
		err = p.spec.Host.Accept(d)
	}
	if err != nil && !in.dead() && ctx.Err() == nil {
		p.super.opts.Log.Warn("the changed tools of a plugin cannot be listed; the previous tools stay in use", "plugin", p.spec.Name, "why", err)
	}
}

// rediscoverTimeout is the time within which a plugin must list its tools again.
const rediscoverTimeout = 30 * time.Second

// connect starts the process and performs go-plugin's handshake.
func (p *Plugin) connect(ctx context.Context) (*instance, plugin.ClientProtocol, error) {
	in := &instance{
		proc: newProcess(&p.spec, p.super.opts.Log, p.super.opts.Site), calls: newLeases(), began: time.Now(),
	}
	defer in.proc.closeStarted() // after connect returns, no goroutine calls Start
	p.launching.Store(in.proc)
	in.proc.guard = func(pid int) error { return p.super.opts.Site.Guard(pid, p.spec.Roots) }
	path, err := p.spec.Host.Executable()
	if err != nil {
		return in, nil, err
	}
	if path != "" {
		in.proc.cmd.Path = path
	}
	in.proc.inherit = p.spec.Host.Inherit()
	place := p.spec.Place
	if place.StateDir != "" { // create the directory before the confinement, which can only permit existing directories
		if err := os.MkdirAll(place.StateDir, 0o700); err != nil {
			return in, nil, fmt.Errorf("cannot create the state directory of the plugin: %w", err)
		}
	}
	in.proc.confine = func() (*Confined, error) {
		return p.spec.Host.Confine(Start{
			Cmd: in.proc.cmd, Roots: p.spec.Roots, StateDir: place.StateDir, Owner: place.Owner,
			SocketDir: in.proc.socketDir,
		})
	}
	if programs := p.super.opts.Programs; programs != nil {
		var err error
		in.rpc, err = in.proc.startIn(ctx, programs, &p.spec)
		return in, nil, err
	}
	dir, err := p.super.RuntimeDir()
	if err != nil {
		return in, nil, fmt.Errorf("no usable directory for the socket: %w", err)
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  toolrpc.Handshake,
		VersionedPlugins: toolrpc.PluginSets(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		GRPCDialOptions:  toolrpc.DialOptions(),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		StartTimeout:     time.Hour, // practically no limit, because ctx limits the start
		Logger:           p.super.hclog,
		SyncStdout:       &logWriter{in.proc.sink},
		SyncStderr:       &logWriter{in.proc.sink},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
			in.proc.prepare(append(Environment(p.spec.Env), cmd.Env...), socketDir)
			return in.proc, nil
		},
	})
	in.client = client
	stop := context.AfterFunc(ctx, func() { _ = in.proc.Kill(ctx) })
	defer stop()
	proto, err := client.Client()
	return in, proto, err
}

// configure sends the configuration to the plugin. It returns an error if the plugin rejects the
// configuration.
func (p *Plugin) configure(ctx context.Context, in *instance) error {
	config, diags := CheckConfig(in.desc, in.desc.Retain(p.spec.Config, p.spec.Place.Ages))
	if !slices.ContainsFunc(diags, isError) {
		more, err := in.rpc.Configure(ctx, tool.Configuration{
			Config: config, Roots: p.spec.Roots, StateDir: p.spec.Place.StateDir, OutputBytes: p.spec.Place.OutputBytes,
			HostVersion: p.super.opts.HostVersion,
		})
		if err != nil {
			return fmt.Errorf("the plugin cannot be configured: %w", err)
		}
		diags = append(diags, more...)
	}
	text := p.spec.Host.Diagnose(diags)
	if slices.ContainsFunc(diags, isError) {
		return fmt.Errorf("the plugin rejects its configuration:\n%s", text)
	}
	if text != "" {
		p.super.opts.Log.Warn(text)
	}
	return nil
}

func isError(d tool.Diagnostic) bool { return d.Severity == tool.SeverityError }

// explain returns an error with the reason for a failed start. The error of go-plugin contains no reason.
func (in *instance) explain(ctx context.Context, err error, timeout time.Duration) error {
	proc := in.proc
	if proc.pid() == 0 {
		return err
	}
	if refused := proc.refused.Load(); refused != nil {
		return *refused
	}
	if ctx.Err() != nil {
		if proc.shaken.Load() {
			return fmt.Errorf("the plugin completed the handshake but did not answer within %s%s", timeout, proc.said())
		}
		return fmt.Errorf("no handshake within %s. Check that %s is a toolhost plugin and calls sdk.Serve first%s", timeout, proc.path, proc.said())
	}
	if g := proc.garbage.Load(); g != nil {
		return fmt.Errorf("the plugin printed %q to standard output instead of the handshake. Print to standard error, and call sdk.Serve first%s", *g, proc.said())
	}
	if v := proc.version.Load(); proc.shaken.Load() && !toolrpc.Speaks(v) {
		return fmt.Errorf("the plugin uses version %d of the plugin protocol, but this host supports version %d, and %d for old plugins; %s",
			v, toolrpc.ProtocolVersion, toolrpc.LegacyVersion, versionAdvice(v))
	}
	if proc.hasExited(500 * time.Millisecond) {
		when := "before its handshake"
		if proc.shaken.Load() {
			when = "right after its handshake"
		}
		return fmt.Errorf("the plugin exited %s: %s", when, proc.exitText())
	}
	return err
}

func versionAdvice(v int64) string {
	if v > toolrpc.ProtocolVersion {
		return "upgrade toolhost, or use an older release of the plugin"
	}
	return "rebuild the plugin against a current SDK"
}

func (p *process) said() string {
	if words := p.lastWords.said(); words != "" {
		return "; its standard error ends with:\n" + words
	}
	return ""
}

// reports records which changes of files below a branch were already reported to a process of that branch.
// The zero value means that nothing was reported. The first report then states that everything can have changed.
type reports struct {
	mu sync.Mutex
	at uint64 // position of the last report; see [Site]
}

// invalidate reports the changes below a branch to a process of the branch. Calls that begin after invalidate see these
// changes.
func (p *Plugin) invalidate(ctx context.Context, in *instance) error {
	if !slices.Contains(in.desc.Capabilities, tool.CapabilityInvalidate) {
		return nil
	}
	i := slices.IndexFunc(p.spec.Roots, func(r tool.Root) bool { return r.Branch != "" })
	if i < 0 {
		return nil
	}
	to, ok := in.rpc.(tool.Invalidator)
	if !ok {
		return nil
	}
	in.told.mu.Lock()
	defer in.told.mu.Unlock()
	changed, now := p.super.opts.Site.Changes(p.spec.Roots[i].Branch, in.told.at)
	if changed.All || len(changed.Paths) > 0 {
		if err := to.Invalidate(ctx, changed); err != nil {
			e := tool.AsError(err)
			return tool.Errorf(e.Kind, "The plugin %s cannot be told what changed in the workspace: %s", p.spec.Name, e.Message).From(e.Source)
		}
	}
	in.told.at = now
	return nil
}
