package reload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state/records"
)

// healthTimeout is the time within which a new version must report its health.
const healthTimeout = 2 * time.Second

// attempt is one attempt to replace the current generation. The caller must call the methods in the order readConfig,
// prepare, try, checkSuperseded, publish.
type attempt struct {
	reloader *Reloader
	builder  *generation.Builder
	opts     Options
	old      *generation.Generation
	report   *Report

	cfg       *config.Config // equal to old.Config if the configuration did not change
	increases []string       // additional privileges in cfg
	narrowed  bool           // whether cfg is the old configuration without the rights that a refused one takes away
	launcher  *confinement.Launcher
	steps     []*step // one step for each plugin of both configurations
}

// step describes the change of one plugin.
type step struct {
	name string
	// The fields "old" and "next" contain the plugin in the old and in the next generation. A nil field means that the
	// generation does not contain the plugin. If the two fields are equal, the plugin does not change.
	old, next *generation.Plugin
	// configured reports whether the plugin's configuration changed. It is false if only the binary changed.
	configured bool
	// candidate is a new version that is taken into service step by step, while the version "old" serves. It is nil for
	// all other steps.
	candidate *generation.Plugin
	file      string // identity of the new binary
	err       error
	changes   []registry.Change
}

func newAttempt(r *Reloader, opts Options) *attempt {
	old := r.Current()
	return &attempt{
		reloader: r, builder: r.Builder, opts: opts, old: old, report: &Report{Plugins: []PluginReport{}},
		cfg: old.Config, launcher: old.Launcher,
	}
}

// discard stops the new version and keeps the old version.
func (s *step) discard() {
	if s.candidate != nil {
		s.candidate.Process.Discard()
		s.candidate = nil
	}
	if s.next != nil && s.next != s.old {
		s.next.Process.Discard()
	}
	s.next = s.old
}

// tried reports whether the step starts a new version.
func (s *step) tried() bool { return s.next != nil && s.next != s.old }

func (a *attempt) discard() {
	for _, s := range a.steps {
		s.discard()
	}
}

// readConfig reads the configuration. If the new configuration is rejected, the attempt continues with the old
// configuration.
func (a *attempt) readConfig() {
	if len(a.opts.Plugins) > 0 {
		return
	}
	cfg, err := a.reloader.Source.Open()
	if err != nil {
		a.refuseConfig(nil, err)
		return
	}
	if cfg.Untrusted != "" && (a.opts.dry || a.old.Config.Path != cfg.Path) {
		err := cfg.Invalid
		if err == nil {
			err = errors.New(cfg.Untrusted)
		}
		a.refuseConfig(cfg, err)
		return
	}
	if cfg.Blank() && !a.old.Config.Blank() {
		a.refuseConfig(cfg, fmt.Errorf("the configuration %s is empty; it is being written, or the disk is full", a.reloader.Source.Path))
		return
	}
	cfg.Keep(a.old.Config)
	increases := privilege.Increases(a.old.Config, cfg, a.builder.Overrides.Removed())
	a.builder.Overrides.Apply(cfg)
	if a.opts.automatic && a.reloader.progress.wasRefused(cfg) {
		return
	}
	if cfg.Same(a.old.Config) {
		a.acceptConfig()
		return
	}
	a.increases = increases
	if len(increases) > 0 && !a.approved() && !a.opts.dry {
		how := "toolhost config reload"
		if a.old.Config.Reload.PrivilegeIncreases == "approve" {
			how += " --approve-privileges"
		}
		a.narrow(cfg, fmt.Errorf("the configuration increases privileges: %s. To apply it, run %s", strings.Join(increases, "; "), how))
		return
	}
	launcher, err := a.launcherFor(cfg)
	if err != nil {
		a.narrow(cfg, err)
		return
	}
	pins, err := a.reloader.OpenPins(cfg)
	if err == nil {
		err = pins.Problem()
	}
	if err != nil {
		a.narrow(cfg, err)
		return
	}
	a.builder.Trust(cfg, pins)
	a.cfg, a.launcher = cfg, launcher
}

// launcherFor returns the launcher of a configuration, unless tools could then write to files of the host.
func (a *attempt) launcherFor(cfg *config.Config) (*confinement.Launcher, error) {
	if check := a.reloader.CheckPlaces; check != nil {
		if err := check(cfg); err != nil {
			return nil, err
		}
	}
	return a.builder.Launcher(cfg)
}

// approved reports whether the attempt can apply a configuration that increases privileges. The decision
// depends only on the current configuration, so that the new configuration cannot approve itself.
func (a *attempt) approved() bool {
	switch a.old.Config.Reload.PrivilegeIncreases {
	case "allow":
		return true
	case "approve":
		return a.opts.ApprovePrivileges
	}
	return !a.opts.automatic
}

func (a *attempt) refuseConfig(cfg *config.Config, err error) {
	a.report.Config.Refused = err.Error()
	if a.opts.dry {
		return
	}
	if a.reloader.progress.refuseConfig(cfg, err.Error()) {
		a.reloader.Log.Warn("the configuration is refused; the previous one stays in use", "why", err)
	}
}

func (a *attempt) acceptConfig() {
	if !a.opts.dry {
		a.reloader.progress.acceptConfig()
	}
}

// prepare creates a step for each plugin.
func (a *attempt) prepare() {
	env := sync.OnceValue(func() *generation.Environment { return a.builder.Environment(a.cfg, a.launcher, a.peer) })
	for i := range a.cfg.Plugins {
		p := &a.cfg.Plugins[i]
		s := &step{name: p.Name, old: a.old.Plugin(p.Name)}
		a.steps = append(a.steps, s)
		admitted := s.old != nil && s.old.Refused != "" && p.Refused == ""
		s.configured = a.cfg != a.old.Config && (admitted || !a.cfg.SameProcess(a.old.Config, p.Name))
		if !s.configured && !a.wanted(s) {
			s.next = s.old
			continue
		}
		b := generation.BinaryOf(a.builder.State, p, p.Path)
		if !s.configured && len(a.opts.Plugins) == 0 && b.Keyed && b.Key == s.old.Binary.Key && s.old.Err == nil {
			s.next = s.old // the content of the file did not change
			a.restored(s)
			continue
		}
		s.next = a.builder.NewPlugin(*p, env(), a.acceptance(s))
		s.next.Binary, s.file = b, a.version(p.Path, a.cfg)
		if s.configured { // a change of settings alone must not start a binary whose rollout failed
			a.builder.Identify(a.cfg, a.launcher, s.next)
		}
	}
	for _, p := range a.old.Plugins {
		if a.cfg.Plugin(p.Name) == nil {
			a.steps = append(a.steps, &step{name: p.Name, old: p, configured: true})
		}
	}
}

// peer returns the plugin in the next generation, on the assumption that all steps succeed.
func (a *attempt) peer(name string) *generation.Plugin {
	for _, s := range a.steps {
		if s.name == name {
			return s.next
		}
	}
	return nil
}

// version returns a text that identifies a binary and the decision whether the binary can run. If a person
// trusts a rejected binary, the text changes, so that the host tries the binary again.
func (a *attempt) version(path string, cfg *config.Config) string {
	return a.reloader.version(path, cfg)
}

func (r *Reloader) version(path string, cfg *config.Config) string {
	return records.Identity(path) + " " + r.Builder.Pins(cfg).Trusted(path)
}

// wanted reports whether the attempt must check the binary of a plugin.
func (a *attempt) wanted(s *step) bool {
	if len(a.opts.Plugins) > 0 {
		return slices.Contains(a.opts.Plugins, s.name)
	}
	file, version := records.Identity(s.old.Path), a.version(s.old.Path, a.old.Config)
	if c := a.reloader.candidates[s.name]; c != nil && !a.opts.dry && c.plugin.Path == s.old.Path && c.file == version {
		return false // its rollout runs
	}
	refused, was := a.reloader.progress.refusedFile(s.name)
	switch {
	case s.old.Err != nil && !a.opts.automatic: // the user can have fixed the cause of the error
		return true
	case file == s.old.Binary.File: // the binary never changed, or the user restored it after a rejected change
		a.restored(s)
		return false
	case was && refused == version:
		return !a.opts.automatic
	}
	return true
}

// restored must be called if the binary on the disk is the one that serves calls. It ends the rollout of
// any other binary.
func (a *attempt) restored(s *step) {
	a.reloader.progress.forgive(s.name)
	if !a.opts.dry && (a.reloader.candidates[s.name] != nil || s.old.Held() != nil) {
		a.reloader.endRollout(s.name, "the old binary was restored")
		a.builder.Unhold(a.old.Config, s.old)
	}
}

// acceptance returns a function that compares the description of a new version with the old description. A
// nil function accepts every description.
func (a *attempt) acceptance(s *step) func(*tool.Description) error {
	if s.old == nil || s.old.Err != nil || a.opts.AcceptChanges {
		return nil
	}
	cfg, name, known := a.cfg, s.name, s.old.Description() // the plugin keeps the function, which must not keep the old plugin
	return func(d *tool.Description) error { return generation.Breaks(cfg, name, known, d) }
}

// try starts and checks all new versions concurrently.
func (a *attempt) try(ctx context.Context) {
	for _, s := range a.steps { // before the starts, because a plugin looks at those on which it depends
		if s.tried() {
			s.err = found(s.next)
		}
	}
	var wg sync.WaitGroup
	for _, s := range a.steps {
		if s.tried() && s.err == nil {
			wg.Go(func() { s.err = a.tryOne(ctx, s) })
		}
	}
	wg.Wait()
	for _, s := range a.steps {
		if s.err == nil && s.tried() && s.old != nil && s.old.Err == nil {
			s.changes = registry.Compare(s.old.Description().Tools, s.next.Description().Tools)
		}
	}
}

// found returns an error if the file of a new version does not exist.
func found(p *generation.Plugin) error {
	if p.Binary.File != "" {
		p.Missing = ""
		return nil
	}
	p.Missing = cmp.Or(p.Missing, fmt.Sprintf("the file %s does not exist; build or install the plugin, or correct its path", p.Path))
	return errors.New(p.Missing)
}

func (a *attempt) tryOne(ctx context.Context, s *step) error {
	p := s.next
	if err := a.builder.CheckBinary(a.cfg, a.launcher, p); err != nil {
		return err
	}
	// If the description is known, a plugin that is not running can be checked without a start.
	if len(a.opts.Plugins) == 0 && (s.old == nil || !s.old.Process.Status().Running) && a.builder.RecallDescription(p) {
		return a.checkRecalled(s)
	}
	if err := errors.Join(a.builder.Describe(ctx, p), a.checkApproval(s)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	health, ok := p.Process.Health(ctx, "")
	switch {
	case !ok:
		return fmt.Errorf("plugin %s exited right after the start", p.Name)
	case health.Status != tool.Healthy:
		return fmt.Errorf("plugin %s reports the health status %s: %s", p.Name, health.Status, health.Message)
	}
	return nil
}

// checkRecalled checks a new version without a start. It uses the saved description of the binary.
func (a *attempt) checkRecalled(s *step) error {
	p, desc := s.next, s.next.Description()
	if err := a.builder.Pins(a.cfg).CheckTools(p.Name, p.Path, desc); err != nil {
		return err
	}
	if err := privilege.MissingGrants(&p.Plugin, desc.Needs); err != nil {
		return err
	}
	var err error
	if accept := a.acceptance(s); accept != nil {
		err = accept(desc)
	}
	return errors.Join(err, a.checkApproval(s))
}

// checkApproval returns an error if the operator must first approve the definitions of a new version.
func (a *attempt) checkApproval(s *step) error {
	serves := s.old != nil && s.old.Err == nil
	if !a.cfg.Trust.Approve || !serves || s.next.Description() == nil {
		return nil
	}
	return a.builder.Approvals(a.cfg).CheckSwap(s.next.Subject(), s.old.Description(), s.next.Description())
}

// checkSuperseded returns an error if a binary on disk changed since the beginning of the attempt.
func (a *attempt) checkSuperseded(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, s := range a.steps {
		if s.tried() && (errors.Is(s.err, syscall.ETXTBSY) ||
			s.next.Held() == nil && records.Identity(s.next.Path) != s.next.Binary.File) {
			return errSuperseded
		}
	}
	return nil
}
