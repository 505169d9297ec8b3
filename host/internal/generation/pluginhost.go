package generation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/host/internal/trust"
)

// pluginHost is the host of one plugin of a configuration. It implements [supervisor.Host].
type pluginHost struct {
	b        *Builder
	p        *Plugin
	cfg      *config.Config
	launcher *confinement.Launcher
	// first checks the first description of the plugin. A nil first permits every description.
	first func(*tool.Description) error
}

// Place implements [supervisor.Host].
func (h *pluginHost) Place(owner string) supervisor.Place {
	return supervisor.Place{Owner: owner, StateDir: h.b.Home.PluginOf(owner, h.p.Name),
		OutputBytes: h.cfg.Access.OutputBytes(owner), Ages: h.cfg.Retention.Ages()}
}

// Confine implements [supervisor.Host].
func (h *pluginHost) Confine(s supervisor.Start) (*supervisor.Confined, error) {
	if server, header := h.p.Server(); server != "" && !header {
		h.b.Logins.Deliver(context.Background(), server, s.StateDir)
	} else if h.p.Mounted {
		principal.ClearLogins(s.StateDir) // an earlier configuration could have mounted a remote server under this name
	}
	return h.launcher.Launch(&h.p.Plugin, s)
}

// Diagnose implements [supervisor.Host].
func (h *pluginHost) Diagnose(diags []tool.Diagnostic) string { return h.cfg.At(h.p.Name, diags) }

// Executable implements [supervisor.Host].
func (h *pluginHost) Executable() (string, error) { return h.b.executable(h.cfg, h.p) }

// Permit implements [supervisor.Host].
func (h *pluginHost) Permit(call *tool.Call) error {
	return h.b.Pins(h.cfg).CheckStart(trust.Start{Block: `field "` + h.p.Name + `"`, Cwd: call.Cwd, PerCall: true})
}

// Notify implements [supervisor.Host].
func (h *pluginHost) Notify(n supervisor.Notice) { h.b.owner.Notified(h.p, n) }

// Inherit implements [supervisor.Host]. The file is the one through which the plugin's commands call tools.
func (h *pluginHost) Inherit() *os.File {
	if d := h.p.Description(); d != nil && !slices.Contains(d.Capabilities, tool.CapabilityCommands) {
		return nil
	}
	return h.b.Commands.Inherit()
}

// Granted implements [supervisor.Host]. It also saves the description of a plugin that lacks a permission, so that a
// later host can reject the plugin without starting it.
func (h *pluginHost) Granted(d *tool.Description) error {
	b, p := h.b, h.p
	if b.Options.DescribeOnly {
		p.desc.CompareAndSwap(nil, d)
		return errDescribed
	}
	err := privilege.MissingGrants(&p.Plugin, d.Needs)
	p.denied.Store(err != nil)
	if err == nil {
		return nil
	}
	p.desc.CompareAndSwap(nil, d)
	if p.Binary.Keyed && !slices.Contains(d.Capabilities, tool.CapabilityDiscovery) {
		b.logUnkept(p, b.keep(p, d))
	}
	return err
}

// Accept implements [supervisor.Host]. It checks the description of a newly started process.
func (h *pluginHost) Accept(d *tool.Description) error {
	p := h.p
	if err := h.b.Pins(h.cfg).CheckTools(p.Name, p.Path, d); err != nil {
		return err
	}
	known := p.Description()
	switch {
	case known != nil && slices.Contains(d.Capabilities, tool.CapabilityDiscovery):
		h.b.rediscover(p, known, d)
		return nil
	case known != nil: // the binary that was described and the binary that was started can differ
		return Breaks(h.cfg, p.Name, known, d)
	case h.first != nil:
		return h.first(d)
	}
	return nil
}

// Prepare implements [supervisor.Host].
func (h *pluginHost) Prepare(ctx context.Context) error {
	p := h.p
	peers := *p.peers.Load()
	if g := h.b.owner.Current(); g != nil && g.Plugin(p.Name) == p {
		peers = g.Plugin
	}
	for _, name := range p.DependsOn {
		on := peers(name)
		if on == nil {
			return fmt.Errorf("the plugin depends on plugin %s, which does not exist", name)
		}
		if on.Missing != "" {
			return fmt.Errorf("the plugin depends on plugin %s: %s", name, on.Missing)
		}
		if _, err := on.Process.Describe(ctx); err != nil {
			return fmt.Errorf("the plugin depends on plugin %s: %w", name, err)
		}
	}
	return nil
}

var countedEvents = map[supervisor.Event]telemetry.Event{
	supervisor.Started: telemetry.Started, supervisor.Failed: telemetry.StartFailed,
	supervisor.Ended: telemetry.Crashed,
}

// Observe implements [supervisor.Host]. It counts the event and updates the states of the plugin's tools.
func (h *pluginHost) Observe(e supervisor.Event, why string) {
	b, p := h.b, h.p
	if counted, ok := countedEvents[e]; ok {
		b.Calls.Metrics.Plugin(p.Name, counted)
	}
	g := b.owner.Current()
	if g == nil || g.Plugin(p.Name) != p { // the plugin is not yet published, or another plugin replaced it
		return
	}
	for _, entry := range g.Registry.All() {
		if entry.Plugin != p.Name || !entry.Enabled {
			continue
		}
		switch life, now := entry.Life, entry.Life.State(); {
		case (e == supervisor.Ended || e == supervisor.Failed) && now == registry.Executing:
			_ = life.To(registry.Errored, why)
		case e == supervisor.Suspended:
			life.Leave("the plugin of the tool keeps failing: " + why)
		case (e == supervisor.Started || e == supervisor.Resumed) &&
			(now == registry.Errored || now == registry.Disabled):
			_ = life.To(registry.Ready, "the plugin of the tool is running")
		}
	}
}

// errDescribed ends the start of a plugin that only has to describe itself.
var errDescribed = errors.New("the plugin was started only to describe itself")
