// Package fleet joins hosts so that they serve one set of sessions. [Start] makes a host a node of a fleet.
//
// A call for a session can arrive at any node, the gateway, and runs at the node that owns the session. Nodes and
// sessions have records in NATS JetStream, which coordinators keep. Calls go from node to node over gRPC.
//
// These rules hold:
//   - A session has one owner at a time. Its epoch counts the owners.
//   - A session of a shared workspace moves when its node ends. Each of its calls that can change something is recorded in a
//     journal before it runs, so that no call runs twice. If a node is lost in the middle of such a call, the result says that
//     the outcome is not known.
//   - At the end of its lease, a node kills all processes that can change shared files. So an old owner never acts beside a
//     new one.
//   - A session of another workspace stays where its files are, and needs no lease.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"toolhost.dev/sdk/flock"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/identity"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/coordinator"
	"toolhost.dev/host/fleet/internal/depot"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/gate"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/host/fleet/internal/journal"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/host/fleet/internal/tunnel"
	"toolhost.dev/host/fleet/local"
	"toolhost.dev/sandbox/deadline"
)

// Options configures a node.
type Options struct {
	// Join is the address of a node of the fleet, and Token is a join token. Only a new node needs them, to join the
	// fleet. A node that has no identity and no Join address begins a new fleet.
	Join, Token string
	// Node and Listen replace the settings of the configuration. An empty field keeps the setting.
	Node, Listen string
	// Outward makes the node one that only opens connections, in addition to the setting of the configuration.
	Outward bool
	// Began is called when the node has begun a new fleet. Its arguments are the command and the token with which
	// another machine joins. At this time, the coordinators can still be waiting for other nodes. Began can be nil.
	Began func(command, token string)
	// Programs is the directory with toolhost-coordinator and toolhost-sandbox. Empty means the directory of the
	// executable.
	Programs string
	// Log receives messages for the operator. Nil discards them.
	Log *slog.Logger
}

// Fleet is a node of a fleet. It is safe for concurrent use.
type Fleet struct {
	host        *host.Host
	settings    *host.FleetSettings
	opts        Options
	log         *slog.Logger
	dir         string // the directory of the node in the state directory
	id          *identity.Identity
	gate        *gate.Gate
	bus         *bus.Bus
	depot       *depot.Depot
	lease       *lease.Keeper
	sessions    *directory.Directory
	guard       atomic.Pointer[deadline.Guard] // nil without shared workspaces
	lock        *os.File
	server      *grpc.Server
	holds       *hop.Holds           // calls of gateways that come back
	tunnels     *tunnel.Offers       // connections that nodes offer to this one
	outward     *tunnel.Listener     // nil if other nodes can connect to this one
	coordinator *coordinator.Process // nil with an external NATS cluster
	council     sync.Mutex           // held while the node follows a change of the coordinators
	address     string
	isNew       bool // whether the node began the fleet
	began       time.Time
	end         context.CancelFunc
	tasks       sync.WaitGroup
	metrics     metrics
	quotas      quotas
	revoking    sync.Mutex // held while the list of revoked certificates is made

	endLocal func()          // ends the calls of other processes on this machine
	ready    chan struct{}   // closed when the node serves
	calling  context.Context // forwarded calls end with it
	endCalls context.CancelCauseFunc

	mu     sync.Mutex
	owned  map[string]*owned
	lines  map[string]*line
	peers  map[string]*grpc.ClientConn
	calls  int // running calls of owned sessions
	closed bool
}

// Start makes a host a node. It waits until the coordinators answer, or ctx ends. The caller must call [Fleet.Close]
// before it closes the host.
func Start(ctx context.Context, h *host.Host, opts Options) (*Fleet, error) {
	settings := settingsOf(h, opts)
	journal.Unguarded, directory.Unguarded = without("journal"), without("directory")
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Programs == "" {
		opts.Programs = programs()
	}
	if h.StateDir() == "" {
		return nil, errors.New("a node of a fleet needs a state directory, and this host has none. See the problems above, or name one: --state DIR")
	}
	f := &Fleet{
		host: h, settings: settings, began: time.Now(), opts: opts, log: opts.Log,
		dir:     filepath.Join(h.StateDir(), "fleet"),
		tunnels: tunnel.NewOffers(), holds: hop.NewHolds(), ready: make(chan struct{}), owned: make(map[string]*owned),
		lines: make(map[string]*line), peers: make(map[string]*grpc.ClientConn),
	}
	f.calling, f.endCalls = context.WithCancelCause(context.Background())
	if err := f.start(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// start runs the steps of [Start] in order.
func (f *Fleet) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{f.lockDir, f.identify, f.listen, f.admitNodes, f.connect,
		f.startGuard, f.join} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settingsOf returns the settings of the node. If the configuration has no fleet block, the only workspace is the
// host's own, and other nodes do not have it.
func settingsOf(h *host.Host, opts Options) *host.FleetSettings {
	configured, _ := h.Fleet()
	if configured == nil {
		configured = host.DefaultFleet()
	}
	out := *configured
	if len(out.Workspaces) == 0 {
		out.Workspaces = []host.FleetWorkspace{{Name: defaultWorkspace, Path: h.Status().Workspace}}
	}
	out.Node, out.Listen = cmp.Or(opts.Node, out.Node), cmp.Or(opts.Listen, out.Listen)
	out.Outward = out.Outward || opts.Outward
	return &out
}

// defaultWorkspace is the name of the workspace if the configuration of the fleet names no workspace.
const defaultWorkspace = "default"

func programs() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	if target, err := filepath.EvalSymlinks(exe); err == nil {
		exe = target
	}
	return filepath.Dir(exe)
}

// lockDir takes the lock of the node's directory. The watcher of the lease also holds this lock. So once the lock is
// free, an earlier run of the node has ended completely.
func (f *Fleet) lockDir(ctx context.Context) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(f.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.lock = lock
	for end := time.Now().Add(lockPatience); ; {
		if flock.Try(lock) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("another toolhost serve --fleet uses the state directory %s. Stop that process, or use another state directory: --state DIR", f.host.StateDir())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// position identifies where the node runs. A copy of the state directory has another position. The directory also has
// another position after it was moved to another machine.
func (f *Fleet) position() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil { // not Linux
		machine, _ := os.Hostname()
		boot = []byte(machine)
	}
	var device, inode any
	if st, err := f.lock.Stat(); err == nil {
		if x, ok := st.Sys().(*syscall.Stat_t); ok {
			device, inode = x.Dev, x.Ino
		}
	}
	return fmt.Sprintf("%s %v %v", strings.TrimSpace(string(boot)), device, inode)
}

// lockPatience is how long lockDir waits for the processes of an earlier run to end.
const lockPatience = 5 * time.Second

// defaultPort is the default port of nodes, and coordinatorPort is the default port of coordinators.
const (
	defaultPort     = "7443"
	coordinatorPort = "4222"
)

// listen opens the address for other nodes.
func (f *Fleet) listen(ctx context.Context) error {
	if f.settings.Outward {
		if f.isNew {
			return errors.New("the first node of a fleet cannot be outward, because the others connect to it. Begin the fleet on a machine that they reach")
		}
		f.outward = tunnel.Listen()
		f.serve(f.outward)
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(f.settings.Listen, ":"+defaultPort))
	if err != nil {
		return fmt.Errorf("the address for other nodes cannot be opened: %w. Set another one: fleet { listen = \"HOST:PORT\" }", err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	f.address = f.settings.Advertise
	if f.address == "" {
		name, _, _ := net.SplitHostPort(f.settings.Listen)
		if ip := net.ParseIP(name); name == "" || ip != nil && ip.IsUnspecified() {
			if name, err = os.Hostname(); err != nil {
				name = "localhost"
			}
		}
		f.address = net.JoinHostPort(name, port)
	}
	f.serve(l)
	return nil
}

// connect starts the coordinator if it belongs on this node, and connects to the coordinators.
func (f *Fleet) connect(ctx context.Context) error {
	opts := bus.Options{Name: f.node(), Log: f.log, Replicas: f.settings.Replicas}
	if len(f.settings.NATS) > 0 {
		opts.Servers, opts.Credentials = f.settings.NATS, f.settings.Credentials
		opts.CA, opts.Certificate, opts.Key = f.settings.CA, f.settings.Certificate, f.settings.Key
	} else {
		coordinators, err := f.coordinators()
		if err != nil {
			return err
		}
		if err := f.startCoordinator(coordinators); err != nil {
			return err
		}
		for _, a := range coordinators {
			opts.Servers = append(opts.Servers, "tls://"+a)
		}
		opts.TLS, opts.Replicas = f.id.Client(identity.CoordinatorName), len(coordinators)
	}
	f.log.Info("waiting for the coordinators", "servers", opts.Named())
	b, err := bus.Connect(ctx, opts)
	if err != nil {
		return err
	}
	f.depot = &depot.Depot{Objects: b.Objects, Log: f.log}
	f.bus, f.sessions = b, directory.New(b.Sessions, func() time.Time { return f.lease.Now() }, f.log)
	return nil
}

// join takes the lease and begins to serve.
func (f *Fleet) join(ctx context.Context) error {
	own := f.record()
	keeper := lease.New(f.bus.Nodes, own, lease.Settings{
		Lease: f.settings.Lease, Manual: f.settings.Manual, Fence: f.settings.Fence, Clock: deadline.Now, Log: f.log,
		Renewed: func(end time.Duration) {
			if g := f.guard.Load(); g != nil {
				g.Extend(end)
			}
		},
		Lost: f.lost, Whole: f.bus.Whole,
	})
	f.mu.Lock()
	f.lease = keeper // guardLost can read it at this time
	f.mu.Unlock()
	if err := f.lease.Join(ctx); err != nil {
		return err
	}
	run, end := context.WithCancel(context.Background())
	f.end = end
	f.tasks.Go(func() { f.lease.Run(run) })
	f.tasks.Go(func() { f.sessions.Run(run) })
	f.tasks.Go(func() { f.housekeeping(run) })
	if f.outward != nil {
		f.tasks.Go(func() { f.offer(run) })
	}
	if f.coordinator != nil {
		f.tasks.Go(func() { f.coordinator.Keep(run) })
	}
	if err := errors.Join(f.lease.Loaded(ctx), f.sessions.Loaded(ctx)); err != nil {
		return fmt.Errorf("the records of the fleet cannot be read: %w", err)
	}
	for _, step := range []func(context.Context) error{f.shareRevocations, f.checkShared, f.checkConfig} {
		if err := bus.UntilAnswered(ctx, step); err != nil {
			return err
		}
	}
	close(f.ready)
	f.host.Join(f)
	stop, err := local.Serve(f.host, f.dir)
	f.endLocal = stop
	return err
}

// record returns the record of this node.
func (f *Fleet) record() lease.Record {
	_, digest := f.host.Fleet()
	out := lease.Record{
		Node: f.node(), Address: f.address, Outward: f.settings.Outward, Certificate: f.id.Certificate(),
		Place: f.position(), State: lease.StateReady, Version: host.Version, SessionStatements: true, Config: digest,
		Coordinator: f.coordinatorAddress(), CoordinatorAt: f.coordinatorAt(),
		Labels: f.settings.Labels, Workspaces: make(map[string]lease.Workspace), MaxSessions: f.settings.MaxSessions,
		MaxCalls: f.settings.MaxCalls,
	}
	for _, w := range f.settings.Workspaces {
		if w.Here(f.settings.Labels) {
			out.Workspaces[w.Name] = lease.Workspace{Shared: w.Shared, Path: w.Path}
		}
	}
	return out
}

// housekeeping reports the load of this node to the other nodes, and closes idle sessions.
func (f *Fleet) housekeeping(ctx context.Context) {
	checked, pruned := time.Now(), time.Now()
	f.tasks.Go(func() { f.endOldSessions(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if f.host.Ready() != nil {
			f.announceLeaving()
		}
		f.closeIdle()
		f.trimJournals(ctx)
		f.mu.Lock()
		sessions, calls := len(f.owned), f.calls
		f.mu.Unlock()
		f.lease.Count(sessions, calls)
		_, digest := f.host.Fleet()
		own := f.lease.Own()
		if time.Since(pruned) > pruneEvery {
			pruned = time.Now()
			if err := f.pruneCouncil(ctx); err != nil {
				f.log.Debug("the group of the coordinators cannot be checked", "why", err)
			}
		}
		if digest != own.Config || own.State == lease.StateMismatched || time.Since(checked) > configEvery {
			checked = time.Now()
			if err := f.checkConfig(ctx); err != nil {
				f.log.Debug("the configuration of the fleet cannot be compared", "why", err)
			}
			if err := f.shareCouncil(ctx); err != nil {
				f.log.Debug("the coordinators of the fleet cannot be followed", "why", err)
			}
			if err := f.shareRevocations(ctx); err != nil {
				f.log.Debug("the revoked certificates of the fleet cannot be compared", "why", err)
			}
		}
	}
}

// idleLife is the time for which a session stays open after its last call. The next call opens the session again.
const idleLife = time.Hour

// closeIdle closes sessions that have had no calls for the time idleLife. This node still owns these sessions.
func (f *Fleet) closeIdle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, o := range f.owned {
		if o.isReady() && o.idleFor() > idleLife {
			delete(f.owned, key)
			o.drop()
		}
	}
}

// trimJournals removes the records that are not needed any more from the journals of open sessions.
func (f *Fleet) trimJournals(ctx context.Context) {
	f.mu.Lock()
	open := slices.Collect(maps.Values(f.owned))
	f.mu.Unlock()
	for _, o := range open {
		select {
		case <-o.ready:
		default:
			continue
		}
		if o.log == nil {
			continue
		}
		if err := o.log.Trim(ctx); err != nil {
			f.log.Debug("the journal of a session was not trimmed, and is tried again", "session", o.key, "why", err)
			return
		}
	}
}

// configEvery is the interval at which a node compares its configuration with the fleet's.
const configEvery = 5 * time.Second

// pruneEvery is the interval at which a node looks for servers that are no coordinators any more.
const pruneEvery = 20 * time.Second

// closeGrace is how long forwarded calls may still run when the node leaves the fleet. After that, they are canceled
// and have the same time again to return their results. So have those whose gateway lost its connection.
const closeGrace = 2 * time.Second

// Close leaves the fleet. Other nodes can then take the shared sessions of this node at once.
func (f *Fleet) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	var errs []error
	if f.endLocal != nil { // first, because they can run on other nodes
		f.endLocal()
	}
	f.tunnels.Close()
	if f.server != nil {
		late := []*time.Timer{time.AfterFunc(closeGrace, func() { f.endCalls(host.ErrStopped) }),
			time.AfterFunc(2*closeGrace, f.server.Stop)}
		f.server.GracefulStop() // forwarded calls end soon, because the host accepts no new calls
		for _, timer := range late {
			timer.Stop()
		}
	}
	f.endCalls(host.ErrStopped)
	f.holds.Close(closeGrace) // they can have no connection, so that the server did not wait for them
	if f.end != nil {
		f.end()
		f.tasks.Wait()
	}
	if g := f.guard.Load(); g != nil { // kill processes that can change shared files, before the node leaves
		errs = append(errs, g.Close())
	}
	if f.end != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if err := f.lease.Leave(ctx); err != nil {
			f.log.Warn("the other nodes were not told that this node leaves, and wait for the end of its lease", "why", err)
		}
		cancel()
	}
	f.mu.Lock()
	for _, c := range f.peers {
		errs = append(errs, c.Close())
	}
	f.mu.Unlock()
	if f.bus != nil {
		f.bus.Close()
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Close())
	}
	return errors.Join(errs...)
}

// Node returns the name of the node.
func (f *Fleet) Node() string { return f.node() }

// Address returns the address at which other nodes reach this one. It is empty for an outward node.
func (f *Fleet) Address() string { return f.address }
