package host

import (
	"toolhost.dev/host/internal/sandbox"
)

// Diagnosis is what the kernel enforces on the plugins of a configuration.
type Diagnosis struct {
	// Config is the configuration's file or directory, or "built-in".
	Config string `json:"config"`
	// Machine is what this machine can enforce for this user.
	Machine sandbox.Kernel    `json:"machine"`
	Plugins []PluginDiagnosis `json:"plugins"`
}

// PluginDiagnosis is what the kernel enforces on one plugin.
type PluginDiagnosis struct {
	Name string `json:"name"`
	// Enforce is what the configuration asks for: "auto", "require" or "off".
	Enforce string          `json:"enforce"`
	Backend sandbox.Backend `json:"backend"`
	// Refused says why the plugin does not run; empty: it does.
	Refused  string          `json:"refused,omitempty"`
	Profile  sandbox.Profile `json:"profile"`
	Enforced []string        `json:"enforced"`
	Missing  []sandbox.Gap   `json:"missing"`
	// Heard: the plugin was described before, so what it needs is known.
	Heard bool `json:"heard"`
	Grants
}

// Diagnose says how the plugins of a configuration are confined on this machine. It starts
// none of them, and works also where [New] refuses to.
func Diagnose(opts Options) (*Diagnosis, error) {
	if opts.BundledDir == "" {
		opts.BundledDir = BundledDir()
	}
	cfg, err := opts.readConfig()
	if err != nil {
		return nil, err
	}
	workspace, err := realDir(opts.Workspace)
	if err != nil {
		return nil, err
	}
	roots := configuredRoots(cfg, workspace)
	c := &confinement{cfg: cfg, bundled: opts.BundledDir}
	said := heard(cfg, opts)
	kernel := c.able()
	out := &Diagnosis{Config: cfg.Source, Machine: *kernel, Plugins: []PluginDiagnosis{}}
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		backend, why, err := c.choose(p, roots)
		prof := profile(p)
		d := PluginDiagnosis{
			Name: p.Name, Enforce: c.enforce(p), Backend: backend, Profile: prof,
			Enforced: append([]string{}, prof.Enforced(kernel, backend)...), Missing: append([]sandbox.Gap{}, prof.Gaps(kernel, backend, why)...),
		}
		d.Grants = grants(p, nil)
		if desc := said[p.Name]; desc != nil {
			d.Heard, d.Grants = true, grants(p, desc.Needs)
			if err == nil {
				err = lacks(p, desc.Needs)
			}
		}
		if err != nil {
			d.Refused = err.Error()
		}
		out.Plugins = append(out.Plugins, d)
	}
	return out, nil
}
