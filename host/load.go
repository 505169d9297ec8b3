package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

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
			Name: p.Name, Path: p.Path, Args: p.Args, Env: p.Env, StartTimeout: p.StartTimeout, Config: p.Config, Roots: roots,
		}
		if db := h.state.Path(); db != "" {
			spec.StateDir = filepath.Join(filepath.Dir(db), "plugins", p.Name)
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
	var wg sync.WaitGroup
	for i, p := range h.cfg.Plugins {
		if p.Missing != "" {
			errs[i] = fmt.Errorf("%s", p.Missing)
			continue
		}
		if desc, key := h.known(p); desc != nil {
			descs[i] = desc
		} else {
			wg.Go(func() {
				descs[i], errs[i] = h.super.Plugin(p.Name).Describe(ctx)
				if errs[i] == nil && key != nil {
					if err := h.state.SaveDescription(*key, descs[i]); err != nil {
						h.log.Warn("what a plugin said of itself could not be kept", "plugin", p.Name, "error", err)
					}
				}
			})
		}
	}
	wg.Wait()
	for i, p := range h.cfg.Plugins {
		if errs[i] != nil {
			h.failedToLoad(p, errs[i])
			continue
		}
		err := h.registry.Add(p.Name, p.Field, descs[i], func(name string) registry.Settings {
			t := h.cfg.Tools[name]
			return registry.Settings{Enabled: t.Enabled, Timeout: t.Timeout}
		})
		if err != nil {
			h.problem("%v", err)
		}
	}
	h.checkToolBlocks()
}

// known gives what a plugin's binary said of itself before, and the key it is kept
// under; nil, nil when the binary cannot be read.
func (h *Host) known(p config.Plugin) (*tool.Description, *[32]byte) {
	binary, err := h.state.BinaryHash(p.Path)
	if err != nil {
		return nil, nil
	}
	// What it serves may depend on how it is run.
	how, err := json.Marshal([]any{binary, p.Args, p.Env}) // maps marshal sorted
	if err != nil {
		return nil, nil
	}
	key := sha256.Sum256(how)
	desc, err := h.state.Description(key)
	if err != nil {
		h.log.Warn("what plugins said of themselves cannot be read", "error", err)
	}
	return desc, &key
}

func (h *Host) failedToLoad(p config.Plugin, err error) {
	why := fmt.Sprintf("Plugin %s is not loaded: %v", p.Name, err)
	if e := tool.AsError(err); p.Missing == "" {
		why = e.Message
	}
	if at := h.cfg.PluginPosition(p.Name); at != "" {
		why = at + ": " + why
	}
	h.unloaded[p.Name] = why + ". The other tools work; toolhost status shows them all."
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

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
