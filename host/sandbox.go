package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/cgroup"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/sandbox"
	"toolhost.dev/host/internal/sandbox/confine"
	"toolhost.dev/host/internal/supervisor"
)

// launcher is the program that confines, beside the directory of the bundled plugins.
const launcher = "toolhost-sandbox"

// confinement has the kernel confine the plugins as the configuration says.
type confinement struct {
	cfg     *config.Config
	bundled string
	// cache is where what the machine can do is kept; empty: nowhere.
	cache string

	// groups are to be divided; nil: see kernel.NoCgroup.
	groups *cgroup.Tree
	probe  sync.Once
	kernel sandbox.Kernel
}

// able gives what the machine can enforce, which is found out at the first use.
func (c *confinement) able() *sandbox.Kernel {
	c.probe.Do(func() {
		path, err := filepath.Abs(filepath.Join(filepath.Dir(c.bundled), launcher))
		if err != nil {
			path = launcher
		}
		c.kernel = sandbox.Probe(path, c.cache)
		c.kernel.NoCgroup = ""
		if c.groups, err = cgroup.Find("/sys/fs/cgroup", "/proc/self"); err != nil {
			c.kernel.NoCgroup = err.Error()
		}
	})
	return &c.kernel
}

// enforce is what the configuration says of a plugin: "auto", "require" or "off".
func (c *confinement) enforce(p *config.Plugin) string {
	if e := p.Confinement.Enforce; e != "" {
		return e
	}
	return c.cfg.Sandbox.Enforce
}

// profile returns the sandbox profile of a plugin: that of its manifest, with the operator's changes.
func profile(p *config.Plugin) sandbox.Profile {
	out := sandbox.Default(p.Profile)
	said := p.Confinement
	for _, s := range []struct{ said, value *bool }{{said.WriteRoots, &out.WriteRoots}, {said.NoRoots, &out.NoRoots}, {said.Exec, &out.StartProcesses}, {said.Network, &out.Network}} {
		if s.said != nil {
			*s.value = *s.said
		}
	}
	out.Hosts, out.WriteGit = said.Hosts, said.WriteGit
	out.Total = cgroup.Limits(said.Limits.Total)
	out.Read, out.Write, out.Run = said.Read, said.Write, said.Run
	out.Limits = confine.Limits{
		Memory: said.Limits.Memory, Processes: said.Limits.Processes, Files: said.Limits.Files,
		FileSize: said.Limits.FileSize, CPU: uint64(said.Limits.CPU.Seconds()),
	}
	return out
}

// choose gives a plugin's backend. why says what is against the wanted one; err, that the
// plugin must not run without it.
func (c *confinement) choose(p *config.Plugin, roots []tool.Root) (backend sandbox.Backend, why, err error) {
	mode := c.enforce(p)
	if mode == "off" {
		return sandbox.None, nil, nil
	}
	backend, why = c.able().Choose(c.cfg.Sandbox.Backend)
	if backend == sandbox.Namespaces && holdsAll(p, roots) {
		backend = sandbox.Landlock
		if c.cfg.Sandbox.Backend == string(sandbox.Namespaces) {
			why = errors.New("it may work on all of the file system, which a root of its own cannot hold: name narrower roots than /")
		}
	}
	if mode != "require" {
		return backend, why, nil
	}
	if backend == sandbox.Landlock && why == nil && len(p.Confinement.Hosts) > 0 {
		why = errors.New("it may reach single hosts, which needs namespaces, the backend ns")
	}
	if backend == sandbox.None && why == nil {
		why = errors.New("the configuration says backend = \"none\"")
	}
	if t := p.Confinement.Limits.Total; why == nil && t != (config.Totals{}) && c.able().NoCgroup != "" {
		why = fmt.Errorf("limits of its processes together cannot be kept: %s", c.able().NoCgroup)
	}
	if why != nil {
		return backend, why, fmt.Errorf("plugin %s must run confined (enforce = \"require\"), and cannot: %w. See toolhost doctor; enforce = \"auto\" runs it with what there is", p.Name, why)
	}
	return backend, nil, nil
}

// holdsAll reports whether a plugin may work on the whole file system.
func holdsAll(p *config.Plugin, roots []tool.Root) bool {
	return slices.Contains(p.Confinement.Read, "/") || slices.Contains(p.Confinement.Write, "/") ||
		slices.ContainsFunc(roots, func(r tool.Root) bool { return r.Path == "/" })
}

// check says which plugins must run confined and cannot.
func (c *confinement) check(roots []tool.Root) error {
	var errs []error
	for i := range c.cfg.Plugins {
		if p := &c.cfg.Plugins[i]; c.enforce(p) == "require" {
			_, _, err := c.choose(p, roots)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// confine is the supervisor's Confine for a plugin.
func (h *Host) confine(c *confinement, p *config.Plugin, s supervisor.Start) (*supervisor.Confined, error) {
	backend, why, err := c.choose(p, s.Roots)
	if err != nil {
		return nil, err
	}
	if backend == sandbox.None {
		if why != nil {
			h.log.Info("the plugin is not confined", "plugin", p.Name, "why", why)
		}
		return nil, nil
	}
	at := sandbox.Place{Binary: s.Cmd.Path, Roots: s.Roots, SocketDir: s.SocketDir, StateDir: h.pluginStateDir(p.Name), Env: s.Cmd.Env}
	if at.StateDir == "" {
		runtime, err := h.super.RuntimeDir()
		if err != nil {
			return nil, err
		}
		at.StateDir = filepath.Join(runtime, "state-"+p.Name)
		if err := os.MkdirAll(at.StateDir, 0o700); err != nil {
			return nil, fmt.Errorf("there is no place for its temporary files: %w", err)
		}
	}
	prof := profile(p)
	if prof.StartProcesses && h.commands.binary != "" {
		dir, err := h.commands.parent()
		if err == nil {
			err = os.MkdirAll(dir, 0o755) //nolint:gosec // as the programs that will be in it
		}
		if err != nil {
			return nil, fmt.Errorf("there is no place for the programs that call tools: %w", err)
		}
		at.Run = []string{dir, h.commands.binary}
	}
	if prof.WriteRoots && !prof.WriteGit && backend == sandbox.Namespaces {
		for _, r := range s.Roots {
			h.redirected.LoadOrStore(r.Path, sandbox.Redirects(r.Path) != "")
		}
	}
	kernel := c.able()
	policy, env, err := prof.Policy(at, kernel.ABI)
	if err != nil {
		return nil, fmt.Errorf("the sandbox cannot be set up: %w", err)
	}
	if backend == sandbox.Namespaces && len(prof.Hosts) > 0 {
		policy.ProxyPort = proxyPort
		env = throughProxy(env)
	}
	s.Cmd.Env = env
	var group *cgroup.Group
	if c.groups != nil && !prof.Total.None() {
		if group, err = c.groups.Make(p.Name, prof.Total); err != nil {
			if c.enforce(p) == "require" {
				return nil, err
			}
			h.log.Warn("a plugin runs without the limits of its processes together", "plugin", p.Name, "why", err)
		}
	}
	running, err := sandbox.Wrap(s.Cmd, kernel.Launcher, backend, policy)
	if group != nil && err == nil {
		group.Start(s.Cmd)
	}
	var stop func()
	ended := func() {
		if stop != nil {
			stop()
		}
		if group == nil {
			return
		}
		if err := group.Remove(); err != nil {
			h.log.Warn("the cgroup of a plugin that ended stays", "plugin", p.Name, "why", err)
		}
	}
	if err != nil {
		ended()
		return nil, err
	}
	return &supervisor.Confined{
		Running: func(started error) error {
			l, err := running(started)
			if err != nil && backend == sandbox.Namespaces {
				sandbox.Forget(h.stateRoot) // it may be that they can no longer be had
			}
			if l != nil {
				stop, err = h.serveProxy(l, c.cfg, p, prof.Hosts)
			}
			return err
		},
		Ended: ended,
	}, nil
}
