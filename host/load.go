package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/supervisor"
)

// specs turns the configured plugins into what the supervisor runs.
func (h *Host) specs() []supervisor.Spec {
	roots := h.roots(h.opts.Workspace)
	var specs []supervisor.Spec
	for _, p := range h.cfg.Plugins {
		spec := supervisor.Spec{
			Name: p.Name, Path: p.Path, Args: p.Args, Env: p.Env, StartTimeout: p.StartTimeout, Config: p.Config,
			Roots: roots, StateDir: h.pluginStateDir(p.Name),
		}
		specs = append(specs, spec)
	}
	return specs
}

// load registers the tools of every plugin: from what its binary said before, else
// by starting it. Plugins that must be started are started side by side.
func (h *Host) load(ctx context.Context) {
	descs := make([]*tool.Description, len(h.cfg.Plugins))
	errs := make([]error, len(h.cfg.Plugins))
	checked := make([]bool, len(h.cfg.Plugins))
	var wg sync.WaitGroup
	for i, p := range h.cfg.Plugins {
		if p.Missing != "" {
			errs[i] = fmt.Errorf("%s", p.Missing)
			continue
		}
		if err := h.pins.check(p.Name, p.Path); err != nil {
			errs[i] = tool.Errorf(tool.Security, "Plugin %s is not loaded: %w", p.Name, err)
			continue
		}
		key, ok := h.key(p)
		if !ok {
			wg.Go(func() { descs[i], errs[i] = h.super.Plugin(p.Name).Describe(ctx) })
			continue
		}
		if descs[i], checked[i], errs[i] = h.remembered(key); descs[i] == nil && errs[i] == nil {
			wg.Go(func() { descs[i], errs[i] = h.ask(ctx, p.Name, key) })
		}
	}
	wg.Wait()
	for i, p := range h.cfg.Plugins {
		if errs[i] == nil {
			if err := h.pins.accept(p.Name, descs[i]); err != nil {
				errs[i] = tool.Errorf(tool.Security, "Plugin %s is not loaded: %w", p.Name, err)
			}
		}
		if errs[i] != nil {
			h.failedToLoad(p, errs[i])
			continue
		}
		h.descriptions[p.Name] = descs[i]
		h.startsCommands[p.Name] = slices.Contains(descs[i].Capabilities, tool.CapabilityCommands)
		err := h.registry.Add(p.Name, p.Field, descs[i], checked[i], func(name string) registry.Settings {
			t := h.cfg.Tools[name]
			return registry.Settings{Enabled: t.Enabled, Timeout: t.Timeout}
		})
		if err != nil {
			h.problem("%v", err)
		}
	}
	h.addAliases()
	h.checkToolBlocks()
}

// addAliases registers the further names of tools. Those of a preset are for tools that
// may not be there; the operator hears of their own.
func (h *Host) addAliases() {
	for _, a := range h.cfg.Aliases {
		alias := registry.Alias{Name: a.Name, Tool: a.Tool, Params: a.Params, Optional: a.Preset != ""}
		if ns, name, ok := strings.Cut(a.Tool, ":"); ok {
			alias.Namespace, alias.Tool = ns, name
		}
		if err := h.registry.AddAlias(alias); err != nil && a.Preset == "" && len(h.unloaded) == 0 {
			h.problem("%s", h.cfg.BadAlias(a, err))
		}
	}
}

// key is what a plugin's description is kept under: its binary and the way it is run,
// since what it serves may depend on both.
func (h *Host) key(p config.Plugin) ([32]byte, bool) {
	binary, err := h.state.BinaryHash(p.Path)
	if err != nil {
		return [32]byte{}, false
	}
	how, err := json.Marshal([]any{binary, p.Args, p.Env, p.Config}) // maps marshal sorted
	if err != nil {
		return [32]byte{}, false
	}
	return sha256.Sum256(how), true
}

// A plugin that took longer than slowFailure to fail is not tried again for
// failureMemory, unless Options.RetryFailed says so.
const (
	slowFailure   = time.Second
	failureMemory = time.Minute
)

// remembered gives what is known without starting the plugin, and whether it needs no more
// checks; without a description and an error: nothing.
func (h *Host) remembered(key [32]byte) (desc *tool.Description, checked bool, err error) {
	desc, by, err := h.state.Description(key)
	if err != nil {
		h.log.Warn("what plugins said of themselves cannot be read", "error", err)
	}
	if desc != nil || h.opts.RetryFailed {
		return desc, by == Version, nil
	}
	why, at, err := h.state.Failure(key)
	if age := time.Since(at); err == nil && why != "" && age < failureMemory {
		return nil, false, tool.Errorf(tool.Unavailable, "%s (That was %s ago; it is tried again after %s, when its binary changes, or by toolhost status.)",
			why, age.Round(time.Second), failureMemory)
	}
	return nil, false, nil
}

// ask starts the plugin to hear what it serves, and keeps that.
func (h *Host) ask(ctx context.Context, name string, key [32]byte) (*tool.Description, error) {
	began := time.Now()
	desc, err := h.super.Plugin(name).Describe(ctx)
	var kept error
	switch {
	case err == nil:
		by := Version
		if slices.ContainsFunc(desc.Tools, func(d tool.Definition) bool { return d.Validate() != nil }) {
			by = ""
		}
		kept = h.state.SaveDescription(key, desc, by)
	case ctx.Err() == nil && time.Since(began) > slowFailure:
		kept = h.state.SaveFailure(key, err.Error())
	}
	if kept != nil {
		h.log.Warn("what a plugin said of itself could not be kept", "plugin", name, "error", kept)
	}
	return desc, err
}

func (h *Host) failedToLoad(p config.Plugin, err error) {
	why := fmt.Sprintf("Plugin %s is not loaded: %v", p.Name, err)
	if e := tool.AsError(err); p.Missing == "" {
		why = e.Message
	}
	if at := h.cfg.PluginPosition(p.Name); at != "" {
		why = at + ": " + why
	}
	h.unloaded[p.Name] = strings.TrimSuffix(why, ".") + ". The other tools work; toolhost status shows them all."
	h.problem("%s", why)
}

// checkToolBlocks reports tool blocks that no tool answers to: a slip would otherwise
// leave a tool enabled that was meant to be off.
func (h *Host) checkToolBlocks() {
	for name := range h.cfg.Tools {
		if h.registry.Lookup("", name) == nil && len(h.unloaded) == 0 {
			h.problem("%s", h.cfg.UnknownTool(name, h.registry.AgentNames()))
		}
	}
}

// newID makes the id of a call: unique in this process, and hardly guessed outside of it.
func (h *Host) newID() string {
	return h.idPrefix + strconv.FormatUint(h.lastID.Add(1), 36)
}

func randomPrefix() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:]) + "-"
}
