package confinement

import (
	"fmt"
	"os"
	"path/filepath"

	"toolhost.dev/host/internal/cgroup"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/sandbox"
	"toolhost.dev/host/internal/supervisor"
)

// Launch confines a plugin process before its start. It can change the whole command. It returns nil for a plugin that
// is not confined. The supervisor calls Launch as its Confine function.
func (l *Launcher) Launch(p *config.Plugin, start supervisor.Start) (*supervisor.Confined, error) {
	backend, weaker, err := l.Choose(p, start.Roots)
	if err != nil {
		return nil, err
	}
	can := backend.Abilities()
	if !can.Confines {
		if weaker != nil {
			l.parts.Log.Info("the plugin is not confined", "plugin", p.Name, "why", weaker)
		}
		return nil, nil
	}
	prof := Profile(p)
	at, err := l.place(p, prof, start)
	if err != nil {
		return nil, err
	}
	if prof.WriteRoots && !prof.WriteGit && can.OwnRoot {
		l.parts.redirects.observe(start.Roots)
	}
	policy, env, err := prof.Policy(at, l.Kernel().ABI)
	if err != nil {
		return nil, fmt.Errorf("the sandbox cannot be set up: %w", err)
	}
	if can.SingleHosts && len(prof.Hosts) > 0 {
		policy.ProxyPort = proxyPort
		env = proxyEnvironment(env)
	}
	start.Cmd.Env = env
	group, err := l.limit(p, prof)
	if err != nil {
		return nil, err
	}
	running, err := backend.Wrap(start.Cmd, l.Kernel().Launcher, policy)
	if group != nil && err == nil {
		group.Start(start.Cmd)
	}
	c := &confined{launcher: l, plugin: p, backend: backend, hosts: prof.Hosts, group: group, wait: running}
	if err != nil {
		c.ended()
		return nil, err
	}
	return &supervisor.Confined{Running: c.running, Ended: c.ended}, nil
}

// place returns the paths for a plugin's sandbox and creates its directories.
func (l *Launcher) place(p *config.Plugin, prof sandbox.Profile, start supervisor.Start) (sandbox.Place, error) {
	home := l.parts.Home
	at := sandbox.Place{Binary: start.Cmd.Path, Roots: start.Roots, SocketDir: start.SocketDir, StateDir: home.Plugin(p.Name), Env: start.Cmd.Env, Protect: l.cfg.Protected}
	if at.StateDir == "" {
		runtime, err := home.Runtime()
		if err != nil {
			return at, err
		}
		at.StateDir = filepath.Join(runtime, "state-"+p.Name)
		if err := os.MkdirAll(at.StateDir, 0o700); err != nil {
			return at, fmt.Errorf("the temporary directory of the plugin cannot be created: %w", err)
		}
	}
	if commands := l.parts.Commands; prof.StartProcesses && commands != nil && commands.Binary() != "" {
		dir, err := commands.Dir()
		if err == nil {
			err = os.MkdirAll(dir, 0o755) //nolint:gosec // as the programs that will be in it
		}
		if err != nil {
			return at, fmt.Errorf("the directory for commands that call tools cannot be created: %w", err)
		}
		at.Run = []string{dir, commands.Binary()}
	}
	return at, nil
}

// limit returns the cgroup for a plugin's processes. It returns nil if the plugin has no total limits. It also returns
// nil if cgroups are unavailable but not required.
func (l *Launcher) limit(p *config.Plugin, prof sandbox.Profile) (*cgroup.Group, error) {
	l.Kernel()
	if l.groups == nil || prof.Total.None() {
		return nil, nil
	}
	group, err := l.groups.Make(p.Name, prof.Total)
	if err == nil {
		return group, nil
	}
	if Enforce(l.cfg, p) == "require" {
		return nil, err
	}
	l.parts.Log.Warn("a plugin runs without limits for all its processes together", "plugin", p.Name, "why", err)
	return nil, nil
}
