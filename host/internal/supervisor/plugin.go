package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
)

// Plugin runs one binary with one set of launch settings. It publishes at most one instance at a time.
type Plugin struct {
	super *Supervisor
	spec  Spec
	// The context "life" is canceled when the plugin is closed. The cancellation also ends a start in progress.
	life context.Context //nolint:containedctx // see there
	end  context.CancelFunc

	recovery *recovery

	users   leases // leases of running calls
	current atomic.Pointer[instance]
	// The process that is starting, or nil. It is set before the process runs.
	launching atomic.Pointer[process]

	mu       sync.Mutex // protects the fields below; never locked while a process starts
	starting *startup
	closed   bool
	closing  sync.Once
	starts   int
	lastErr  error

	siblings  siblings
	poisons   poisons
	evicted   atomic.Bool // whether this process had to end to make room for other sessions; see siblings.trim
	isolation isolation
}

func newPlugin(s *Supervisor, spec Spec) *Plugin {
	life, end := context.WithCancel(context.Background())
	return &Plugin{super: s, spec: spec, life: life, end: end, users: newLeases(),
		recovery: newRecovery(spec.Restart, spec.Host.Observe), isolation: isolation{turn: make(chan struct{}, 1)}}
}

// startup is a start in progress. Several callers can wait for the same start.
type startup struct {
	done chan struct{}
	in   *instance
	err  error
}

// Status describes a plugin for the operator.
type Status struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Running bool   `json:"running"`
	PID     int    `json:"pid,omitempty"`
	Version string `json:"version,omitempty"`
	// Calls is the number of running calls.
	Calls int64 `json:"calls"`
	// Starts is the number of started processes.
	Starts int `json:"starts"`
	// Error is the reason why the last start failed. It is empty if the start succeeded.
	Error string `json:"error,omitempty"`
	// Crashes is the number of unexpected exits of the plugin's process.
	Crashes int `json:"crashes"`
	// Failures is the number of consecutive failures; see [Restart].
	Failures int `json:"failures"`
	// Breaker is "closed" in normal operation. It is "open" while the plugin is suspended until NextAttempt. It is
	// "half-open" during a single trial start.
	Breaker     string     `json:"breaker"`
	NextAttempt *time.Time `json:"next_attempt,omitempty"`
	// LastFailure is the reason for the last unexpected exit or failed start. It is empty if the plugin never failed.
	LastFailure   string     `json:"last_failure,omitempty"`
	LastFailureAt *time.Time `json:"last_failure_at,omitempty"`
}

// The values of [Status.Breaker].
const (
	BreakerClosed   = "closed"
	BreakerHalfOpen = "half-open"
	BreakerOpen     = "open"
)

// Status returns the plugin's state without starting the plugin.
func (p *Plugin) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := Status{Name: p.spec.Name, Path: p.spec.Path, Starts: p.starts}
	if in := p.current.Load(); in != nil && !in.dead() {
		st.Running, st.PID, st.Version, st.Calls = true, in.proc.pid(), in.desc.Version, in.calls.n.Load()
	}
	p.recovery.status(&st)
	if p.lastErr != nil {
		st.Error = p.lastErr.Error()
	}
	for _, other := range p.siblings.all() {
		o := other.Status()
		st.Starts += o.Starts
		st.Calls += o.Calls
		st.Crashes += o.Crashes
		if st.Breaker == BreakerClosed && o.Breaker != BreakerClosed {
			st.Breaker, st.NextAttempt, st.LastFailure, st.LastFailureAt = o.Breaker, o.NextAttempt, o.LastFailure,
				o.LastFailureAt
		}
		if o.Running && !st.Running {
			st.Running, st.PID, st.Version = true, o.PID, o.Version
		}
	}
	return st
}

// Health returns the health that a running plugin reports. If name is not empty, it returns the health of the tool with
// this name, as the process for the host's own roots reports it. Otherwise it asks each process of the plugin, and
// returns the answer of the first process that is not healthy. The result "ok" is false if no process runs.
func (p *Plugin) Health(ctx context.Context, name string) (h tool.Health, ok bool) {
	h, ok = p.health(ctx, name)
	if name != "" {
		return h, ok
	}
	for _, other := range p.siblings.all() {
		if ok && h.Status != tool.Healthy {
			break
		}
		o, running := other.health(ctx, "")
		switch {
		case running && o.Status != tool.Healthy:
			o.Message = fmt.Sprintf("process %d: %s", other.Status().PID, o.Message)
			h, ok = o, true
		case running && !ok:
			h, ok = o, true
		}
	}
	return h, ok
}

// health asks one process.
func (p *Plugin) health(ctx context.Context, name string) (h tool.Health, ok bool) {
	in := p.current.Load()
	if in == nil || !in.calls.take() {
		return h, false
	}
	defer in.calls.release()
	if in.dead() {
		return h, false
	}
	h, err := in.rpc.Health(ctx, name)
	if err != nil {
		h = tool.Health{Status: tool.HealthError, Message: err.Error()}
	}
	return h, true
}

// Describe returns the plugin's description. It starts the plugin if necessary.
func (p *Plugin) Describe(ctx context.Context) (*tool.Description, error) {
	in, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer in.calls.release()
	return in.desc, nil
}

// acquire leases the published instance. If no instance is running, it starts an instance.
func (p *Plugin) acquire(ctx context.Context) (*instance, error) {
	for {
		if in := p.current.Load(); in != nil && in.calls.take() {
			if !in.dead() {
				return in, nil
			}
			in.calls.release()
			p.forget(in)
		}
		if err := p.waitForStart(ctx); err != nil {
			return nil, err
		}
	}
}

// waitForStart starts the plugin, or waits if a start is already in progress. The start continues if ctx ends, because
// other callers can wait for the same start.
func (p *Plugin) waitForStart(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return tool.Errorf(tool.Unavailable, "Plugin %s is not started: %w", p.spec.Name, errClosed).
			From(tool.SourceHost)
	}
	if in := p.current.Load(); in != nil && !in.dead() {
		p.mu.Unlock()
		return nil
	}
	s := p.starting
	if s == nil {
		if err := p.recovery.permit(p.spec.Name); err != nil {
			p.mu.Unlock()
			return err
		}
		s = &startup{done: make(chan struct{})}
		p.starting = s
		p.starts++
		go p.start(s)
	}
	p.mu.Unlock()
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		e := tool.AsError(ctx.Err())
		return tool.Errorf(e.Kind, "%s Plugin %s was still starting.", e.Message, p.spec.Name).From(tool.SourceHost)
	}
}

func (p *Plugin) start(s *startup) {
	select {
	case <-time.After(p.recovery.backoff()):
	case <-p.life.Done():
	}
	began := time.Now()
	in, err := p.prepareAndLaunch()
	for tries := 1; err != nil && tries < maxKilledStarts && p.life.Err() == nil && killedFromOutside(in); tries++ {
		in.stop(0)
		in, err = p.launch()
	}
	p.mu.Lock()
	p.starting = nil
	if p.closed {
		err = errClosed
	}
	p.lastErr = err
	if err == nil {
		p.current.Store(in)
		p.super.opts.Log.Info("plugin started", "plugin", p.spec.Name, "pid", in.proc.pid(), "version", in.desc.Version,
			"took", time.Since(began))
		go p.watch(in)
	}
	p.launching.Store(nil)
	p.mu.Unlock()
	if err != nil {
		if in != nil {
			in.stop(0)
		}
		s.err = tool.Errorf(tool.Unavailable, "Plugin %s did not start: %w", p.spec.Name, err).From(tool.SourcePlugin)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			s.err = tool.Errorf(tool.Unavailable, "Plugin %s did not start, because the host has too many files open: %w. Close sessions, or start the host with a higher limit (ulimit -n).", p.spec.Name, err).From(tool.SourceHost)
		}
		if !errors.Is(err, errClosed) {
			p.recovery.failed(s.err.Error())
		}
	} else {
		p.recovery.observe(Started, in.desc.Version)
	}
	s.in = in
	close(s.done)
}

func (p *Plugin) prepareAndLaunch() (*instance, error) {
	if err := p.spec.Host.Prepare(p.life); err != nil {
		return nil, err
	}
	return p.launch()
}

// forget removes a dead instance. The next call then starts a new instance.
func (p *Plugin) forget(in *instance) {
	if p.current.CompareAndSwap(in, nil) {
		why := in.exitText()
		p.super.opts.Log.Info("plugin ended", "plugin", p.spec.Name, "pid", in.proc.pid(), "why", why)
		p.recovery.ended(in.proven.Load() || time.Since(in.began) > provenAfter, why)
		in.stop(0)
	}
}

// Users returns the number of leases that running calls hold.
func (p *Plugin) Users() int64 { return p.users.n.Load() }

// Retire stops the plugin after its last call and prevents new calls. It returns immediately.
func (p *Plugin) Retire() {
	idle := p.users.end()
	go func() {
		select {
		case <-idle:
			p.close(0)
		case <-p.life.Done(): // the supervisor was closed
		}
		p.super.mu.Lock()
		delete(p.super.plugins, p)
		p.super.mu.Unlock()
	}()
}

// Discard stops a plugin that was never published.
func (p *Plugin) Discard() {
	p.close(0)
	p.super.mu.Lock()
	delete(p.super.plugins, p)
	p.super.mu.Unlock()
}

// close stops the plugin. Running calls of all of its processes can continue for the duration grace. It returns
// when all processes have ended. Several goroutines can call it.
func (p *Plugin) close(grace time.Duration) {
	p.closing.Do(func() {
		p.end()
		p.mu.Lock()
		p.closed = true
		s := p.starting
		p.mu.Unlock()
		if s != nil {
			<-s.done
		}
		p.isolation.refuse() // otherwise, a call that the end of a process interrupts would begin again
		var stopped sync.WaitGroup
		stopped.Go(func() { p.siblings.close(grace) })
		stopped.Go(func() { p.isolation.close(grace) })
		if in := p.current.Swap(nil); in != nil {
			in.stop(grace)
			p.super.opts.Log.Info("plugin stopped", "plugin", p.spec.Name, "pid", in.proc.pid())
		}
		stopped.Wait()
	})
}

// Environment returns the environment of a plugin, including the variables in extra. It copies only those variables of
// the host that most programs need.
func Environment(extra map[string]string) []string {
	var env []string
	for _, k := range []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
		"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	for k, v := range extra {
		env = append(env, k+"="+v)
	}
	return env
}

// CheckConfig validates a plugin's configuration against the schema in the plugin's description. It returns the
// configuration with all defaults filled in. A deprecated attribute causes a warning.
func CheckConfig(desc *tool.Description, config json.RawMessage) (filled json.RawMessage, diags []tool.Diagnostic) {
	fail := func(summary string, path ...string) []tool.Diagnostic {
		return []tool.Diagnostic{{Severity: tool.SeverityError, Summary: summary, Path: path}}
	}
	var values map[string]json.RawMessage
	if len(config) > 0 {
		if err := json.Unmarshal(config, &values); err != nil {
			return nil, fail("The configuration is not a JSON object: " + err.Error())
		}
	}
	if len(desc.ConfigSchema) == 0 {
		if len(values) > 0 {
			return nil, fail("The plugin has no configuration. Remove the config block.")
		}
		return config, nil
	}
	schema, err := tool.ParseSchema(desc.ConfigSchema)
	if err != nil {
		return nil, fail("The schema of the configuration is invalid: " + err.Error())
	}
	complete, bad := schema.Check(values)
	for _, v := range bad {
		var path []string
		if v.Param != "" {
			path = []string{v.Param}
		}
		diags = append(diags, fail(strings.ReplaceAll(v.Message, "parameter", "attribute"), path...)...)
	}
	if len(bad) > 0 {
		return nil, diags
	}
	if filled, err = json.Marshal(complete); err != nil {
		return nil, fail("The configuration cannot be represented in JSON: " + err.Error())
	}
	for _, p := range schema.Params() {
		if _, given := values[p.Name]; given && p.Deprecated {
			diags = append(diags, tool.Diagnostic{
				Severity: tool.SeverityWarning, Summary: "The attribute " + p.Name + " is deprecated.",
				Detail: p.Description, Path: []string{p.Name},
			})
		}
	}
	return filled, diags
}
