// Package admission decides which configuration applies. Every command opens its configuration with [Source.Open].
//
// A configuration in a place that tools can write, or in the workspace, is a project file. A project file may restrict
// tools. It may do anything else only after a person has trusted its content; see [Source.Review] and [Source.Trust].
// All other configurations are the operator's and apply as they are.
package admission

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trust"
)

// Source names a configuration and what decides whether it applies.
type Source struct {
	config.Source
	// Workspace is the directory of sessions that name none, without symbolic links.
	Workspace string
	// ReadOnly makes the workspace read-only.
	ReadOnly bool
	// StateDir is the state directory, whose trust store counts. Empty means the one of the operator's configuration.
	StateDir string
	// Digests are contents that are trusted for this run.
	Digests []string
	// Require refuses to open a configuration beside a project file that is not trusted.
	Require bool
}

// Open reads the configuration that applies. The error is a [*config.Error] if the files can be read.
func (s Source) Open() (*config.Config, error) {
	cfg, err := s.open()
	if err == nil && s.ReadOnly {
		cfg.Sandbox.Workspace = "read-only"
	}
	return cfg, err
}

func (s Source) open() (*config.Config, error) {
	if s.Empty || s.Path == "" {
		cfg, err := s.Load()
		if err != nil || s.Empty {
			return cfg, err
		}
		return cfg, s.protect(cfg)
	}
	if s.IsProject() {
		return s.openProject()
	}
	cfg, err := s.Load()
	if err != nil {
		return nil, err
	}
	if s.writableFile(cfg) != "" {
		return s.openProject()
	}
	if err := s.checkPrograms(cfg); err != nil {
		return nil, err
	}
	return cfg, s.protect(cfg)
}

// checkPrograms checks the programs of an operator's configuration that tools can change. Plugins are not among them: a
// plugin whose binary is not trusted is not loaded, and the others are; see [Source.Guard].
func (s Source) checkPrograms(cfg *config.Config) error {
	content, err := s.content(cfg)
	if err != nil || len(content.Programs) == 0 {
		return err
	}
	if slices.Contains(s.Digests, content.Digest()) {
		return s.acceptDigest(cfg, content)
	}
	decisions, _, err := s.base()
	if err != nil {
		return err
	}
	decision, err := decisions.Of(content.Config)
	if err != nil {
		return err
	}
	dirs := s.exposed(cfg)
	for _, p := range cfg.Programs(s.BundledDir) {
		for _, path := range s.filesOf(p, cfg) {
			switch {
			case p.Plugin && path == p.Command[0] || !within(dirs, path):
			case decision == nil || decision.Programs[path] != content.Programs[path]:
				return fmt.Errorf("%s: %s runs %s, which tools can write and nobody trusted as it is now. Review it with toolhost trust --config %s, or move it to another directory", p.Place, p.Block, path, s.Path)
			}
		}
	}
	return s.useCopies(cfg, content)
}

// IsProject reports whether the configuration lies in the workspace, or is found in the current directory.
func (s Source) IsProject() bool {
	abs, err := filepath.Abs(s.Path)
	if err != nil {
		return true
	}
	return s.discovered() || within([]string{s.Workspace}, abs)
}

// discovered reports whether the configuration is the one that is found in the current directory.
func (s Source) discovered() bool {
	abs, err := filepath.Abs(s.Path)
	if err != nil {
		return true
	}
	cwd, err := os.Getwd()
	return err != nil || filepath.Dir(abs) == cwd && slices.Contains(config.ProjectFiles, filepath.Base(abs))
}

// invalid returns what is wrong with a file that is not trusted. The file cannot read the environment, whose values would
// appear in the error; if it tries, invalid returns nil.
func (s Source) invalid() error {
	reads := false
	s.LookupEnv = func(string) (string, bool) {
		reads = true
		return "", true
	}
	_, err := s.Load()
	if reads {
		return nil
	}
	return err
}

// within reports whether a path, or where its symbolic links lead, is in one of the directories.
func within(dirs []string, path string) bool {
	paths := []string{path}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		paths = append(paths, target)
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil { // the file does not exist yet
		paths = append(paths, filepath.Join(dir, filepath.Base(path)))
	}
	for _, dir := range dirs {
		for _, p := range paths {
			if dir != "" && (tool.Root{Path: dir}).Contains(p) {
				return true
			}
		}
	}
	return false
}

// exposed returns the directories whose content tools can change or a cloned repository brings along.
func (s Source) exposed(cfg *config.Config) []string {
	out := []string{s.Workspace}
	for _, r := range roots.Configured(cfg, s.Workspace) {
		if r.Writable && r.Path != s.Workspace {
			out = append(out, r.Path)
		}
	}
	return out
}

// writableFile returns a file of the configuration that tools can write, or "".
func (s Source) writableFile(cfg *config.Config) string {
	dirs := s.exposed(cfg)
	for path := range cfg.Texts() {
		if within(dirs, path) {
			return path
		}
	}
	return ""
}

// openProject applies a project file as far as it is trusted.
func (s Source) openProject() (*config.Config, error) {
	decisions, base, err := s.base()
	if err != nil {
		return nil, err
	}
	cfg, why := s.trusted(decisions)
	if cfg != nil {
		return cfg, s.protect(cfg)
	}
	narrowing := config.ReadNarrowing(s.Path)
	narrowing.Apply(base)
	if !narrowing.Complete {
		base.Invalid = s.invalid()
		if base.Invalid != nil && !s.discovered() { // somebody named this file and no other
			return nil, base.Invalid
		}
		base.Untrusted = fmt.Sprintf("%s: %s. %s", s.explain(why, base.Invalid), s.instead(base, narrowing), howToReview)
		if s.Require || base.Trust.Refuse {
			return nil, fmt.Errorf("%s. %s", s.explain(why, base.Invalid), howToReview)
		}
	}
	return base, s.protect(base)
}

const howToReview = "Review it: toolhost trust"

// explain says why the project file does not apply.
func (s Source) explain(why, invalid error) string {
	if invalid == nil {
		return fmt.Sprintf("%s is not trusted, because %v", s.Path, why)
	}
	line, _, _ := strings.Cut(invalid.Error(), "\n")
	return fmt.Sprintf("%s is invalid (%s)", s.Path, strings.TrimRight(line, ":."))
}

// instead says which configuration is used in place of the project file.
func (s Source) instead(base *config.Config, n *config.Narrowing) string {
	used := "the built-in configuration is used"
	if base.Path != "" {
		used = base.Path + " is used"
	}
	switch rules := n.Rules(); {
	case rules == 1:
		used += " with the project's 1 deny or ask rule"
	case rules > 1:
		used += fmt.Sprintf(" with the project's %d deny and ask rules", rules)
	case !n.Empty():
		used += " with the project's restrictions"
	}
	return used
}

// base returns the store of decisions, and the configuration that applies without the project file.
func (s Source) base() (*trust.Decisions, *config.Config, error) {
	operator := s
	operator.Path = config.FindUser()
	if operator.Path != "" && (operator.IsProject() || samePath(operator.Path, s.Path)) {
		operator.Path = ""
	}
	// Values on the command line are for the project file, which declares their variables.
	operator.Variables, operator.VariableFiles = nil, nil
	base, err := operator.Load()
	if err != nil {
		return nil, nil, err
	}
	dir, err := state.Dir(s.StateDir, base.Host.StateDir)
	if err != nil {
		return nil, nil, err
	}
	decisions := trust.OpenDecisions(dir)
	if within([]string{s.Workspace}, dir) { // a repository could bring its own store along
		decisions.Distrust(fmt.Errorf("the state directory %s is in the workspace %s, where tools can write, so nothing in it is trusted. Name another one with --state", dir, s.Workspace))
	}
	return decisions, base, nil
}

func samePath(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

var (
	errNoDecision = errors.New("it does more than restrict tools")
	errNotListed  = errors.New("its content is not the one that --trust names")
)

// trusted returns the project's configuration, or why it is not trusted. It evaluates nothing if nobody ever trusted
// content in this place.
func (s Source) trusted(decisions *trust.Decisions) (*config.Config, error) {
	key, err := canonical(s.Path)
	if err != nil {
		return nil, err
	}
	decision, err := decisions.Of(key)
	if err != nil {
		return nil, err
	}
	if len(s.Digests) == 0 {
		if decision == nil {
			return nil, errNoDecision
		}
		if changed := s.changedFiles(decision); len(changed) > 0 {
			return nil, changedSince(changed, decision)
		}
	}
	cfg, err := s.Load()
	if err != nil {
		return nil, fmt.Errorf("it cannot be used: %w", err)
	}
	content, err := s.content(cfg)
	if err != nil {
		return nil, err
	}
	switch {
	case slices.Contains(s.Digests, content.Digest()):
		return cfg, s.acceptDigest(cfg, content)
	case decision == nil:
		return nil, fmt.Errorf("%w; its digest is %s", errNotListed, content.Digest())
	}
	plugins := s.plugins(cfg)
	changed := slices.DeleteFunc(decision.Differences(content), func(path string) bool { return slices.Contains(plugins, path) })
	if len(changed) > 0 { // a changed binary of a plugin concerns only that plugin; see [Source.Guard]
		return nil, changedSince(changed, decision)
	}
	return cfg, s.useCopies(cfg, content)
}

func changedSince(paths []string, d *trust.Decision) error {
	return fmt.Errorf("%s changed since it was trusted at %s", strings.Join(paths, ", "), d.At.Local().Format("2006-01-02 15:04"))
}

// changedFiles returns the files of a decision whose content differs now. Changed text is never evaluated.
func (s Source) changedFiles(d *trust.Decision) (changed []string) {
	for path, was := range d.Files {
		if is, err := trust.Hash(path); err != nil || is != was {
			changed = append(changed, path)
		}
	}
	names, err := config.List(s.Path)
	if err != nil {
		return append(changed, s.Path)
	}
	for _, name := range names {
		if path, err := canonical(name); err != nil || d.Files[path] == "" {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// canonical returns the path of a configuration without symbolic links in its directory. The last element stays, because
// a link there is part of what is trusted.
func canonical(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// hostPrograms are the programs of the host, which lie beside the directory of the bundled plugins.
var hostPrograms = []string{"toolhost", "toolhost-sandbox", "toolhost-shim"}

// protect lists the files that tools must not change: the configuration and the programs that it names.
func (s Source) protect(cfg *config.Config) error {
	content, err := s.content(cfg)
	if err != nil {
		return err
	}
	dirs := s.exposed(cfg)
	add := func(path string) {
		if within(dirs, path) {
			cfg.Protected = append(cfg.Protected, path)
		}
	}
	for path := range content.Files {
		add(path)
	}
	for path := range content.Programs {
		add(path)
	}
	if s.Path != "" && s.Path != cfg.Path { // the project file that was not applied
		if key, err := canonical(s.Path); err == nil {
			add(key)
		}
	}
	add(s.BundledDir)
	for _, program := range hostPrograms {
		add(filepath.Join(filepath.Dir(s.BundledDir), program))
	}
	slices.Sort(cfg.Protected)
	cfg.Protected = slices.Compact(cfg.Protected)
	return nil
}

// Guard returns what decides about files that a start of plugins depends on: for a path that tools can write, it
// returns the SHA-256 that a person trusted, or "". guarded is false for all other paths. It is safe for concurrent use.
func (s Source) Guard(cfg *config.Config) func(path string) (sum string, guarded bool) {
	if cfg.Path == "" {
		return func(string) (string, bool) { return "", false }
	}
	s.Path = cfg.Path
	dirs, bundled := s.exposed(cfg), filepath.Clean(s.BundledDir)
	decisions, _, err := s.base()
	key, keyErr := canonical(s.Path)
	return func(path string) (string, bool) {
		if filepath.Dir(path) == bundled || !within(dirs, path) {
			return "", false
		}
		if err == nil && keyErr == nil {
			if decision, err := decisions.Of(key); err == nil && decision != nil {
				for _, sums := range []map[string]string{decision.Programs, decision.Files} {
					if sum, ok := sums[path]; ok {
						return sum, true
					}
				}
			}
		}
		return cfg.Trusted[path], true
	}
}
