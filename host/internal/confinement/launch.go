package confinement

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/confine"
)

// Launch confines a plugin process before its start. It can change the whole command. It returns nil if the plugin is
// not confined. The supervisor calls Launch as its Confine function.
func (l *Launcher) Launch(p *config.Plugin, start supervisor.Start) (*supervisor.Confined, error) {
	roots, temporary := scratch.Split(start.Roots)
	backend, weaker, err := l.Choose(p, roots)
	if err != nil {
		return nil, err
	}
	can := backend.Abilities()
	if err := l.branchable(p, backend, roots); err != nil {
		return nil, err
	}
	if !can.Confines {
		l.unconfined(p, start.Cmd, temporary, weaker)
		return nil, nil
	}
	if err := l.Verify(p, start.Cmd.Path); err != nil {
		return nil, err
	}
	prof := Profile(p)
	at, err := l.place(p, prof, start, roots)
	at.Roots, at.Temporary = roots, temporary
	at.OnHost = func(path string) string { return scratch.OnHost(roots, path) }
	if err != nil {
		return nil, err
	}
	if err := l.observeRepositories(p, start.Owner, roots); err != nil {
		return nil, err
	}
	l.unguard(&prof, can.OwnRoot, roots)
	if prof.WriteRoots && !prof.WriteGit && can.OwnRoot {
		l.parts.redirects.observe(roots)
	}
	policy, env, err := prof.Policy(at, l.Kernel().ABI)
	if err != nil {
		return nil, fmt.Errorf("the sandbox cannot be set up: %w", err)
	}
	var kept *masked
	if can.OwnRoot {
		if kept, err = l.mask(p, &prof, roots, &policy); err != nil {
			return nil, fmt.Errorf("the sandbox cannot be set up: %w", err)
		}
	}
	if can.SingleHosts && len(prof.Hosts) > 0 {
		policy.ProxyPort = proxyPort
		env = proxyEnvironment(env)
	}
	start.Cmd.Env = env
	policy.Gate = l.parts.Gate != nil && l.gated(&prof, backend)
	c := &confined{gate: gateKey(p.Name, start.Owner, start.Roots), launcher: l, plugin: p, backend: backend,
		cmd: start.Cmd, hosts: prof.Hosts, resident: prof.Resident, masks: kept}
	if c.groups, err = l.limit(p, &prof); err != nil {
		c.ended()
		return nil, err
	}
	if err := l.wrap(c, roots, policy); err != nil {
		c.ended()
		return nil, err
	}
	return &supervisor.Confined{Running: c.running, Ended: c.ended}, nil
}

// wrap makes the command of a plugin start under its policy.
func (l *Launcher) wrap(c *confined, roots []tool.Root, policy confine.Policy) (err error) {
	if c.groups.pids != nil {
		policy.Join = []string{c.groups.pids.Tasks()}
	}
	if err := l.branches(&policy, roots); err != nil {
		return err
	}
	c.wait, err = c.backend.Wrap(c.cmd, l.Kernel().Launcher, policy)
	if c.groups.total != nil && err == nil {
		c.groups.total.Start(c.cmd)
	}
	return err
}

// unconfined prepares the start of a plugin that is not confined. If the argument "weaker" is not nil, it
// is the reason.
func (l *Launcher) unconfined(p *config.Plugin, cmd *exec.Cmd, temporary tool.Root, weaker error) {
	if weaker != nil {
		l.parts.Log.Info("the plugin is not confined", "plugin", p.Name, "why", weaker)
	}
	if temporary.Path != "" {
		cmd.Env = append(cmd.Env, "TMPDIR="+temporary.Path)
	}
}

// projectFiles lists the files in a workspace that configure the host. They are protected even if this host did not
// read them, because the next host can read them.
var projectFiles = []string{"toolhost.hcl", "toolhost.hcl.json", "toolhost.hclvars", "toolhost.lock.json"}

// place determines the paths that a plugin's sandbox needs. It creates directories that do not exist.
func (l *Launcher) place(p *config.Plugin, prof sandbox.Profile, start supervisor.Start,
	roots []tool.Root) (sandbox.Place, error) {
	home := l.parts.Home
	at := sandbox.Place{
		Binary: start.Cmd.Path, SocketDir: start.SocketDir, StateDir: start.StateDir, Env: start.Cmd.Env,
		Protect: slices.Concat(l.cfg.Protected, inCopies(l.cfg.Protected, roots)), ProtectNames: projectFiles,
	}
	if p.Source != "" {
		at.Beside = filepath.Dir(p.Path)
	}
	if prof.StartProcesses && !prof.NoRoots && start.Owner == "" {
		for _, o := range l.outer(roots) {
			at.Git = append(at.Git, o.Shown...)
		}
	}
	if listable(p) {
		at.Listed = l.listed
	}
	if at.StateDir == "" {
		runtime, err := home.Runtime()
		if err != nil {
			return at, err
		}
		at.StateDir = filepath.Join(runtime, "state-"+p.Name+start.Owner)
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

// Verify returns an error if a program would get the rights of a bundled plugin but is not the program of this plugin.
// The program can have changed after the configuration was read.
func (l *Launcher) Verify(p *config.Plugin, program string) error {
	if p.Bundled == "" || !manifest.ByContent() {
		return nil
	}
	sum, err := l.parts.Sum(program)
	if err != nil {
		return fmt.Errorf("the program of plugin %s cannot be checked: %w", p.Name, err)
	}
	if !manifest.Verify(p.Bundled, sum) {
		return fmt.Errorf("%s is not the program of the bundled plugin %s that belongs to this version of toolhost. Restart toolhost after an upgrade, install the release again, or run the program as a plugin of its own, outside of %s", p.Path, p.Bundled, l.parts.Bundled)
	}
	return nil
}
