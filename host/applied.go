package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/trust"
)

// applied is what a host used last of a configuration, for plans that are made while none runs.
// What is sensitive is masked in it.
type applied struct {
	Tree    *ConfigTree     `json:"tree"` // nil: it is not known
	Plugins []appliedPlugin `json:"plugins"`
	what    string          // where it is known from
}

type appliedPlugin struct {
	Name string `json:"name"`
	PluginVersion
	Tools []tool.Definition `json:"tools"`
}

func (a *applied) plugin(name string) *appliedPlugin {
	if a == nil {
		return nil
	}
	i := slices.IndexFunc(a.Plugins, func(p appliedPlugin) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &a.Plugins[i]
}

// keepApplied remembers what is in use. Calls work without that.
func (h *Host) keepApplied(g *generation) {
	if !h.opts.Live || h.definitionsKey() == "" {
		return
	}
	a := applied{Tree: showConfig(g.cfg, true), Plugins: []appliedPlugin{}}
	for _, m := range g.members {
		if g.cfg.PluginPosition(m.Name) == "" || m.err != nil { // the first was registered at run time
			continue
		}
		a.Plugins = append(a.Plugins, appliedPlugin{m.Name, *version(m), m.desc.Load().Tools})
	}
	b, err := json.Marshal(a)
	if err == nil {
		err = h.state.SaveApplied(h.definitionsKey(), b)
	}
	if err != nil {
		h.log.Warn("what is in use could not be kept, so plans without a running host do not know of it", "error", err)
	}
}

// lastApplied gives what was in use last, or else what is pinned; nil: nothing is known.
func (h *Host) lastApplied() (*applied, error) {
	b, at, err := h.state.Applied(h.definitionsKey())
	if err != nil {
		return nil, fmt.Errorf("what was in use last cannot be read: %w", err)
	}
	if a := new(applied); b != nil && json.Unmarshal(b, a) == nil && a.Tree != nil { // else another version wrote it
		a.what = "what a host used last, at " + at.Local().Format(time.DateTime)
		return a, nil
	}
	if h.pins.off {
		return nil, nil
	}
	lock, err := trust.Read(h.pins.lock)
	if err != nil || len(lock.Plugins) == 0 {
		return nil, err
	}
	a := &applied{what: "what is pinned in " + h.pins.lock}
	for name, pin := range lock.Plugins {
		a.Plugins = append(a.Plugins, appliedPlugin{Name: name, PluginVersion: PluginVersion{Path: pin.Path, SHA256: pin.SHA256, Version: pin.Version}})
	}
	slices.SortFunc(a.Plugins, func(x, y appliedPlugin) int { return strings.Compare(x.Name, y.Name) })
	return a, nil
}

// since has a plan of everything say what differs from what was in use.
func (p *Plan) since(a *applied, r *reload) error {
	p.ComparedWith = a.what
	if p.Refused != "" && len(p.Plugins) == 0 { // it could not even be read
		return nil
	}
	if a.Tree != nil {
		now, err := masked(showConfig(r.cfg, true))
		if err != nil {
			return err
		}
		p.Settings = compareSettings(a.Tree, now)
		p.Widening = append([]string{}, since(a.Tree, now, r.host.opts.BundledDir)...)
	}
	out := []PluginPlan{}
	for _, plan := range p.Plugins {
		was := a.plugin(plan.Name)
		if was == nil {
			out = append(out, plan)
			continue
		}
		from := was.PluginVersion
		plan.From = &from
		if plan.Action == "add" {
			plan.Action = "change"
			plan.Configured = a.Tree != nil && slices.ContainsFunc(p.Settings, func(s SettingPlan) bool {
				return strings.HasPrefix(s.Path, "plugin "+strconv.Quote(plan.Name)) || strings.HasPrefix(s.Path, "field "+strconv.Quote(plan.Name))
			})
			plan.Changes = []ToolChange{}
			if next := r.peer(plan.Name); a.Tree != nil && next != nil {
				plan.Changes = append(plan.Changes, registry.Compare(was.Tools, next.desc.Load().Tools)...)
			}
			if !plan.Configured && from.SHA256 == plan.To.SHA256 {
				continue
			}
		}
		out = append(out, plan)
	}
	for i := range a.Plugins {
		if was := &a.Plugins[i]; r.cfg.Plugin(was.Name) == nil && !slices.Contains(r.cfg.LeftOut, was.Name) {
			out = append(out, PluginPlan{Name: was.Name, Action: "remove", From: &was.PluginVersion, Changes: []ToolChange{}})
		}
	}
	p.Plugins = out
	return nil
}

// masked gives a tree without what is sensitive, as one that was kept.
func masked(t *ConfigTree) (*ConfigTree, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	out := new(ConfigTree)
	return out, json.Unmarshal(b, out)
}

// since says what one tree lets tools do that another did not.
func since(old, now *ConfigTree, bundled string) []string {
	var cfgs [2]*config.Config
	for i, t := range []*ConfigTree{old, now} {
		cfg, err := config.Parse([]byte(t.HCL()), t.Source, config.Environment{BundledDir: bundled})
		if err != nil {
			first, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
			return []string{fmt.Sprintf("it cannot be said, because what was kept is no configuration any more: %s", first)}
		}
		cfgs[i] = cfg
	}
	return widenings(cfgs[0], cfgs[1], nil)
}

// PlanConfig says what a host that uses another configuration would change to use the one that
// opts name. against is that other one; empty: what a host used last, else what is pinned, else
// nothing.
func PlanConfig(ctx context.Context, opts Options, against string) (*Plan, error) {
	if cfg, err := opts.readConfig(); err == nil && opts.StateDir == "" {
		opts.StateDir = cfg.Host.StateDir // hosts that use it have their state there
	}
	to := opts.Config
	opts.Config, opts.nothing = against, against == ""
	h, err := New(ctx, opts)
	if err != nil {
		return nil, err
	}
	h.opts.Config, h.opts.nothing = to, false
	if h.pins, err = newPins(h, to); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	var last *applied
	if against == "" {
		if last, err = h.lastApplied(); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	p, r, err := h.plan(ctx)
	if err == nil && against == "" {
		p.Widening = []string{} // everything would be
		if last != nil {
			err = p.since(last, r)
		}
	}
	return p, errors.Join(err, h.Close())
}
