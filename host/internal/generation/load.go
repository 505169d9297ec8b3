package generation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/grants"
	"toolhost.dev/host/internal/registry"
)

// Load builds the first generation of a configuration. What a plugin serves is known from what its binary said before;
// other plugins are started, side by side. The error is about the operator's rules, without which no call may run. The
// generation is valid all the same.
func (b *Builder) Load(ctx context.Context, cfg *config.Config, launcher *confinement.Launcher) (*Generation, error) {
	plugins := make([]*Plugin, len(cfg.Plugins))
	peers := func(name string) *Plugin {
		return plugins[slices.IndexFunc(plugins, func(p *Plugin) bool { return p.Name == name })]
	}
	for i, c := range cfg.Plugins {
		plugins[i] = b.NewPlugin(c, cfg, launcher, peers, nil)
	}
	var wg sync.WaitGroup
	for _, p := range plugins {
		if b.recall(p) {
			wg.Go(func() { p.Err = b.Describe(ctx, p) })
		}
	}
	wg.Wait()
	for _, p := range plugins {
		if p.Err != nil {
			continue
		}
		err := b.pins.CheckTools(p.Name, p.Description())
		if err == nil {
			err = grants.Missing(&p.Plugin, p.Description().Needs)
		}
		if err != nil {
			p.Err = tool.Errorf(tool.Security, "Plugin %s is not loaded: %w", p.Name, err)
		}
	}
	g, _, err := b.Assemble(cfg, launcher, plugins)
	return g, err
}

// recall sets what is known about a plugin without starting it. It reports whether the plugin must be started.
func (b *Builder) recall(p *Plugin) bool {
	if p.Missing != "" {
		p.Err = errors.New(p.Missing)
		return false
	}
	if err := b.pins.CheckBinary(p.Name, p.Path); err != nil {
		p.Err = tool.Errorf(tool.Security, "Plugin %s is not loaded: %w", p.Name, err)
		return false
	}
	p.Binary = BinaryOf(b.State, &p.Plugin)
	if !p.Binary.Keyed {
		return true
	}
	desc, by, err := b.State.Description(p.Binary.Key)
	if err != nil {
		b.Log.Warn("the descriptions of plugins cannot be read", "error", err)
	}
	p.SetDescription(desc)
	if desc != nil || b.Options.RetryFailed {
		p.Checked = by == build.Version
		return desc == nil
	}
	p.Err = b.recentFailure(p.Binary.Key)
	return p.Err == nil
}

// A plugin that took longer than slowFailure to fail is not started again for failureMemory, unless RetryFailed is set.
const (
	slowFailure   = time.Second
	failureMemory = time.Minute
)

// recentFailure returns why a plugin failed slowly within failureMemory. It returns nil if it did not.
func (b *Builder) recentFailure(key [32]byte) error {
	why, at, err := b.State.Failure(key)
	age := time.Since(at)
	if err != nil || why == "" || age >= failureMemory {
		return nil //nolint:nilerr // the plugin is started again
	}
	return tool.Errorf(tool.Unavailable, "%s (That was %s ago. The plugin is started again after %s, when its binary changes, or by toolhost status.)",
		why, age.Round(time.Second), failureMemory)
}

// RecallDescription sets a plugin's description to what its binary said before. It reports whether that is known.
func (b *Builder) RecallDescription(p *Plugin) bool {
	if !p.Binary.Keyed {
		return false
	}
	desc, by, err := b.State.Description(p.Binary.Key)
	if err != nil || desc == nil {
		return false
	}
	p.Checked = by == build.Version
	p.SetDescription(desc)
	return true
}

// Describe starts a plugin to ask what it serves, and keeps the answer or a slow failure.
func (b *Builder) Describe(ctx context.Context, p *Plugin) error {
	began := time.Now()
	desc, err := p.Process.Describe(ctx)
	var kept error
	switch {
	case !p.Binary.Keyed:
	case err == nil:
		kept = b.keep(p, desc)
	case p.denied.Load(): // checkGrants kept the description
	case ctx.Err() == nil && time.Since(began) > slowFailure:
		kept = b.State.SaveFailure(p.Binary.Key, err.Error())
	}
	b.logUnkept(p, kept)
	if err == nil {
		p.SetDescription(desc)
	}
	return err
}

// keep stores a description for later runs.
func (b *Builder) keep(p *Plugin, desc *tool.Description) error {
	by := build.Version
	if slices.ContainsFunc(desc.Tools, func(d tool.Definition) bool { return d.Validate() != nil }) {
		by = ""
	}
	return b.State.SaveDescription(p.Binary.Key, desc, by)
}

func (b *Builder) logUnkept(p *Plugin, err error) {
	if err != nil {
		b.Log.Warn("the description of a plugin could not be stored", "plugin", p.Name, "error", err)
	}
}

// rediscover notes that a plugin which discovers its tools at run time now serves others than it was registered with.
func (b *Builder) rediscover(p *Plugin, known, now *tool.Description) {
	changes := registry.Compare(known.Tools, now.Tools)
	if len(changes) == 0 {
		return
	}
	b.Log.Warn("the tools of a plugin changed; new calls use the new ones", "plugin", p.Name, "changes", changes)
	if p.Binary.Keyed {
		b.logUnkept(p, b.State.SaveDescription(p.Binary.Key, now, ""))
	}
	b.Rediscovered(p, now)
}
