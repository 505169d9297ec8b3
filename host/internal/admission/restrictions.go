package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/trust"
	"toolhost.dev/sandbox"
)

// restrictions contains the restrictions in a trusted configuration, with the values of its variables. The
// trust store keeps them after the trust ends, because a tool must not be able to remove restrictions by changing the
// configuration.
type restrictions struct {
	Policy    string                  `json:"policy,omitempty"`
	Default   string                  `json:"default,omitempty"`
	AllowList bool                    `json:"allow_list,omitempty"`
	Rules     []config.PermissionRule `json:"rules,omitempty"` // deny and ask rules
	ReadOnly  bool                    `json:"read_only,omitempty"`
	Strict    bool                    `json:"strict,omitempty"`
	Require   bool                    `json:"require,omitempty"`
	Approve   bool                    `json:"approve,omitempty"`
	DenyAsks  bool                    `json:"deny_asks,omitempty"`
	Allow     []string                `json:"allow,omitempty"`
	Deny      []string                `json:"deny,omitempty"`
	// Tools maps disabled tools to -1, and other tools to their number of concurrent calls.
	Tools map[string]int `json:"tools,omitempty"`
	// Plugins maps each plugin to its sandbox profile. Plugins that are not in the map are forbidden.
	Plugins map[string]sandbox.Profile `json:"plugins"`
	// Hooks lists the hooks. No other setting can replace a missing hook, because hooks can deny any call.
	Hooks []string `json:"hooks,omitempty"`
	// Judged maps each hook that can deny calls to the globs of its tools. No globs mean all tools. It is nil in
	// decisions of older versions of the host. Their hooks deny all calls.
	Judged map[string][]string `json:"judged"`
}

// restrictionsOf returns the restrictions in a configuration.
func restrictionsOf(cfg *config.Config) *restrictions {
	p, s := &cfg.Permissions, &cfg.Sandbox
	out := &restrictions{
		Policy: p.Policy, Default: p.Default, AllowList: p.AllowList || p.Programs.Listed, ReadOnly: s.Workspace == "read-only", Strict: s.Strict, Require: s.Enforce == "require",
		Approve: cfg.Trust.Approve, DenyAsks: cfg.Host.OnAsk == "deny", Allow: s.Allow, Deny: s.Deny,
		Tools: make(map[string]int), Plugins: make(map[string]sandbox.Profile),
	}
	for i := range p.Rules {
		if r := p.Rules[i]; r.Effect != "allow" {
			r.Set = nil
			out.Rules = append(out.Rules, r)
		}
	}
	for name, t := range cfg.Tools {
		switch {
		case t.Enabled != nil && !*t.Enabled:
			out.Tools[name] = -1
		case t.MaxConcurrent > 0:
			out.Tools[name] = t.MaxConcurrent
		}
	}
	for i := range cfg.Plugins {
		out.Plugins[cfg.Plugins[i].Name] = confinement.Profile(&cfg.Plugins[i])
	}
	for i := range cfg.Hooks {
		h := &cfg.Hooks[i]
		if out.Hooks = append(out.Hooks, h.Name); out.Judged == nil {
			out.Judged = make(map[string][]string)
		}
		if h.Judges() {
			out.Judged[h.Name] = h.Tools
		}
	}
	return out
}

// keepRestrictions applies the restrictions of a trusted configuration that changed or disappeared. It returns an error
// if a restriction cannot be applied. The parameter "why" is the reason why the configuration itself does not apply.
func keepRestrictions(d *trust.Decision, why string, cfg *config.Config) error {
	if len(d.Restrictions) == 0 { // an older version of the host wrote the decision
		return nil
	}
	r := new(restrictions)
	if err := json.Unmarshal(d.Restrictions, r); err != nil {
		return fmt.Errorf("the restrictions in the trusted version of %s cannot be read: %w. Review the configuration again: toolhost trust", d.Config, err)
	}
	for _, name := range r.Hooks {
		tools, judges := r.Judged[name]
		if r.Judged == nil || judges {
			cfg.Hooks = append(cfg.Hooks, config.Hook{Name: name, On: []string{"before_call"}, Tools: tools, Place: d.Config, Refused: fmt.Sprintf(
				"%s. Restore the file, review it with toolhost trust, or give the hook up with toolhost trust revoke %s", why, filepath.Dir(d.Config))})
		}
	}
	r.apply(cfg)
	return nil
}

func (r *restrictions) apply(cfg *config.Config) {
	p, s := &cfg.Permissions, &cfg.Sandbox
	if order := []string{"", "allow", "ask", "deny"}; slices.Index(order, r.Default) > slices.Index(order, p.Default) {
		p.Default = r.Default
	}
	p.Policy = config.Stricter(p.Policy, r.Policy)
	p.AllowList = p.AllowList || r.AllowList
	known := slices.Concat(p.Rules, p.Project)
	for i := range r.Rules {
		if !slices.ContainsFunc(known, func(k config.PermissionRule) bool { return k.Same(&r.Rules[i]) }) {
			p.Project = append(p.Project, r.Rules[i])
			p.KeepPaths(&r.Rules[i])
		}
	}
	if r.ReadOnly && s.Workspace != "read-only" {
		s.Workspace, s.Narrowed = "read-only", true
	}
	s.Strict, cfg.Trust.Approve = s.Strict || r.Strict, cfg.Trust.Approve || r.Approve
	if r.DenyAsks {
		cfg.Host.OnAsk = "deny"
	}
	if r.Require {
		s.Enforce = "require"
		for i := range cfg.Plugins {
			cfg.Plugins[i].Confinement.Enforce = "require"
		}
	}
	for _, glob := range r.Deny {
		if !slices.Contains(s.Deny, glob) {
			s.Deny = append(s.Deny, glob)
		}
	}
	switch both := intersection(s.Allow, r.Allow); {
	case len(r.Allow) == 0:
	case len(s.Allow) == 0:
		s.Allow = r.Allow
	case len(both) == 0: // two lists cannot be combined, so no path is allowed
		s.Deny = append(s.Deny, "**")
	default:
		s.Allow = both
	}
	if cfg.Tools = maps.Clone(cfg.Tools); cfg.Tools == nil {
		cfg.Tools = make(map[string]config.Tool)
	}
	for name, limit := range r.Tools {
		t := cfg.Tools[name]
		switch {
		case limit < 0:
			t.Enabled = new(bool)
		case t.MaxConcurrent == 0 || limit < t.MaxConcurrent:
			t.MaxConcurrent = limit
		}
		cfg.Tools[name] = t
	}
	cfg.Plugins = slices.DeleteFunc(cfg.Plugins, func(p config.Plugin) bool { _, ok := r.Plugins[p.Name]; return !ok })
	for i := range cfg.Plugins {
		confine(&cfg.Plugins[i], r.Plugins[cfg.Plugins[i].Name])
	}
}

// confine removes the permissions of a plugin that its earlier profile does not contain.
func confine(p *config.Plugin, was sandbox.Profile) {
	is, out := confinement.Profile(p), &p.Confinement
	out.WriteRoots, out.NoRoots = new(is.WriteRoots && was.WriteRoots), new(is.NoRoots || was.NoRoots)
	out.Exec, out.Network = new(is.StartProcesses && was.StartProcesses), new(is.Network && was.Network)
	out.WriteGit = is.WriteGit && was.WriteGit
	switch {
	case is.Network: // the other profile lists all hosts
		out.Hosts = was.Hosts
	case !was.Network:
		out.Hosts = intersection(is.Hosts, was.Hosts)
	}
	out.Read, out.Write, out.Run = intersection(is.Read, was.Read), intersection(is.Write, was.Write), intersection(is.Run, was.Run)
	lower := func(into *uint64, is, was uint64) {
		if was != 0 && (is == 0 || was < is) {
			*into = was
		}
	}
	l := &out.Limits
	lower(&l.Memory, is.Limits.Memory, was.Limits.Memory)
	lower(&l.FileSize, is.Limits.FileSize, was.Limits.FileSize)
	lower(&l.Processes, is.Limits.Processes, was.Limits.Processes)
	lower(&l.Files, is.Limits.Files, was.Limits.Files)
	lower(&l.Temporary, is.Temporary, was.Temporary)
	if cpu := was.Limits.CPU; cpu != 0 && (is.Limits.CPU == 0 || cpu < is.Limits.CPU) {
		l.CPU = time.Duration(cpu) * time.Second
	}
	if cpus := was.Total.CPUs; cpus != 0 && (is.Total.CPUs == 0 || cpus < is.Total.CPUs) {
		l.Total.CPUs = cpus
	}
	lower(&l.Total.Memory, is.Total.Memory, was.Total.Memory)
	lower(&l.Total.Processes, is.Total.Processes, was.Total.Processes)
}

func intersection(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// keepAll applies the restrictions in the trusted versions of changed project files. It also applies the restrictions
// of project files that this file hides. The result "kept" reports whether such restrictions exist.
func (s Source) keepAll(decisions *trust.Decisions, why string, cfg *config.Config) (kept bool, err error) {
	all := s.lost(decisions)
	if key, err := canonical(s.Path); err == nil {
		if d, err := decisions.Of(key); err == nil && d != nil {
			all = append(all, d)
		}
	}
	for _, d := range all {
		if err := keepRestrictions(d, why, cfg); err != nil {
			return false, err
		}
	}
	return len(all) > 0, nil
}

// lost returns the decisions about missing project files in the current directory, and about project files
// that another project file hides.
func (s Source) lost(decisions *trust.Decisions) (out []*trust.Decision) {
	cwd, err := os.Getwd()
	if err == nil {
		cwd, err = filepath.EvalSymlinks(cwd)
	}
	if err != nil {
		return nil
	}
	key := ""
	if s.Path != "" {
		if key, err = canonical(s.Path); err != nil {
			return nil
		}
	}
	for _, name := range config.ProjectFiles {
		path := filepath.Join(cwd, name)
		if path == key {
			continue
		}
		if d, err := decisions.Of(path); err == nil && d != nil {
			out = append(out, d)
		}
	}
	return out
}
