package confinement

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/internal/repository"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/sandbox"
)

// watch prepares for a call of a plugin by an owner. It mounts missing masks of denied and protected paths. At the end
// of the call, the caller must call the returned function. This function checks the files that the call created, and
// returns messages about the files. The returned function can be nil.
func (l *Launcher) watch(p *config.Plugin, owner string, roots []tool.Root) (after func() []string, err error) {
	if err := l.checkMasks(p, roots); err != nil {
		return nil, err
	}
	search, err := l.watchRepositories(p, owner, roots)
	if prof := Profile(p); err != nil || !prof.WriteRoots && !prof.StartProcesses {
		return search, err
	}
	return func() (messages []string) {
		if search != nil {
			messages = search()
		}
		l.parts.masks.expire()
		return messages
	}, nil
}

// watchRepositories prepares for a call that can create repositories. The returned function removes files from new
// repositories through which git would run programs. It returns messages about these files. The returned function is
// nil if the plugin is not confined or cannot write, or if the configuration permits such repositories.
func (l *Launcher) watchRepositories(p *config.Plugin, owner string,
	roots []tool.Root) (after func() []string, err error) {
	guard := l.parts.Repositories
	if guard != nil && l.cfg.Sandbox.Repositories == "off" && len(l.settings()) == 0 {
		for _, r := range roots {
			guard.Ignore(r.Path) // an earlier configuration can have monitored this root
		}
		return nil, nil
	}
	dirs, err := l.writableDirs(p, owner, roots)
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	after, err = guard.Watch(dirs, Profile(p).WriteGit)
	if err != nil {
		return nil, unwatched("The call was not run", err)
	}
	return after, nil
}

// observeRepositories prepares for the start of a plugin that can create repositories. A mounted server runs before its
// first call, and what it writes then must not count as what was there before.
func (l *Launcher) observeRepositories(p *config.Plugin, owner string, roots []tool.Root) error {
	if l.cfg.Sandbox.Repositories == "off" && len(l.settings()) == 0 {
		return nil
	}
	dirs, err := l.writableDirs(p, owner, roots)
	if err != nil || len(dirs) == 0 {
		return err
	}
	if err := l.parts.Repositories.Prepare(dirs, Profile(p).WriteGit); err != nil {
		return unwatched("Plugin "+p.Name+" was not started", err)
	}
	return nil
}

func unwatched(what string, err error) error {
	return tool.Errorf(tool.Unavailable, "%s, because %w. To go on without this check, set sandbox { repositories = \"off\" } in the operator's configuration, and list all settings of editors and agents in permissions { paths { writable } }", what, err)
}

// writableDirs returns the directories that a plugin can write and that the guard searches for repositories.
func (l *Launcher) writableDirs(p *config.Plugin, owner string, roots []tool.Root) (dirs []repository.Dir, err error) {
	prof, off, settings := Profile(p), l.cfg.Sandbox.Repositories == "off", l.settings()
	if l.parts.Repositories == nil || !prof.WriteRoots && !prof.StartProcesses && len(prof.Write) == 0 {
		return nil, nil
	}
	backend, _, refused := l.Choose(p, roots)
	if refused != nil || !backend.Abilities().Confines {
		return nil, nil //nolint:nilerr // the plugin does not run
	}
	add := func(path string, guarded bool, settings []string) {
		if target, err := filepath.EvalSymlinks(path); err == nil && isDir(target) {
			dirs = append(dirs, repository.Dir{
				Path: target, Guarded: guarded, Settings: settings, NoRepositories: off,
				Kept: repository.Kept{Globs: l.cfg.Permissions.Paths.Protect,
					Paths: func() ([]string, error) { return l.kept(&prof, roots) }},
			})
		}
	}
	for _, r := range roots {
		if r.Writable && prof.WriteRoots && r.Branch == "" { // files in a branch are checked when the branch is applied
			add(r.Path, backend.Abilities().OwnRoot && !prof.WriteGit, settings)
		}
	}
	if !off {
		for _, path := range prof.Write {
			add(path, false, nil)
		}
	}
	if dir := l.parts.Home.PluginOf(owner, p.Name); len(dirs) > 0 && dir != "" && prof.StartProcesses && !off { // commands can write to this directory
		// Create the directory, because the plugin starts only later. Files that a command then creates in the
		// directory must not count as old.
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, tool.Errorf(tool.Unavailable, "The call was not run, because the state directory of plugin %s cannot be made: %w. Check the host's state directory", p.Name, err)
		}
		add(dir, false, nil)
	}
	return dirs, nil
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// unguard determines which repositories the kernel does not protect from a plugin that is about to start. It reports
// them to the guard.
func (l *Launcher) unguard(prof *sandbox.Profile, ownRoot bool, roots []tool.Root) {
	if l.parts.Repositories == nil || !prof.WriteRoots {
		return
	}
	for _, r := range roots {
		if r.Branch != "" {
			continue
		}
		st, err := os.Lstat(filepath.Join(r.Path, ".git"))
		if r.Writable && (!ownRoot || prof.WriteGit || err != nil || !st.IsDir()) {
			l.parts.Repositories.Unguard(r.Path, !ownRoot)
		}
	}
}

// NewRepositories returns the guard for the repositories in writable directories. Its quarantine is in the state
// directory.
func NewRepositories(home state.Home, audit func(state.AuditEntry), log *slog.Logger) *repository.Guard {
	return repository.New(repository.Options{
		Ledgers: func() string {
			if home.Root == "" {
				return ""
			}
			return filepath.Join(home.Root, "repositories")
		},
		Store: func() (repository.Store, error) {
			dir, err := home.Quarantine()
			if err != nil {
				return nil, err
			}
			return repository.OpenQuarantine(dir), nil
		},
		Took: func(e *repository.QuarantineEntry) { audit(auditEntry(e)) },
		Log:  log,
	})
}

// auditEntry returns the audit entry for files that were removed from a repository. The quarantine contains their
// content, but the entry does not.
func auditEntry(e *repository.QuarantineEntry) state.AuditEntry {
	args, err := json.Marshal(map[string]any{"path": e.Path, "settings": e.Names, "quarantine": e.ID})
	if err != nil { // cannot happen for strings
		panic(err)
	}
	rule := "sandbox.repositories"
	if e.Why == repository.WhyLoaded {
		rule = "permissions.paths"
	}
	return state.AuditEntry{
		At: e.At, Workspace: e.Root, Tool: "(quarantine)", Arguments: args, Decision: "deny", Rule: rule,
		Outcome: string(tool.PermissionDenied), Error: fmt.Sprintf("%s: %s", e.Path, e.Why),
	}
}

// outer returns what git reads outside of each root. It searches once per root and process: what tools write
// later changes nothing. It omits what is in a root and what is in the state directory of the host.
func (l *Launcher) outer(roots []tool.Root) (out []repository.Outer) {
	in := func(path string) bool {
		return slices.ContainsFunc(roots, func(r tool.Root) bool { return r.Contains(path) })
	}
	for _, r := range roots {
		if home := l.parts.Home.Root; home != "" && (tool.Root{Path: home}).Contains(r.Path) {
			continue
		}
		found, known := l.parts.outer.Load(r.Path)
		if !known {
			var adopted func(file, text string) bool
			if guard := l.parts.Repositories; guard != nil && l.cfg.Sandbox.Repositories != "off" {
				adopted = guard.Adopted
			}
			found, _ = l.parts.outer.LoadOrStore(r.Path, repository.FindOuter(r.Path, adopted))
		}
		o, _ := found.(repository.Outer) // the only type in the map
		if o.Top != "" && in(o.Top) {
			continue
		}
		o.Shown = slices.DeleteFunc(slices.Clone(o.Shown), in)
		out = append(out, o)
	}
	return out
}

// gitCommand matches commands that run git. gitWhole matches those that compare all files of a repository, or add them.
var (
	gitCommand = lazyregexp.New(`\bgit\b`)
	gitWhole   = lazyregexp.New(`\bgit\b.*\b(?:status|diff|add|commit|stash|checkout|restore|reset|ls-files)\b`)
)

// gitHint returns a hint for a command of git that needs more of a repository than the sandbox shows.
func (l *Launcher) gitHint(roots []tool.Root, e call.Ended) string {
	refused := e.Exit != 0 && (refusedWrite.MatchString(e.Printed) || refusedRead.MatchString(e.Printed))
	none := e.Exit != 0 && strings.Contains(e.Printed, "not a git repository")
	for _, o := range l.outer(roots) {
		shown := ""
		for _, path := range o.Shown {
			if strings.Contains(e.Printed, path+"/") {
				shown = path
			}
		}
		switch {
		case none && o.Unshown != "":
			return fmt.Sprintf("The sandbox does not show the git directory %[1]s, which does not name this workspace in turn. Tools can write a file that leads there, so check it first. To show the directory, the operator adds this line to the sandbox block: root %[1]q {}", o.Unshown)
		case none && o.Writable != "":
			return fmt.Sprintf("The sandbox does not show the repository of the workspace. To show it, the operator adds this line to the sandbox block: root %q {}", o.Writable)
		case refused && shown != "":
			return fmt.Sprintf("The sandbox shows %s, the git directory of the workspace, read-only. To permit commits, the operator adds this line to the sandbox block: root %q { writable = true }", shown, o.Writable)
		case o.Top != "" && gitWhole.MatchString(e.Command):
			return fmt.Sprintf("The workspace is a part of the repository %[1]s. The sandbox shows no other files of it, so git reports them as deleted. Name the workspace (git status .), or let the operator add this line to the sandbox block: root %[1]q {}", o.Top)
		}
	}
	return ""
}

// GuardApply prepares for the apply of a branch in a workspace. The apply can add repositories with files that make git
// run programs. The returned function removes these files and returns messages about them. This check cannot happen
// earlier, because nobody outside of the branch's sandbox sees the files before the apply.
func GuardApply(cfg *config.Config, parts *Parts, workspace string) (after func() []string, err error) {
	l := New(cfg, parts)
	off, settings := cfg.Sandbox.Repositories == "off", l.settings()
	if off && len(settings) == 0 {
		return func() []string { return nil }, nil
	}
	after, err = parts.Repositories.Watch([]repository.Dir{{
		Path: workspace, Settings: settings, NoRepositories: off,
		Kept: repository.Kept{
			Globs: cfg.Permissions.Paths.Protect, Paths: func() ([]string, error) { return cfg.Protected, nil },
		},
	}}, false)
	if err != nil {
		return nil, fmt.Errorf("nothing was applied, because %w", err)
	}
	return after, nil
}
