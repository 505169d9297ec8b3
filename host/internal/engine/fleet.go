package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/quota"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/internal/trust"
)

// SessionChange is a change of a session. See host.SessionChange.
type SessionChange = state.Change

// FleetSettings are the settings of the fleet block.
type FleetSettings = config.Fleet

// FleetWorkspace is a named workspace of the fleet block.
type FleetWorkspace = config.FleetWorkspace

// DefaultFleet returns the settings of an empty fleet block.
func DefaultFleet() *FleetSettings { return config.DefaultFleet() }

// MinFleetLease is the shortest lease in a fleet with several coordinators.
const MinFleetLease = config.MinLease

// fleet holds the functions that the fleet registered in this host, and a cached digest. The functions are
// nil if the host is in no fleet.
type fleet struct {
	guard   atomic.Pointer[func(pid int, roots []tool.Root) error]
	control atomic.Pointer[func(ctx context.Context, operation string, arguments json.RawMessage) (any, error)]
	digest  atomic.Pointer[sharedDigest]
}

// sharedDigest is the digest of a configuration.
type sharedDigest struct {
	of     *config.Config
	digest string
}

// Fleet returns the settings of the fleet block and the digest of the configuration. See host.Host.Fleet.
func (e *Engine) Fleet() (s *FleetSettings, digest string) {
	cfg := e.Current().Config
	known := e.fleet.digest.Load()
	if known == nil || known.of != cfg {
		known = &sharedDigest{cfg, digestOf(cfg)}
		e.fleet.digest.Store(known)
	}
	return cfg.Fleet, known.digest
}

// SessionLife returns the time after which an unused session is deleted. See host.Host.SessionLife.
func (e *Engine) SessionLife() time.Duration {
	return cmp.Or(e.Current().Config.Retention.Sessions, state.MaxIdle)
}

// digestOf returns a digest of a configuration. The digest also covers the plugins from registries, whose versions the
// lock file of the configuration fixes.
func digestOf(cfg *config.Config) string {
	digest := cfg.SharedDigest()
	path, err := trust.PathFor(cfg.Path)
	if cfg.Path == "" || err != nil {
		return digest
	}
	lock, err := trust.Read(path)
	if err != nil {
		return digest // the host refuses plugins from registries if the lock file cannot be read
	}
	for i := range cfg.Plugins {
		if p := &cfg.Plugins[i]; p.Source != "" {
			sum := sha256.Sum256([]byte(digest + p.Name + lock.Plugins[p.Name].Index))
			digest = hex.EncodeToString(sum[:])
		}
	}
	return digest
}

// StateDir returns the state directory, or "" if the host has none.
func (e *Engine) StateDir() string { return e.home.Root }

// SessionState returns the whole state of a request's session.
func (e *Engine) SessionState(req Request) (*SessionChange, error) {
	key, err := e.SessionKey(req)
	if err != nil {
		return nil, err
	}
	s, known, err := e.state.Snapshot(key)
	if err != nil || !known {
		return nil, errors.Join(err, missing(known))
	}
	return &SessionChange{Session: &s.Session, Files: s.Files, Plugins: s.Plugins}, nil
}

func missing(known bool) error {
	if known {
		return nil
	}
	return errors.New("the session does not exist")
}

// ChangeSession makes a change in the state of a request's session.
func (e *Engine) ChangeSession(req Request, c *SessionChange) error {
	key, err := e.SessionKey(req)
	if err != nil {
		return err
	}
	if !c.Whole {
		e.state.ApplyChange(key, *c)
		return e.state.Commit()
	}
	old, _, err := e.state.Snapshot(key)
	if err != nil {
		return err
	}
	whole := *c
	whole.Plugins = maps.Clone(c.Plugins)
	if whole.Plugins == nil {
		whole.Plugins = make(map[string][]byte)
	}
	for plugin := range old.Plugins {
		if _, has := whole.Plugins[plugin]; !has {
			whole.Plugins[plugin] = nil
		}
	}
	for _, f := range old.Files {
		if !slices.ContainsFunc(c.Files, func(n tool.FileState) bool { return n.Path == f.Path }) {
			whole.Removed = append(whole.Removed, f.Path)
		}
	}
	if whole.Session == nil {
		whole.Session = &state.Session{Workspace: old.Workspace, Cwd: old.Workspace}
	}
	e.state.ApplyChange(key, whole)
	return e.state.Commit()
}

// FollowSession collects the changes of a request's session. See host.Host.FollowSession.
func (e *Engine) FollowSession(req Request) (taken func() *SessionChange, stop func(), err error) {
	key, err := e.SessionKey(req)
	if err != nil {
		return nil, nil, err
	}
	e.state.Follow(key)
	return func() *SessionChange {
		c := e.state.Changes(key)
		return &c
	}, func() { e.state.Unfollow(key) }, nil
}

// GuardProcesses registers a function that is called for each process of a plugin. See host.Host.GuardProcesses.
func (e *Engine) GuardProcesses(guard func(pid int, roots []tool.Root) error) {
	e.fleet.guard.Store(&guard)
}

// Guard calls the registered function.
func (s site) Guard(pid int, roots []tool.Root) error {
	if guard := s.fleet.guard.Load(); guard != nil {
		return (*guard)(pid, roots)
	}
	return nil
}

// CallsPerMinute returns how many calls a principal may make in a minute, or 0 for no limit.
func (e *Engine) CallsPerMinute(p *Principal) int {
	return e.Current().Config.Quotas.Of(quota.Principal(p.Name)).CallsPerMinute
}

// EndsAll returns an error if processes of a tool can survive when the host kills the plugin.
func (e *Engine) EndsAll() error { return e.Current().Launcher.EndsAll() }

// EndProcesses kills processes of plugins. See host.Host.EndProcesses.
func (e *Engine) EndProcesses(of func(roots []tool.Root) bool) { e.super.KillProcesses(of) }

// EndSession kills the processes of a request's session. See host.Host.EndSession.
func (e *Engine) EndSession(req Request) error {
	s, err := e.session(e.Current(), req)
	if err != nil || s.Temporary.Source == "" {
		return err
	}
	ended := e.super.KillProcesses(func(roots []tool.Root) bool {
		return slices.ContainsFunc(roots, func(r tool.Root) bool { return r.Source == s.Temporary.Source })
	})
	late := time.After(endPatience)
	for _, c := range ended {
		select {
		case <-c:
		case <-late:
			return fmt.Errorf("processes of the session %s were killed, but have not ended within %s. Look for processes that wait for a storage that does not answer", req.Session, endPatience)
		}
	}
	return nil
}

// endPatience limits the wait for the end of killed processes. Without the wait, the next call of the session could
// reach them.
const endPatience = 2 * time.Second

// StartSpan begins a span for work that precedes a call. See host.Host.StartSpan.
func (e *Engine) StartSpan(context, name string,
	attributes map[string]string) (within string, end func(problem string)) {
	s, at := e.Current().Tracer.Start(telemetry.ParseTrace(context), name)
	s.Asked()
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		s.Set(key, attributes[key])
	}
	return at.String(), func(problem string) {
		if problem != "" {
			s.Fail(problem)
		}
		s.End()
	}
}

// OnFleet registers the function for operations on the fleet. See host.Host.OnFleet.
func (e *Engine) OnFleet(f func(ctx context.Context, operation string, arguments json.RawMessage) (any, error)) {
	e.fleet.control.Store(&f)
}

// ErrNoFleet means that the host is not a node of a fleet.
var ErrNoFleet = errors.New("this host is in no fleet. Start it with toolhost serve --fleet")

// fleetReads lists the operations that change nothing. The audit log omits these operations.
var fleetReads = []string{"status", "sessions", "log", "rollout"}

// OperateFleet carries out an operation on the fleet. See host.Host.OperateFleet.
func (e *Engine) OperateFleet(ctx context.Context, by, operation string, arguments json.RawMessage) (any, error) {
	f := e.fleet.control.Load()
	if f == nil {
		return nil, ErrNoFleet
	}
	out, err := (*f)(ctx, operation, arguments)
	if !slices.Contains(fleetReads, operation) {
		var a map[string]any
		_ = json.Unmarshal(arguments, &a) // ignore the error: the operation has already failed if the arguments are invalid
		delete(a, "files")
		refused := ""
		if err != nil {
			refused = err.Error()
		}
		e.reloader.Audit(by, "(fleet "+operation+")", a, refused)
	}
	return out, err
}

// controlFleet runs an operation on the fleet for another process.
func (e *Engine) controlFleet(ctx context.Context, args json.RawMessage) (any, error) {
	var a struct {
		Operation string          `json:"operation"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	return e.OperateFleet(ctx, e.local.Name, a.Operation, a.Arguments)
}

// DecodePrincipal returns the principal that principal.Principal.Encode encoded.
func DecodePrincipal(text []byte) (*Principal, error) { return principal.Decode(text) }

// SharedFiles are the files of a configuration that nodes of a fleet share.
type SharedFiles = reload.SharedFiles

// SharedFiles returns the files of the configuration that other nodes can use. See host.Host.SharedFiles.
func (e *Engine) SharedFiles() (*SharedFiles, error) { return e.reloader.Shared() }

// ReadSharedFiles reads the files of a configuration. See host.ReadSharedFiles.
func ReadSharedFiles(path string) (*SharedFiles, error) { return reload.SharedOf(path) }

// ReplaceConfig replaces the configuration. See host.Host.ReplaceConfig.
func (e *Engine) ReplaceConfig(ctx context.Context, files *SharedFiles, by string, approve bool) error {
	return e.reloader.Replace(ctx, files, reload.Options{By: by, ApprovePrivileges: approve})
}
