package reload

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state/records"
	"toolhost.dev/host/internal/trust"
)

// applied is the configuration that a host used last, with sensitive values masked. If no host is running, a
// plan compares a new configuration with the saved configuration.
type applied struct {
	Tree    *privilege.SettingTree `json:"tree"` // nil if the settings are unknown
	Plugins []appliedPlugin        `json:"plugins"`
	origin  string                 // description of this configuration in the plan
}

type appliedPlugin struct {
	Name string `json:"name"`
	PluginVersion
	Tools []tool.Definition `json:"tools"`
}

func (a *applied) plugin(name string) *appliedPlugin {
	i := slices.IndexFunc(a.Plugins, func(p appliedPlugin) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &a.Plugins[i]
}

// KeepApplied saves the current settings and plugins for later plans. It is slow with many plugins, so a host that
// starts calls it in the background.
func (r *Reloader) KeepApplied() {
	for g := r.Current(); ; {
		r.keepApplied(g)
		now := r.Current()
		if now == g {
			return
		}
		g = now // meanwhile, a reload saved a newer generation, which this call possibly overwrote
	}
}

// keepApplied saves the current settings and plugins for later plans. If the data cannot be saved, keepApplied only
// logs the error, because calls do not need the data.
func (r *Reloader) keepApplied(g *generation.Generation) {
	key := r.Builder.Approvals(g.Config).Key()
	if !r.Live || key == "" {
		return
	}
	a := applied{Tree: privilege.Settings(g.Config, true), Plugins: []appliedPlugin{}}
	var known []records.Sum // sums of the definitions of the first plugins
	for _, p := range g.Plugins {
		if g.Config.PluginPosition(p.Name) == "" || p.Err != nil { // a plugin without a position was registered at run time
			continue
		}
		if sum := p.Subject().Definitions; sum != nil && len(known) == len(a.Plugins) {
			known = append(known, *sum)
		}
		a.Plugins = append(a.Plugins, appliedPlugin{p.Name, *versionOf(p), p.Description().Tools})
	}
	digest, err := a.digest(known)
	if err == nil {
		err = r.Builder.State.SaveApplied(key, digest, func() ([]byte, error) { return json.Marshal(a) })
	}
	if err != nil {
		r.Log.Warn("the active configuration cannot be saved, so toolhost config plan cannot compare with it without a running host", "error", err)
	}
}

// digest returns a hash that identifies the saved data. It does not encode the definitions of the plugins, but uses
// their known hashes. The result is nil if the hash of a plugin's definitions is unknown.
func (a *applied) digest(known []records.Sum) ([]byte, error) {
	if len(known) < len(a.Plugins) {
		return nil, nil
	}
	versions := make([]PluginVersion, len(a.Plugins))
	names := make([]string, len(a.Plugins))
	for i := range a.Plugins {
		versions[i], names[i] = a.Plugins[i].PluginVersion, a.Plugins[i].Name
	}
	b, err := json.Marshal([]any{build.Version, a.Tree, names, versions, known})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}

// lastApplied returns the configuration that a host used last. If no configuration was saved, it returns the pinned
// plugins. It returns nil if no plugin is pinned.
func (r *Reloader) lastApplied() (*applied, error) {
	b, at, err := r.Builder.State.Applied(r.Builder.Approvals(nil).Key())
	if err != nil {
		return nil, fmt.Errorf("the last used configuration cannot be read: %w", err)
	}
	if a := new(applied); b != nil && json.Unmarshal(b, a) == nil && a.Tree != nil { // another host version can use another format
		a.origin = "the last used configuration, of " + at.Local().Format(time.DateTime)
		return a, nil
	}
	pins := r.Builder.Pins(nil)
	if pins.Off() {
		return nil, nil
	}
	lock, err := trust.Read(pins.Path())
	if err != nil || len(lock.Plugins) == 0 {
		return nil, err
	}
	a := &applied{origin: "the plugins pinned in " + pins.Path()}
	for name, pin := range lock.Plugins {
		a.Plugins = append(a.Plugins, appliedPlugin{
			Name: name, PluginVersion: PluginVersion{
				Path: pin.Binary(pins.Path()), SHA256: pin.Sum(), Version: pin.Version,
			},
		})
	}
	slices.SortFunc(a.Plugins, func(x, y appliedPlugin) int { return strings.Compare(x.Name, y.Name) })
	return a, nil
}

// compareWith changes a plan that was created without a baseline. The new baseline is the last used configuration. The
// argument "a" must be the attempt that created the plan.
func (p *Plan) compareWith(last *applied, a *attempt) error {
	p.ComparedWith = last.origin
	if p.Refused != "" && len(p.Plugins) == 0 { // the configuration could not be read
		return nil
	}
	if last.Tree != nil {
		now, err := masked(privilege.Settings(a.cfg, true))
		if err != nil {
			return err
		}
		p.Settings = privilege.DiffSettings(last.Tree, now)
		p.Increases = append([]string{}, increases(last.Tree, now, a.builder.Options.Bundled)...)
	}
	out := []PluginPlan{}
	for _, plan := range p.Plugins {
		if was := last.plugin(plan.Name); was == nil || p.compareOne(&plan, was, last, a) {
			out = append(out, plan)
		}
	}
	for i := range last.Plugins {
		if was := &last.Plugins[i]; a.cfg.Plugin(was.Name) == nil && !slices.Contains(a.cfg.LeftOut, was.Name) {
			out = append(out, PluginPlan{
				Name: was.Name, Action: "remove", From: &was.PluginVersion, Changes: []registry.Change{},
			})
		}
	}
	p.Plugins = out
	return nil
}

// compareOne changes the plan of one added plugin. The new baseline is the last used version of the plugin. compareOne
// returns false if the plan for the plugin contains no changes.
func (p *Plan) compareOne(plan *PluginPlan, was *appliedPlugin, last *applied, a *attempt) bool {
	from := was.PluginVersion
	plan.From = &from
	if plan.Action != "add" {
		return true
	}
	plan.Action = "change"
	plan.Configured = last.Tree != nil && slices.ContainsFunc(p.Settings, func(s privilege.SettingChange) bool {
		return strings.HasPrefix(s.Path, "plugin "+strconv.Quote(plan.Name)) ||
			strings.HasPrefix(s.Path, "field "+strconv.Quote(plan.Name))
	})
	plan.Changes = []registry.Change{}
	if next := a.peer(plan.Name); last.Tree != nil && next != nil {
		plan.Changes = append(plan.Changes, registry.Compare(was.Tools, next.Description().Tools)...)
	}
	return plan.Configured || from.SHA256 != plan.To.SHA256
}

// masked returns a copy of a settings tree in the form for the database. Sensitive values are masked.
func masked(t *privilege.SettingTree) (*privilege.SettingTree, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	out := new(privilege.SettingTree)
	return out, json.Unmarshal(b, out)
}

// increases returns the privileges that the tree "now" grants and the tree "old" does not.
func increases(old, now *privilege.SettingTree, bundled string) []string {
	var cfgs [2]*config.Config
	for i, t := range []*privilege.SettingTree{old, now} {
		cfg, err := config.Parse([]byte(t.HCL()), t.Source, config.Environment{BundledDir: bundled})
		if err != nil {
			first, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
			return []string{fmt.Sprintf("unknown, because the stored configuration is no longer valid: %s", first)}
		}
		cfgs[i] = cfg
	}
	return privilege.Increases(cfgs[0], cfgs[1], nil)
}
