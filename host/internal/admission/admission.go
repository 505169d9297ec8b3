// Package admission decides which configuration file the host uses. Every command opens its configuration with
// [Source.Open].
//
// A configuration file that tools can write, or that lies in the workspace, is a project file. A project file can
// always restrict tools. Its other settings apply only after a person trusts its content; see [Source.Review] and
// [Source.Trust]. All other configuration files belong to the operator and apply unchanged.
package admission

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/trust"
	"toolhost.dev/host/internal/watch"
)

// Source names a configuration and holds the settings that decide whether the configuration applies.
type Source struct {
	config.Source
	// Workspace is the working directory of sessions without a directory of their own. The path contains no symbolic
	// links.
	Workspace string
	// ReadOnly makes the workspace read-only.
	ReadOnly bool
	// StateDir is the state directory with the trust store. Empty means the state directory in the operator's
	// configuration.
	StateDir string
	// Digests are the digests of configurations that are trusted for this run.
	Digests []string
	// Require makes Open fail if the project file needs trust and is not trusted.
	Require bool
}

// Open reads the configuration that applies. If the files are readable but wrong, the error is a [*config.Error].
func (s Source) Open() (*config.Config, error) {
	cfg, err := s.open()
	if err == nil && s.ReadOnly {
		cfg.Sandbox.Workspace, cfg.Sandbox.Narrowed = "read-only", false
	}
	return cfg, err
}

func (s Source) open() (*config.Config, error) {
	if s.Empty || s.Path == "" {
		cfg, err := s.Load()
		if err != nil || s.Empty {
			return cfg, err
		}
		return s.keepLost(cfg, cfg)
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
	content, err := s.checkPrograms(cfg)
	if err != nil {
		return nil, err
	}
	if user := config.FindUser(); user == "" || !samePath(user, s.Path) { // the user named this file
		return cfg, s.protectContent(cfg, content)
	}
	_, base, err := s.base()
	if err != nil {
		return nil, err
	}
	return s.keepLost(cfg, base)
}

// keepLost applies the restrictions of trusted project files that no longer exist. The parameter "base" is the
// configuration that names the state directory.
func (s Source) keepLost(cfg, base *config.Config) (*config.Config, error) {
	decisions, err := s.decisions(base)
	if err != nil {
		return nil, err
	}
	for _, d := range s.lost(decisions) {
		why := d.Config + " was trusted and no longer exists"
		cfg.Untrusted = fmt.Sprintf("%s: only its restrictions apply. Restore it, or give it up: toolhost trust revoke %s", why, filepath.Dir(d.Config))
		if s.Require || cfg.Trust.Refuse {
			return nil, errors.New(cfg.Untrusted)
		}
		if err := keepRestrictions(d, why, cfg); err != nil {
			return nil, err
		}
	}
	return cfg, s.protect(cfg)
}

// checkPrograms turns off the blocks of the operator's configuration whose programs tools can change. It returns the
// content of the configuration.
func (s Source) checkPrograms(cfg *config.Config) (*trust.Content, error) {
	content, err := s.content(cfg)
	if err != nil || len(content.Programs) == 0 {
		return content, err
	}
	if slices.Contains(s.Digests, content.Digest()) {
		s.acceptDigest(cfg, content)
		return s.content(cfg) // the configuration now names copies of the programs
	}
	var decision *trust.Decision
	decisions, _, err := s.base()
	if err != nil {
		return nil, err
	}
	if decision, err = decisions.Of(content.Config); decision == nil {
		decision = new(trust.Decision)
	}
	s.admit(cfg, content, decision.Programs, err)
	return s.content(cfg)
}

// acceptDigest trusts a configuration for this run because --trust contains its digest.
func (s Source) acceptDigest(cfg *config.Config, content *trust.Content) {
	cfg.Trusted = maps.Clone(content.Files)
	maps.Copy(cfg.Trusted, content.Programs)
	s.admit(cfg, content, content.Programs, nil)
}

// IsProject reports whether the configuration file is in the workspace, was found in the current directory, or is named
// by a relative path below the current directory. Such a path leads to another file in each clone.
func (s Source) IsProject() bool {
	abs, err := filepath.Abs(s.Path)
	if err != nil {
		return true
	}
	return s.discovered() || s.local(abs) || within([]string{s.Workspace}, abs)
}

// local reports whether the configuration is the current directory, or is named by a relative path below
// the current directory.
func (s Source) local(abs string) bool {
	cwd, err := os.Getwd()
	return err != nil || abs == cwd || filepath.IsLocal(s.Path)
}

// discovered reports whether the configuration file was found in the current directory and not named by
// the user.
func (s Source) discovered() bool {
	abs, err := filepath.Abs(s.Path)
	if err != nil {
		return true
	}
	cwd, err := os.Getwd()
	return err != nil || filepath.Dir(abs) == cwd && slices.Contains(config.ProjectFiles, filepath.Base(abs))
}

// invalid returns the error in an untrusted configuration file. It loads the file without the environment,
// because the error could show the values of variables. If the file reads the environment, the method returns nil.
func (s Source) invalid(n *config.Narrowing) error {
	if s.discovered() { // the user did not name this file, so it is not evaluated
		return n.Syntax
	}
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

// within reports whether a path is in one of the directories. It also returns true for a path through a
// symbolic link in one of the directories, because a program that can change the link chooses the target.
func within(dirs []string, path string) bool {
	paths := append(watch.Places(path), path)
	for _, dir := range dirs {
		if slices.ContainsFunc(paths, func(p string) bool { return tool.Within(dir, p) }) {
			return true
		}
	}
	return false
}

// exposed returns the directories whose files come from a cloned repository or can be changed by tools: the
// workspace, the writable roots, the paths that a plugin can write, and the private directories of plugins.
func (s Source) exposed(cfg *config.Config) []string {
	out := []string{s.Workspace}
	for _, r := range roots.Configured(cfg, s.Workspace) {
		if r.Writable && r.Path != s.Workspace {
			out = append(out, r.Path)
		}
	}
	for i := range cfg.Plugins {
		out = append(out, cfg.Plugins[i].Confinement.Write...)
	}
	if dir, err := state.FindDir(s.StateDir, cfg.Host.StateDir); err == nil {
		home := state.Home{Root: dir}
		out = append(out, home.Plugins(), home.Principals())
	}
	return out
}

// writableFile returns the path of a configuration file that tools can write. It returns "" if no such file exists.
func (s Source) writableFile(cfg *config.Config) string {
	dirs := s.exposed(cfg)
	for path := range cfg.Texts() {
		if writable(dirs, path) {
			return path
		}
	}
	return ""
}

// openProject returns the project's configuration if a person trusts it. Otherwise it returns the operator's
// configuration with the restrictions in the project file.
func (s Source) openProject() (*config.Config, error) {
	decisions, base, err := s.base()
	if err != nil {
		return nil, err
	}
	cfg, why := s.trusted(decisions)
	if cfg != nil {
		return cfg, s.protect(cfg)
	}
	operator := s
	if operator.Path = base.Path; base.Path != "" {
		if _, err := operator.checkPrograms(base); err != nil {
			return nil, err
		}
	}
	narrowing := config.ReadNarrowing(s.Path)
	narrowing.Apply(base)
	kept, err := s.keepAll(decisions, s.explain(why, nil), base)
	if err != nil {
		return nil, err
	}
	if narrowing.Complete && errors.Is(why, errNoDecision) {
		why = errHides
	}
	if !narrowing.Complete || kept {
		base.Invalid = s.invalid(narrowing)
		if base.Invalid != nil && !s.discovered() { // the user named this file explicitly
			return nil, base.Invalid
		}
		base.Untrusted = fmt.Sprintf("%s: %s. %s", s.explain(why, base.Invalid), s.instead(base, narrowing, kept),
			howToReview)
		if s.Require || base.Trust.Refuse {
			return nil, fmt.Errorf("%s. %s", s.explain(why, base.Invalid), howToReview)
		}
	}
	return base, s.protect(base)
}

const howToReview = "Review it: toolhost trust"

// explain returns the reason why the project file does not apply.
func (s Source) explain(why, invalid error) string {
	if invalid == nil {
		return fmt.Sprintf("%s is not trusted, because %v", s.Path, why)
	}
	line, _, _ := strings.Cut(invalid.Error(), "\n")
	return fmt.Sprintf("%s is invalid (%s)", s.Path, strings.TrimRight(line, ":."))
}

// instead returns a text about the configuration that replaces an untrusted project file.
func (s Source) instead(base *config.Config, n *config.Narrowing, kept bool) string {
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
	if kept {
		used += ", and the restrictions that were trusted stay"
	}
	return used
}

// operator returns the source of the configuration that applies without the project file.
func (s Source) operator() Source {
	out := s
	out.Path = config.FindUser()
	if out.Path != "" && (out.IsProject() || filepath.Clean(out.Path) == filepath.Clean(s.Path)) {
		out.Path = ""
	}
	// Drop the values from the command line, because only the project file declares their variables.
	out.Variables, out.VariableFiles = nil, nil
	return out
}

// base returns the trust store and the configuration that applies without the project file.
func (s Source) base() (*trust.Decisions, *config.Config, error) {
	operator := s.operator()
	base, err := operator.Load()
	if err == nil && operator.Path != "" && operator.writableFile(base) != "" { // tools can write the user's file, too
		operator.Path = ""
		base, err = operator.Load()
	}
	if err != nil {
		return nil, nil, err
	}
	decisions, err := s.decisions(base)
	return decisions, base, err
}

// decisions returns the trust store. The parameter "base" is the configuration that applies without the
// project file.
func (s Source) decisions(base *config.Config) (*trust.Decisions, error) {
	dir, err := state.FindDir(s.StateDir, base.Host.StateDir)
	if err != nil {
		return nil, err
	}
	decisions := trust.OpenDecisions(dir)
	if within(s.exposed(base), dir) { // a repository can contain a forged store, and a tool can write one
		decisions.Distrust(fmt.Errorf("the state directory %s is in a directory that tools can write, so its content is not trusted. Name another directory with --state", dir))
	}
	return decisions, nil
}

func samePath(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

var (
	errNoDecision = errors.New("it does more than restrict tools")
	errHides      = errors.New("it hides another project file, which was trusted")
	errNotListed  = errors.New("its content does not have the digest given with --trust")
)

// trusted returns the project's configuration. If the configuration is not trusted, the error is the
// reason. The method does not evaluate the file if nobody ever trusted a configuration at this path.
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
		s.acceptDigest(cfg, content)
		return cfg, nil
	case decision == nil:
		return nil, fmt.Errorf("%w; its digest is %s", errNotListed, content.Digest())
	}
	files := trust.Content{Files: decision.Files}
	if changed := files.Differences(&trust.Content{Files: content.Files}); len(changed) > 0 {
		return nil, changedSince(changed, decision)
	}
	s.admit(cfg, content, decision.Programs, nil) // a changed program turns off only its block
	return cfg, nil
}

func changedSince(paths []string, d *trust.Decision) error {
	return fmt.Errorf("%s changed since it was trusted at %s", strings.Join(paths, ", "),
		d.At.Local().Format("2006-01-02 15:04"))
}

// changedFiles returns the trusted files that now have different content. It does not evaluate the files.
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

// canonical resolves the symbolic links in the directory of a configuration's path. It does not resolve a
// link at the file itself, because a change of this link must end the trust.
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

// hostPrograms lists the programs of the host. Their directory contains the directory of the bundled plugins.
var hostPrograms = []string{"toolhost", "toolhost-sandbox", "toolhost-shim"}

// protect adds the configuration files and the programs in them to the files that tools must not change.
func (s Source) protect(cfg *config.Config) error {
	content, err := s.content(cfg)
	if err != nil {
		return err
	}
	return s.protectContent(cfg, content)
}

// protectContent is like protect for a configuration with a known content.
func (s Source) protectContent(cfg *config.Config, content *trust.Content) error {
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
	if s.Path != "" && s.Path != cfg.Path { // protect the unused project file, too
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
