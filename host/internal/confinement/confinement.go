// Package confinement launches plugins in the configured sandbox. It combines configuration, profile and backend, and
// adds the plugin's cgroup and proxy. Most callers want [Launcher.Launch]. Package sandbox implements the backends.
// Package confine implements the system calls for the launcher program.
package confinement

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/host/internal/repository"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/cgroup"
	"toolhost.dev/sandbox/execgate"
)

// program is the file name of the launcher. The launcher is in the parent of the directory of the bundled plugins.
const program = "toolhost-sandbox"

// Parts contains the dependencies that the launchers of all configurations share.
type Parts struct {
	// Bundled is the directory of the bundled plugins.
	Bundled string
	Home    state.Home
	// Commands locates the programs that commands use to call tools. Nil means that commands cannot call tools.
	Commands Commands
	// Sum returns the SHA-256 of a file. It caches the results, so that a repeated call is fast.
	Sum func(path string) ([32]byte, error)
	// Branches returns a detached mount of the branch with the given key, for one process. Nil means that no session
	// has a branch.
	Branches func(key string) (*os.File, error)
	// Layer returns the directory that contains the changes of a mounted branch at and below a path of the workspace.
	// It returns "" if the branch is not mounted. Nil means that no session has a branch.
	Layer func(key, path string) string
	// Refresh makes all processes of the branch with the given key see the current workspace. Nil means that no session
	// has a branch.
	Refresh func(key string) error
	// Denials records the accesses that sandboxes denied.
	Denials Denials
	// Audit adds an entry to the audit log.
	Audit func(state.AuditEntry)
	Log   *slog.Logger
	// Gate judges the programs that plugins execute. Nil means that these programs are not judged. See [NewGate].
	Gate *execgate.Gate
	// Repositories monitors the writable directories. Nil means that no directories are monitored. See
	// [NewRepositories].
	Repositories *repository.Guard

	redirects redirects
	masks     masks
	outer     sync.Map // what git reads outside of a root: the first search of this process, by path
}

// Commands locates the programs that commands use to call tools.
type Commands interface {
	// Binary returns the path of the shim. It returns "" if the shim does not exist.
	Binary() string
	// Dir returns the directory of the programs.
	Dir() (string, error)
}

// Launcher confines the plugins of one configuration. It is safe for concurrent use.
type Launcher struct {
	cfg    *config.Config
	parts  *Parts
	listed []string // see [Launcher.List]

	probe  sync.Once
	kernel sandbox.Kernel
	groups *cgroup.Tree // nil if cgroups are unavailable; kernel.NoCgroup is the reason
	pids   *cgroup.Pids // nil if the cgroup is unavailable or not needed
}

// New returns the launcher of a configuration. The launcher probes the machine at its first use.
func New(cfg *config.Config, parts *Parts) *Launcher {
	return &Launcher{cfg: cfg, parts: parts}
}

// List sets patterns for program names. Commands can then execute only programs with a matching name. Nil means all
// programs. The caller must call List before the first launch.
func (l *Launcher) List(names []string) { l.listed = names }

// Kernel returns the confinement features that this machine supports.
func (l *Launcher) Kernel() *sandbox.Kernel {
	l.probe.Do(func() {
		path, err := filepath.Abs(filepath.Join(filepath.Dir(l.parts.Bundled), program))
		if err != nil {
			path = program
		}
		l.kernel = sandbox.Probe(path, l.parts.Home.Root)
		advised(&l.kernel)
		l.kernel.NoCgroup = ""
		if l.groups, err = cgroup.Find("/sys/fs/cgroup", "/proc/self"); err != nil {
			l.kernel.NoCgroup = noCgroup(err)
		}
		l.findPids()
	})
	return &l.kernel
}

// Enforce returns the required confinement of a plugin: "auto", "require" or "off".
func Enforce(cfg *config.Config, p *config.Plugin) string {
	if e := p.Confinement.Enforce; e != "" {
		return e
	}
	return cfg.Sandbox.Enforce
}

// declared returns the profile that a manifest declares. A zero manifest profile permits only work on files in the
// roots.
func declared(p manifest.Profile) sandbox.Profile {
	return sandbox.Profile{
		WriteRoots: p.Roots == "" || p.Roots == "read-write", NoRoots: p.Roots == "none", StartProcesses: p.Exec,
	}
}

// Profile returns a plugin's sandbox profile. It is the profile of the manifest with the operator's changes.
func Profile(p *config.Plugin) sandbox.Profile {
	out := declared(p.Profile)
	set := p.Confinement
	for _, s := range []struct{ set, value *bool }{{set.WriteRoots, &out.WriteRoots}, {set.NoRoots, &out.NoRoots},
		{set.Exec, &out.StartProcesses}, {set.Network, &out.Network}} {
		if s.set != nil {
			*s.value = *s.set
		}
	}
	out.Hosts, out.WriteGit = set.Hosts, set.WriteGit
	out.Read, out.Write, out.Run = set.Read, set.Write, set.Run
	limit(&out, &set.Limits)
	return out
}

// Profile returns a plugin's sandbox profile. Unlike the function Profile, it also sets the field DeniedPaths.
func (l *Launcher) Profile(p *config.Plugin) sandbox.Profile {
	out := Profile(p)
	out.DeniedPaths = len(l.cfg.Permissions.Paths.Deny) > 0
	return out
}

// Choose returns the backend for a plugin. If the backend is weaker than the configured backend, the result "weaker" is
// the reason. If the plugin must not run with this backend, the result "err" is not nil.
func (l *Launcher) Choose(p *config.Plugin, roots []tool.Root) (backend sandbox.Backend, weaker, err error) {
	mode := Enforce(l.cfg, p)
	if mode == "off" {
		return sandbox.None{}, nil, nil
	}
	backend, weaker = l.Kernel().Choose(l.cfg.Sandbox.Backend)
	if !backend.Abilities().WholeFileSystem && coversAll(p, roots) {
		if l.cfg.Sandbox.Backend == backend.Name() {
			weaker = errors.New("the plugin's root is the whole file system, which backend ns does not support; use narrower roots than /")
		}
		backend = l.wholeFileSystem()
	}
	if mode != "require" {
		return backend, weaker, nil
	}
	if weaker == nil {
		weaker = l.lacks(p, backend)
	}
	if weaker != nil {
		return backend, weaker, fmt.Errorf("plugin %s must run confined (enforce = \"require\"), but cannot: %w. Run toolhost doctor for details, or set enforce = \"auto\" to allow weaker confinement", p.Name, weaker)
	}
	return backend, nil, nil
}

// wholeFileSystem returns the strongest backend that supports access to the whole file system. It does not check
// whether this machine supports the backend. A stronger backend works on this machine, so the launcher can enforce
// everything that the returned backend needs.
func (l *Launcher) wholeFileSystem() sandbox.Backend {
	for _, b := range sandbox.Backends() {
		if b.Abilities().WholeFileSystem {
			return b
		}
	}
	return sandbox.None{}
}

// lacks returns an error if the backend cannot enforce a part of the plugin's configuration.
func (l *Launcher) lacks(p *config.Plugin, backend sandbox.Backend) error {
	can := backend.Abilities()
	switch {
	case !can.Confines:
		return fmt.Errorf("the configuration sets backend = %q", backend.Name())
	case len(p.Confinement.Hosts) > 0 && !can.SingleHosts:
		return errors.New("connections to single hosts need the backend ns (namespaces)")
	case !can.OwnRoot && l.advice(p):
		return errors.New("denied paths (permissions.paths.deny) need the backend ns (namespaces)")
	case l.listed != nil && listable(p) && Profile(p).StartProcesses && !can.OwnRoot:
		return errors.New("programs that are not listed (permissions.programs) can only be kept from running by the backend ns")
	case l.listed != nil && listable(p) && Profile(p).StartProcesses && l.Kernel().Gate(backend) != nil:
		return fmt.Errorf("programs that are not listed (permissions.programs) cannot be kept from running: %w", l.Kernel().Gate(backend))
	case p.Confinement.Limits.Total != (config.Totals{}) && l.Kernel().NoCgroup != "":
		return fmt.Errorf("the limits in the block total cannot be enforced: %s", l.Kernel().NoCgroup)
	}
	return nil
}

// advice reports whether a plugin has denied paths. Only a private root can enforce them; without it, they are only
// advice.
func (l *Launcher) advice(p *config.Plugin) bool {
	prof := l.Profile(p)
	return prof.DeniedPaths && !prof.NoRoots
}

// coversAll reports whether a plugin can access the whole file system.
func coversAll(p *config.Plugin, roots []tool.Root) bool {
	return slices.Contains(p.Confinement.Read, "/") || slices.Contains(p.Confinement.Write, "/") ||
		slices.ContainsFunc(roots, func(r tool.Root) bool { return r.Path == "/" })
}

// Check returns an error that lists the plugins that require confinement but cannot be confined.
func (l *Launcher) Check(roots []tool.Root) error {
	var errs []error
	for i := range l.cfg.Plugins {
		errs = append(errs, l.CheckPlugin(&l.cfg.Plugins[i], roots))
	}
	return errors.Join(errs...)
}

// CheckPlugin returns an error if a plugin requires confinement but cannot be confined.
func (l *Launcher) CheckPlugin(p *config.Plugin, roots []tool.Root) error {
	if Enforce(l.cfg, p) != "require" {
		return nil
	}
	_, _, err := l.Choose(p, roots)
	return err
}
