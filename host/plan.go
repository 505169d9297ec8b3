package host

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/registry"
)

// Plan is what a reload would change.
type Plan struct {
	// Config is the configuration that would be used.
	Config string `json:"config"`
	// ComparedWith says what it is compared with where no host runs; empty: what is in use, or nothing.
	ComparedWith string `json:"compared_with,omitempty"`
	// Refused says why it would not be, with file and line; empty: it would.
	Refused string `json:"refused,omitempty"`
	// Plugins that would be added, changed, removed or refused.
	Plugins []PluginPlan `json:"plugins"`
	// Settings that would be others, secrets masked.
	Settings []SettingPlan `json:"settings"`
	// Widening is what tools could do that they cannot do now.
	Widening []string `json:"widening"`
	// NeedsApproval: the configuration in use wants somebody to approve of that.
	NeedsApproval bool `json:"needs_approval"`
}

// PluginPlan is what would become of a plugin.
type PluginPlan struct {
	Name string `json:"name"`
	// Action is "add", "change", "remove" or "refuse".
	Action string         `json:"action"`
	From   *PluginVersion `json:"from,omitempty"`
	To     *PluginVersion `json:"to,omitempty"`
	// Configured: it is run in another way, or told something else.
	Configured bool `json:"configured"`
	// Changes of the tools' definitions; of one that is added, its tools.
	Changes []ToolChange `json:"changes"`
	// Refused says why it would not be used.
	Refused string `json:"refused,omitempty"`
}

// PluginVersion is a plugin as it is at some moment.
type PluginVersion struct {
	Path    string `json:"path"`
	SHA256  string `json:"sha256,omitempty"`
	Version string `json:"version,omitempty"`
}

// SettingPlan is a setting that would be another.
type SettingPlan struct {
	// Path such as host.timeout, or plugin "read".env.
	Path string `json:"path"`
	// From and To are values as HCL; empty: there is none.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// At is where To stands, as "file:line".
	At string `json:"at,omitempty"`
}

// Changes reports whether there would be any.
func (p *Plan) Changes() bool {
	return len(p.Settings) > 0 || slices.ContainsFunc(p.Plugins, func(p PluginPlan) bool { return p.Action != "refuse" })
}

// Fails reports whether anything would be refused.
func (p *Plan) Fails() bool {
	return p.Refused != "" || slices.ContainsFunc(p.Plugins, func(p PluginPlan) bool { return p.Action == "refuse" })
}

// Plan says what [Host.Reload] would change. Versions of plugins that are not known are started
// for it, and stopped again; calls hear nothing of that. The error says that ctx ended or the
// host is closed.
func (h *Host) Plan(ctx context.Context) (*Plan, error) {
	p, _, err := h.plan(ctx)
	return p, err
}

func (h *Host) plan(ctx context.Context) (*Plan, *reload, error) {
	h.reloads.one.Lock()
	defer h.reloads.one.Unlock()
	if h.reloads.over() {
		return nil, nil, errClosing
	}
	r := &reload{host: h, opts: ReloadOptions{dry: true}, old: h.current.Load(), out: &Reload{}}
	r.readConfig()
	r.plan()
	defer func() {
		for _, s := range r.steps {
			s.discard()
		}
	}()
	r.try(ctx)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	out := &Plan{Config: h.opts.Config, Refused: r.out.Config.Refused, Plugins: []PluginPlan{}, Settings: []SettingPlan{}, Widening: []string{}}
	if out.Config == "" {
		out.Config = r.cfg.Source
	}
	for _, s := range r.steps {
		if s.next != s.old {
			out.Plugins = append(out.Plugins, r.planned(s))
		}
	}
	if r.cfg == r.old.cfg {
		return out, r, nil
	}
	if _, err := rules(r.cfg); err != nil {
		out.Refused = err.Error()
	}
	out.Settings = compareSettings(showConfig(r.old.cfg, true), showConfig(r.cfg, true))
	out.Widening = append(out.Widening, r.wider...)
	out.NeedsApproval = len(r.wider) > 0 && r.old.cfg.Reload.Widening == "approve"
	for _, s := range r.steps {
		if s.configured && s.err != nil {
			out.Refused = fmt.Sprintf("nothing of it would be used, because plugin %s does not work", s.name)
			if at := r.cfg.PluginPosition(s.name); at != "" {
				out.Refused = at + ": " + out.Refused
			}
			break
		}
	}
	return out, r, nil
}

func (r *reload) planned(s *step) PluginPlan {
	p := PluginPlan{Name: s.name, Action: "change", From: version(s.old), To: version(s.next), Configured: s.configured, Changes: []ToolChange{}}
	switch {
	case s.err != nil:
		p.Action, p.Refused = "refuse", refusalText(s.err)
	case s.next == nil:
		p.Action = "remove"
	case s.old == nil || s.old.err != nil:
		p.Action = "add"
		if desc := s.next.desc.Load(); desc != nil {
			p.Changes = registry.Compare(nil, desc.Tools)
		}
	default:
		p.Changes = append(p.Changes, s.changes...)
	}
	return p
}

func version(m *member) *PluginVersion {
	if m == nil {
		return nil
	}
	v := &PluginVersion{Path: m.Path}
	if m.binary.sum != nil {
		v.SHA256 = hex.EncodeToString(m.binary.sum[:])
	}
	if d := m.desc.Load(); d != nil {
		v.Version = d.Version
	}
	return v
}

// compareSettings gives what differs, in the order of the new one.
func compareSettings(old, now *ConfigTree) []SettingPlan {
	a, b := flatten(old), flatten(now)
	out := []SettingPlan{}
	find := func(in []setting, path string) *config.TreeValue {
		i := slices.IndexFunc(in, func(s setting) bool { return s.path == path })
		if i < 0 {
			return nil
		}
		return in[i].value
	}
	for _, s := range b {
		switch was := find(a, s.path); {
		case was == nil && s.value != nil && s.value.From != config.Default:
			out = append(out, SettingPlan{Path: s.path, To: s.value.HCL(), At: s.value.From})
		case was != nil && s.value != nil && !was.Same(s.value):
			p := SettingPlan{Path: s.path, From: was.HCL(), To: s.value.HCL(), At: s.value.From}
			if bytes.Equal(was.Value, s.value.Value) {
				p.From, p.To = "(sensitive)", "(sensitive, another)"
			}
			out = append(out, p)
		}
	}
	for _, s := range a {
		if find(b, s.path) == nil && s.value.From != config.Default {
			out = append(out, SettingPlan{Path: s.path, From: s.value.HCL()})
		}
	}
	return out
}

// setting is a value by its path.
type setting struct {
	path  string
	value *config.TreeValue
}

func flatten(t *ConfigTree) (out []setting) {
	var walk func(prefix string, blocks []*config.TreeNode)
	walk = func(prefix string, blocks []*config.TreeNode) {
		seen := make(map[string]int)
		for _, n := range blocks {
			path := prefix + n.Type
			for _, l := range n.Labels {
				path += " " + strconv.Quote(l)
			}
			if seen[path]++; seen[path] > 1 {
				path += "[" + strconv.Itoa(seen[path]) + "]"
			}
			if n.From != config.Default && len(n.Labels) > 0 {
				here, _ := config.NewTreeValue("", map[string]any{}, n.From)
				out = append(out, setting{path, &here})
			}
			for i := range n.Values {
				out = append(out, setting{path + "." + n.Values[i].Name, &n.Values[i]})
			}
			walk(path+".", n.Blocks)
		}
	}
	walk("", t.Blocks)
	return out
}

// Plan has the host say what a reload would change; see [Host.Plan].
func (r Remote) Plan(ctx context.Context) (*Plan, error) {
	out := new(Plan)
	return out, r.socket.Ask(ctx, opPlan, nil, out)
}
