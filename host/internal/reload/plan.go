package reload

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"toolhost.dev/host/internal/admission"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/registry"
)

// Plan describes the changes that a reload would make.
type Plan struct {
	// Config is the path of the new configuration.
	Config string `json:"config"`
	// ComparedWith describes the configuration with which the plan compares if no host is running. ComparedWith is
	// empty if the plan compares with the current configuration of a host, or with no configuration.
	ComparedWith string `json:"compared_with,omitempty"`
	// Refused is the reason why a reload would reject the configuration, with file and line. Empty means that a reload
	// would accept the configuration.
	Refused string `json:"refused,omitempty"`
	// Plugins lists the plugins that a reload would add, change, remove or reject.
	Plugins []PluginPlan `json:"plugins"`
	// Settings lists the changed settings, with secrets masked.
	Settings []privilege.SettingChange `json:"settings"`
	// Increases lists the additional privileges in the new configuration.
	Increases []string `json:"privilege_increases"`
	// Widening equals Increases.
	//
	// Deprecated: use Increases.
	Widening []string `json:"widening"`
	// NeedsApproval reports whether the current configuration requires an approval of the additional privileges.
	NeedsApproval bool `json:"needs_approval"`
}

// PluginPlan describes the planned change of one plugin.
type PluginPlan struct {
	Name string `json:"name"`
	// Action is "add", "change", "remove" or "refuse".
	Action string         `json:"action"`
	From   *PluginVersion `json:"from,omitempty"`
	To     *PluginVersion `json:"to,omitempty"`
	// Configured reports whether the settings of the plugin change.
	Configured bool `json:"configured"`
	// Changes lists the changes of tool definitions. For a new plugin, it lists all tools.
	Changes []registry.Change `json:"changes"`
	// Refused is the reason why a reload would reject the plugin. Empty means that a reload would accept the plugin.
	Refused string `json:"refused,omitempty"`
}

// PluginVersion identifies a plugin's binary.
type PluginVersion struct {
	Path    string `json:"path"`
	SHA256  string `json:"sha256,omitempty"`
	Version string `json:"version,omitempty"`
}

// Changes reports whether the plan contains changes.
func (p *Plan) Changes() bool {
	return len(p.Settings) > 0 ||
		slices.ContainsFunc(p.Plugins, func(p PluginPlan) bool { return p.Action != "refuse" })
}

// Fails reports whether a reload would reject the configuration or a plugin.
func (p *Plan) Fails() bool {
	return p.Refused != "" || slices.ContainsFunc(p.Plugins, func(p PluginPlan) bool { return p.Action == "refuse" })
}

// Plan returns the changes that [Reloader.Reload] would make. It starts new versions of plugins to get their
// descriptions, and then stops them. Running calls continue. Plan returns an error if ctx is canceled or the host is
// closing.
func (r *Reloader) Plan(ctx context.Context) (*Plan, error) {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	p, a, err := r.plan(ctx)
	if err != nil {
		return nil, err
	}
	a.discard()
	p.Widening = p.Increases
	return p, nil
}

// PlanFor returns the changes from the current generation to another configuration. If nothingInUse is true, the
// baseline is the configuration that a host used last, or the pinned plugins if no configuration was saved. After
// PlanFor, the caller can only close the reloader.
func (r *Reloader) PlanFor(ctx context.Context, source admission.Source, nothingInUse bool) (*Plan, error) {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	r.Source = source
	cfg, err := source.Open()
	if err != nil {
		cfg = &config.Config{Path: source.Path} // no error, because the plan contains the error
	}
	pins, err := r.OpenPins(cfg)
	if err != nil {
		return nil, err
	}
	r.Builder.Trust(cfg, pins)
	var last *applied
	if nothingInUse {
		var err error
		if last, err = r.lastApplied(); err != nil {
			return nil, err
		}
	}
	p, a, err := r.plan(ctx)
	if err != nil {
		return nil, err
	}
	defer a.discard()
	if nothingInUse {
		p.Increases = []string{} // without an old configuration, every privilege would count as an increase
		if last != nil {
			err = p.compareWith(last, a)
		}
	}
	p.Widening = p.Increases
	return p, err
}

// plan creates the plan for the methods Plan and PlanFor. The caller must lock progress.one and discard the returned
// attempt.
func (r *Reloader) plan(ctx context.Context) (*Plan, *attempt, error) {
	if r.progress.isClosed() {
		return nil, nil, errClosing
	}
	a := newAttempt(r, Options{dry: true})
	a.readConfig()
	a.prepare()
	a.try(ctx)
	if ctx.Err() != nil {
		a.discard()
		return nil, nil, context.Cause(ctx)
	}
	out := &Plan{Config: r.Source.Path, Refused: a.report.Config.Refused, Plugins: []PluginPlan{},
		Settings: []privilege.SettingChange{}, Increases: []string{}}
	if out.Config == "" {
		out.Config = a.cfg.Source
	}
	for _, s := range a.steps {
		if s.next != s.old {
			out.Plugins = append(out.Plugins, s.plan())
		}
	}
	if a.cfg == a.old.Config {
		return out, a, nil
	}
	if _, err := privilege.Rules(a.cfg); err != nil {
		out.Refused = err.Error()
	}
	out.Settings = privilege.DiffSettings(privilege.Settings(a.old.Config, true), privilege.Settings(a.cfg, true))
	out.Increases = append(out.Increases, a.increases...)
	out.NeedsApproval = len(a.increases) > 0 && a.old.Config.Reload.PrivilegeIncreases == "approve"
	if err := a.tryConfig(ctx); err != nil {
		out.Refused = err.Error()
	}
	if s := a.culprit(); s != nil {
		out.Refused = fmt.Sprintf("the whole configuration would be refused, because plugin %s does not work", s.name)
		if at := a.cfg.PluginPosition(s.name); at != "" {
			out.Refused = at + ": " + out.Refused
		}
	}
	return out, a, nil
}

func (s *step) plan() PluginPlan {
	p := PluginPlan{Name: s.name, Action: "change", From: versionOf(s.old), To: versionOf(s.next),
		Configured: s.configured, Changes: []registry.Change{}}
	switch {
	case s.err != nil:
		p.Action, p.Refused = "refuse", refusalText(s.err)
	case s.next == nil:
		p.Action = "remove"
	case s.old == nil || s.old.Err != nil:
		p.Action = "add"
		if desc := s.next.Description(); desc != nil {
			p.Changes = registry.Compare(nil, desc.Tools)
		}
	default:
		p.Changes = append(p.Changes, s.changes...)
	}
	return p
}

func versionOf(p *generation.Plugin) *PluginVersion {
	if p == nil {
		return nil
	}
	v := &PluginVersion{Path: p.Path, Version: reportedVersion(p)}
	if p.Binary.Sum != nil {
		v.SHA256 = hex.EncodeToString(p.Binary.Sum[:])
	}
	return v
}
