package privilege

import "toolhost.dev/host/internal/config"

// Stored returns what a configuration permits, for a store: the settings that [Intersect] compares, but for principals
// and endpoints. It contains no secrets, and it is the same configuration once it was converted to JSON and back.
func Stored(cfg *config.Config) *config.Config {
	out := &config.Config{
		Host: cfg.Host, Sandbox: cfg.Sandbox, Reload: cfg.Reload, Workspace: cfg.Workspace, Tools: cfg.Tools,
		Permissions: cfg.Permissions,
		Quotas:      cfg.Quotas, Audit: cfg.Audit, Trust: cfg.Trust, Off: cfg.Off, LeftOut: cfg.LeftOut,
	}
	out.Audit.Secrets, out.Permissions.Rules = nil, nil
	for _, r := range cfg.Permissions.Rules {
		if r.Set != nil && r.Effect == "allow" { // without the parameters that it sets, it would permit more
			continue
		}
		r.Set = nil
		out.Permissions.Rules = append(out.Permissions.Rules, r)
	}
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		out.Plugins = append(out.Plugins, config.Plugin{
			Name: p.Name, Calls: p.Calls, Confinement: p.Confinement, Profile: p.Profile,
		})
	}
	return out
}

// KeepStored takes from a configuration what a stored one does not permit.
func KeepStored(cfg, stored *config.Config) {
	now := *stored
	now.Access, now.Endpoints = cfg.Access, cfg.Endpoints
	out, _ := Intersect(cfg, &now)
	out.Restricted, out.Sandbox.Narrowed = cfg.Restricted,
		cfg.Sandbox.Narrowed || out.Sandbox.Workspace != cfg.Sandbox.Workspace
	*cfg = *out
}
