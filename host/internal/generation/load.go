package generation

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/trust"
)

// ErrUnstarted is the error of plugins that are not loaded because of [Options.Unstarted].
var ErrUnstarted = errors.New("the plugin is not started yet")

// Load builds the first generation of a configuration. It uses saved descriptions of plugins. It starts all other
// plugins concurrently to get their descriptions. If Load returns an error, the error lists invalid permission rules.
// The generation is nevertheless valid. But the caller must then prevent all calls, because the invalid rules do not
// apply.
func (b *Builder) Load(ctx context.Context, cfg *config.Config, launcher *confinement.Launcher) (*Generation, error) {
	plugins := make([]*Plugin, len(cfg.Plugins))
	peers := func(name string) *Plugin {
		return plugins[slices.IndexFunc(plugins, func(p *Plugin) bool { return p.Name == name })]
	}
	env := b.Environment(cfg, launcher, peers)
	for i, c := range cfg.Plugins {
		plugins[i] = b.NewPlugin(c, env, nil)
	}
	var wg sync.WaitGroup
	for _, p := range b.recall(cfg, launcher, plugins) {
		if p.Err = ErrUnstarted; !b.Options.Unstarted {
			wg.Go(func() { p.Err = b.Describe(ctx, p) })
		}
	}
	wg.Wait()
	pins := b.Pins(cfg).Once()
	for _, p := range plugins {
		if p.Err != nil {
			continue
		}
		err := pins.CheckTools(p.Name, p.Path, p.Description())
		if err == nil {
			err = privilege.MissingGrants(&p.Plugin, p.Description().Needs)
		}
		if err != nil {
			p.Err = tool.Errorf(tool.Security, "Plugin %s is not loaded: %w", p.Name, err)
		}
	}
	g, _, err := b.Assemble(cfg, launcher, plugins)
	return g, err
}

// recall uses the saved data about plugins instead of starting them. It returns the plugins whose saved data is
// not sufficient.
func (b *Builder) recall(cfg *config.Config, launcher *confinement.Launcher, plugins []*Plugin) (unknown []*Plugin) {
	var keyed []*Plugin
	var keys [][32]byte
	pins := b.Pins(cfg).Once()
	for _, p := range plugins {
		if p.Missing != "" {
			p.Err = errors.New(p.Missing)
			continue
		}
		b.Identify(cfg, launcher, p)
		err := checkBinary(pins, launcher, p)
		if err == nil {
			err = launcher.CheckPlugin(&p.Plugin, roots.Configured(cfg, b.Options.Workspace))
		}
		switch {
		case err != nil:
			p.Err = tool.Errorf(tool.Security, "Plugin %s is not loaded: %w", p.Name, err)
		case p.Binary.Keyed:
			keyed, keys = append(keyed, p), append(keys, p.Binary.Key)
		default:
			unknown = append(unknown, p)
		}
	}
	kept, err := b.State.Descriptions(keys...)
	if err != nil {
		b.Log.Warn("the descriptions of plugins cannot be read", "error", err)
	}
	for _, p := range keyed {
		if k := kept[p.Binary.Key]; k != nil {
			p.remember(k)
			continue
		}
		if !b.Options.RetryFailed {
			server, _ := p.Server()
			p.Err = b.recentFailure(p.startKey(), b.Logins.Obtained(server))
		}
		if p.Err == nil {
			unknown = append(unknown, p)
		}
	}
	return unknown
}

// CheckBinary returns an error if the binary of a plugin must not run. It returns nil for a missing file, because the
// start of the plugin reports the missing file. It does not check a held version, which was checked when its copy was
// made.
func (b *Builder) CheckBinary(cfg *config.Config, launcher *confinement.Launcher, p *Plugin) error {
	return checkBinary(b.Pins(cfg), launcher, p)
}

func checkBinary(pins *trust.Pins, launcher *confinement.Launcher, p *Plugin) error {
	if p.Refused != "" {
		return errors.New(p.Refused)
	}
	if p.Held() != nil {
		return nil
	}
	err := pins.CheckBinary(p.Name, p.Path)
	if err == nil && p.Binary.File != "" {
		err = launcher.Verify(&p.Plugin, p.Path)
	}
	return err
}

// These constants limit repeated slow starts. If the start of a plugin takes longer than slowFailure and fails, the
// host does not start the plugin again for failureMemory. RetryFailed disables the limit.
const (
	slowFailure   = time.Second
	failureMemory = time.Minute
)

// recentFailure returns the error of a slow start that failed within the last failureMemory. It returns nil if no such
// failure exists, or if somebody has logged in at the plugin's server since the failure.
func (b *Builder) recentFailure(key [32]byte, login time.Time) error {
	why, at, err := b.State.Failure(key)
	age := time.Since(at)
	if err != nil || why == "" || age >= failureMemory || login.After(at) {
		return nil //nolint:nilerr // the plugin is started again
	}
	return tool.Errorf(tool.Unavailable, "%s (The start failed %s ago. The host tries again after %s, when the binary or its settings change, or when you run toolhost status.)",
		why, age.Round(time.Second), failureMemory)
}

// RecallDescription replaces a plugin's description with the saved description of its binary. It returns false if the
// database contains no description.
func (b *Builder) RecallDescription(p *Plugin) bool {
	if !p.Binary.Keyed {
		return false
	}
	k, err := b.State.Description(p.Binary.Key)
	if err != nil || k == nil {
		return false
	}
	p.remember(k)
	return true
}

// starting limits how many local MCP servers start at the same time. Each of them is often an interpreter that reads
// many files. If dozens started at once, none would be ready in time.
var starting = make(chan struct{}, max(8, 4*runtime.NumCPU()))

// begin waits until a plugin can start. The caller must call the function "ended" after the start.
func begin(ctx context.Context, p *Plugin) (ended func(), err error) {
	if server, _ := p.Server(); !p.Mounted || server != "" {
		return func() {}, nil
	}
	select {
	case starting <- struct{}{}:
		return func() { <-starting }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Describe starts a plugin to get its description. It saves the description. If a slow start fails, it saves the error.
func (b *Builder) Describe(ctx context.Context, p *Plugin) error {
	ended, err := begin(ctx, p)
	if err != nil {
		return err
	}
	defer ended()
	began := time.Now()
	desc, err := p.Process.Describe(ctx)
	var kept error
	switch {
	case !p.Binary.Keyed:
	case err == nil:
		kept = b.keep(p, desc)
	case p.denied.Load(): // checkGrants already saved the description
	case ctx.Err() == nil && time.Since(began) > slowFailure:
		kept = b.State.SaveFailure(p.startKey(), err.Error())
	}
	b.logUnkept(p, kept)
	if err == nil {
		p.SetDescription(desc)
	}
	return err
}

// keep saves a description for later runs.
func (b *Builder) keep(p *Plugin, desc *tool.Description) error {
	by := build.Version
	if slices.ContainsFunc(desc.Tools, func(d tool.Definition) bool { return d.Validate() != nil }) {
		by = ""
	}
	return errors.Join(b.State.SaveDescription(p.Binary.Key, desc, by), b.keepSchema(p, desc))
}

// schemaKey returns the key under which the schema of a binary's configuration is saved. Unlike [Binary.Key], this key
// does not depend on the configuration. Therefore a changed configuration can be checked without starting the plugin.
func schemaKey(sum [32]byte) [32]byte {
	return sha256.Sum256(append([]byte("config schema "), sum[:]...))
}

// keepSchema saves the schema of a plugin's configuration.
func (b *Builder) keepSchema(p *Plugin, desc *tool.Description) error {
	if p.Binary.Sum == nil {
		return nil
	}
	key := schemaKey(*p.Binary.Sum)
	if known, err := b.State.Description(key); err == nil && known != nil &&
		string(known.Description.ConfigSchema) == string(desc.ConfigSchema) {
		return nil
	}
	return b.State.SaveDescription(key,
		&tool.Description{Name: desc.Name, Version: desc.Version, ConfigSchema: desc.ConfigSchema}, "")
}

// CheckConfig checks the configuration of a plugin against the schema that its binary reported at an earlier start. It
// starts nothing, and returns nil if the schema is unknown.
func (b *Builder) CheckConfig(cfg *config.Config, p *Plugin) error {
	if p.Binary.Sum == nil {
		return nil
	}
	known, err := b.State.Description(schemaKey(*p.Binary.Sum))
	if err != nil || known == nil {
		return err
	}
	_, diags := supervisor.CheckConfig(known.Description, p.Config)
	diags = slices.DeleteFunc(diags, func(d tool.Diagnostic) bool { return d.Severity == tool.SeverityWarning })
	if len(diags) == 0 {
		return nil
	}
	return cfg.Rejected(p.Name, diags)
}

func (b *Builder) logUnkept(p *Plugin, err error) {
	if err != nil {
		b.Log.Warn("the description of a plugin cannot be saved", "plugin", p.Name, "error", err)
	}
}

// rediscover logs changes of the tools that a plugin discovers at run time, and saves the new description.
// It must be called after each such change.
func (b *Builder) rediscover(p *Plugin, known, now *tool.Description) {
	changes := registry.Compare(known.Defined(), now.Defined())
	if len(changes) == 0 {
		return
	}
	b.Log.Warn("the tools of a plugin changed; new calls use the new ones", "plugin", p.Name, "changes", changes)
	if p.Binary.Keyed {
		b.logUnkept(p, b.keep(p, now))
	}
	b.owner.Rediscovered(p, now)
}
