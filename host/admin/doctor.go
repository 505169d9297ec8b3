package admin

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch"
	"toolhost.dev/host/internal/changeset"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sandbox"
	"toolhost.dev/sandbox/execgate"
)

// Diagnosis describes how the kernel confines the plugins of a configuration.
type Diagnosis struct {
	// Config is the file or directory of the configuration, or "built-in".
	Config string `json:"config"`
	// Machine describes the confinement features that this machine supports for this user.
	Machine sandbox.Kernel `json:"machine"`
	// Container is the container in which toolhost runs. Nil means that toolhost does not run in a container.
	Container *sandbox.Container `json:"container,omitempty"`
	// BundledBy describes how the host recognizes the programs of bundled plugins: "content" or "directory".
	BundledBy string `json:"bundled_by"`
	// Backends lists the sandbox backends, strongest first.
	Backends []sandbox.BackendStatus `json:"backends"`
	Plugins  []PluginDiagnosis       `json:"plugins"`
	// Off lists the plugins that the configuration disables.
	Off []string `json:"off,omitempty"`
	// Problems lists the known failures of a host with this configuration, such as plugins and hooks that do not run.
	Problems []string `json:"problems"`
	// Permissions describes how rules about programs and paths are enforced.
	Permissions PermissionDiagnosis `json:"permissions"`
	// NoBranches is the reason why sessions cannot work in branches of this workspace. Empty means that they can.
	NoBranches string `json:"no_branches,omitempty"`
	// Branches describes how branches are made: "overlay"; "copy" for copies without what git ignores; or "shared copy"
	// for complete copies that share their data with the workspace. It is empty without branches.
	Branches string `json:"branches,omitempty"`
}

// PermissionDiagnosis describes how rules about programs and paths are enforced.
type PermissionDiagnosis struct {
	// Programs is "open" if every program can run. Otherwise it describes how the list is enforced.
	Programs string `json:"programs"`
	// Deny and Protect are the numbers of globs for denied and protected paths.
	Deny    int `json:"deny"`
	Protect int `json:"protect"`
	// Settings is the number of protected names of files with settings of other programs.
	Settings int `json:"settings"`
	// Missing lists the restrictions that are not enforced.
	Missing []confinement.Gap `json:"missing"`
}

// diagnosePermissions reports how the rules about programs and paths are enforced. The argument "ns" reports whether
// plugins run in namespaces. The argument "gated" reports whether the exec gate judges each program that a command
// executes.
func diagnosePermissions(cfg *config.Config, ns, gated bool) PermissionDiagnosis {
	p := &cfg.Permissions
	out := PermissionDiagnosis{Programs: "open", Deny: len(p.Paths.Deny), Protect: len(p.Paths.Protect),
		Settings: len(sandbox.Settings) - len(p.Paths.Writable), Missing: []confinement.Gap{}}
	gap := func(missing bool, what, how string) {
		if missing {
			out.Missing = append(out.Missing, confinement.Gap{What: what, How: how})
		}
	}
	if listed := p.Programs.Listed || p.AllowList; listed {
		out.Programs = policy.ByAnalysis
		if gated {
			out.Programs = policy.AtExecution
		}
		for _, multi := range sandbox.MultiCall(privilege.ListedPrograms(cfg), os.Getenv("PATH")) {
			gap(true, "a program with several threads can race for it: "+multi, "list programs that have files of their own")
		}
		gap(!gated, "what a listed program starts is not judged", "list only programs that start no others, and no interpreters")
	}
	gap(out.Deny > 0 && !ns, confinement.Advice, "use the backend ns")
	gap(out.Deny > 0 && ns, "other copies of denied content can be read: git's objects, copies, what is made outside of the sandbox within a call until the host sees it", "keep such files outside of the roots")
	gap(out.Protect > 0 && !ns, "paths.protect does not hold for programs that commands run", "use the backend ns")
	gap(out.Protect > 0 && ns, "a protected path that does not exist can be created; it is protected from the next call on", "create it")
	gap(out.Settings > 0, "settings of editors and agents that commands create can be loaded until the call ends and the host moves them to the quarantine", "open the directory in other programs after the call")
	return out
}

// PluginDiagnosis describes how the kernel confines one plugin.
type PluginDiagnosis struct {
	Name string `json:"name"`
	// From is the position of the plugin's block in the configuration. It is empty for a bundled plugin without a
	// block. Relation is the relation of the plugin to a bundled plugin, such as "replaces the bundled plugin".
	From     string `json:"from,omitempty"`
	Relation string `json:"relation,omitempty"`
	// Enforce is the configured confinement: "auto", "require" or "off".
	Enforce string `json:"enforce"`
	Backend string `json:"backend"`
	// Refused is the reason why the plugin does not run confined as configured. Unloaded is the reason why the host
	// could not load it. The plugin runs if both are empty.
	Refused  string            `json:"refused,omitempty"`
	Unloaded string            `json:"unloaded,omitempty"`
	Profile  sandbox.Profile   `json:"profile"`
	Enforced []string          `json:"enforced"`
	Missing  []confinement.Gap `json:"missing"`
	// Heard reports whether the plugin has a saved description. Without a description, its needs are unknown.
	Heard bool `json:"heard"`
	Grants
}

// Grants lists the needs of a plugin and its permissions.
type Grants = privilege.Grants

// Diagnose reports how the plugins of a configuration are confined on this machine. It starts no plugins. It also works
// for a configuration that [host.New] rejects.
func Diagnose(opts Options) (*Diagnosis, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	cfg, err := source.Open()
	if err != nil {
		return nil, err
	}
	bundled := source.BundledDir
	all := roots.Configured(cfg, source.Workspace)
	launcher := confinement.New(cfg, &confinement.Parts{Bundled: bundled, Gate: new(execgate.Gate)})
	launcher.List(privilege.ListedPrograms(cfg))
	branches, noBranches := probeBranches(cfg, opts, launcher)
	known := described(cfg, opts)
	problems, unloaded, shadowed := problemsOf(cfg, opts)
	out := &Diagnosis{
		Config: cfg.Source, Machine: *launcher.Kernel(), Container: sandbox.FindContainer(),
		Backends: launcher.Kernel().Statuses(), Plugins: []PluginDiagnosis{}, Off: cfg.Off, Problems: problems,
		Branches: branches, NoBranches: noBranches,
	}
	if out.BundledBy = "directory"; manifest.ByContent() {
		out.BundledBy = "content"
	}
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		out.Plugins = append(out.Plugins, diagnose(cfg, p, launcher, all, known[p.Name]))
		out.Plugins[i].Unloaded = unloaded[p.Name]
	}
	gated := slices.ContainsFunc(cfg.Plugins, func(p config.Plugin) bool {
		return servesShell(&p, known[p.Name]) && launcher.Gated(&p, all)
	})
	out.Permissions = diagnosePermissions(cfg, !slices.ContainsFunc(out.Plugins,
		func(p PluginDiagnosis) bool { return p.Backend != "ns" && p.Profile.WriteRoots }), gated)
	out.Permissions.Missing = append(out.Permissions.Missing, shadowed...)
	return out, nil
}

// problemsOf returns the known failures of a host, the reasons why plugins are not loaded by plugin name, and the gaps
// in rules for programs whose commands a tool gets. It starts no plugin, so it knows nothing about plugins that never
// ran. If the host cannot start, no plugin is loaded.
func problemsOf(cfg *config.Config, opts Options) (problems []string, unloaded map[string]string,
	shadowed []confinement.Gap) {
	opts.Live, opts.OnConfig, opts.Log = false, nil, nil
	unloaded = make(map[string]string)
	e, err := engine.NewMode(context.Background(), engine.Options(opts), engine.Mode{Unstarted: true})
	if err != nil {
		for i := range cfg.Plugins {
			unloaded[cfg.Plugins[i].Name] = err.Error()
		}
		return []string{err.Error()}, unloaded, nil
	}
	shadowed = e.Current().ShadowedPrograms(func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
	unstarted := func(why string) bool { return strings.Contains(why, generation.ErrUnstarted.Error()) }
	maps.Copy(unloaded, e.Current().Unloaded)
	maps.DeleteFunc(unloaded, func(_, why string) bool { return unstarted(why) })
	problems = slices.DeleteFunc(append([]string{}, e.Problems()...), unstarted)
	if err := e.Close(); err != nil {
		problems = append(problems, err.Error())
	}
	return problems, unloaded, shadowed
}

// probeBranches returns how branches are made, or the reason why sessions cannot work in branches. It mounts a branch
// to find out.
func probeBranches(cfg *config.Config, opts Options, launcher *confinement.Launcher) (how, reason string) {
	workspace, err := roots.Workspace(opts.Workspace)
	if err != nil {
		return "", err.Error()
	}
	dir, err := state.FindDir(opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return "", err.Error()
	}
	store := &branch.Store{Dir: state.Home{Root: dir}.Branches()}
	shared, noCopy := store.Probe("", workspace, branch.Backend{Copy: true})
	noCopy = changeset.Advise(noCopy)
	if cfg.Workspace.Backend == "copy" {
		switch {
		case noCopy != nil:
			return "", noCopy.Error()
		case shared:
			return "shared copy", ""
		}
		return "copy", ""
	}
	if err = launcher.Branchable(); err == nil {
		_, err = store.Probe(launcher.Kernel().Launcher, workspace, branch.Backend{})
		err = changeset.Advise(err)
	}
	switch {
	case err == nil:
		return "overlay", ""
	case noCopy == nil:
		return "", err.Error() + ". Copies of the workspace are possible: workspace { backend = \"copy\" }"
	}
	return "", err.Error()
}

// diagnose reports how one plugin is confined. A nil desc means that no description of the plugin is stored.
func diagnose(cfg *config.Config, p *config.Plugin, launcher *confinement.Launcher, all []tool.Root,
	desc *tool.Description) PluginDiagnosis {
	kernel := launcher.Kernel()
	backend, weaker, err := launcher.Choose(p, all)
	prof := launcher.Profile(p)
	d := PluginDiagnosis{
		Name: p.Name, Relation: cfg.Relation(p.Name), Enforce: confinement.Enforce(cfg, p), Backend: backend.Name(),
		Profile:  prof,
		Enforced: append([]string{}, confinement.Enforced(&prof, kernel, backend)...),
		Missing:  append([]confinement.Gap{}, confinement.Gaps(&prof, kernel, backend, weaker)...),
		Grants:   privilege.GrantsOf(p, nil),
	}
	if !p.Added {
		d.From = cfg.PluginPosition(p.Name)
	}
	if desc != nil {
		d.Heard, d.Grants = true, privilege.GrantsOf(p, desc.Needs)
		if err == nil {
			err = privilege.MissingGrants(p, desc.Needs)
		}
	}
	if err != nil {
		d.Refused = err.Error()
	}
	return d
}

// servesShell reports whether a plugin serves the shell. The argument "known" is nil if the plugin never ran. It can
// then serve the shell.
func servesShell(p *config.Plugin, known *tool.Description) bool {
	return p.Field == "" && (known == nil || slices.ContainsFunc(known.Tools, func(d tool.Definition) bool {
		return d.Claims() == tool.RoleShell
	}))
}

// described returns the saved descriptions of plugins, by plugin name. It starts no plugins and creates no files. It
// omits plugins without a saved description.
func described(cfg *config.Config, opts Options) map[string]*tool.Description {
	dir, err := state.FindDir(opts.StateDir, cfg.Host.StateDir)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "state.db")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	defer db.Close() //nolint:errcheck // only read
	out := make(map[string]*tool.Description)
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		if b := generation.BinaryOf(db, p, p.Path); b.Keyed {
			if kept, err := db.Description(b.Key); err == nil && kept != nil {
				out[p.Name] = kept.Description
			}
		}
	}
	return out
}
