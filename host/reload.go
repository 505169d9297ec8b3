package host

import (
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
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/state"
)

// ReloadOptions say what is reloaded; the zero value: the configuration if it changed, and
// every plugin whose binary did.
type ReloadOptions struct {
	// Plugins are replaced whether their binary changed or not, and no others.
	Plugins []string
	// AcceptChanges publishes versions that lack tools or parameters of the ones before, or
	// are called differently. Otherwise such a version is refused, unless the configuration
	// says reload { changes = "any" }.
	AcceptChanges bool
	// ApproveWidening takes over a configuration that lets tools do more than the one in use, where
	// the one in use wants that: reload { widening = "approve" }.
	ApproveWidening bool

	// dry: nothing is published, and nothing remembered.
	dry bool
	// automatic: nobody asked, so what was refused before is not tried again.
	automatic bool
}

// Reload is what became of a reload.
type Reload struct {
	// Config says what became of the configuration.
	Config ConfigReload `json:"config"`
	// Plugins that were replaced or refused, in the order of the configuration.
	Plugins []PluginReload `json:"plugins"`
	// Problems are what keeps a part of what is used now from working.
	Problems []string `json:"problems,omitempty"`
}

// ConfigReload is what became of the configuration.
type ConfigReload struct {
	// Changed: another one is used now.
	Changed bool `json:"changed"`
	// Refused says why the one that is there is not used, with file and line; empty: it is.
	Refused string `json:"refused,omitempty"`
}

// PluginReload is what became of one plugin.
type PluginReload struct {
	Name string `json:"name"`
	// Outcome is "swapped", "added", "removed" or "refused".
	Outcome string `json:"outcome"`
	// From and To are versions as the plugin says them; empty: not known, or none.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Changes of the tools' definitions.
	Changes []ToolChange `json:"changes,omitempty"`
	// Draining counts the calls that end on the old version.
	Draining int64 `json:"draining,omitempty"`
	// Refused says why the old version goes on, and what to do.
	Refused string `json:"refused,omitempty"`
}

// The outcomes of a plugin's reload.
const (
	Swapped = "swapped"
	Added   = "added"
	Removed = "removed"
	Refused = "refused"
)

// ToolChange is a difference between two definitions of a tool.
type ToolChange = registry.Change

// Refused reports whether anything was.
func (r *Reload) Refused() bool {
	return r.Config.Refused != "" || slices.ContainsFunc(r.Plugins, func(p PluginReload) bool { return p.Outcome == Refused })
}

// maxSupersessions bounds how often a reload begins anew because of what changes under it.
const maxSupersessions = 100

// busyPause is how long a reload waits for who writes to a binary.
const busyPause = 100 * time.Millisecond

// Reload takes over what changed: the configuration, and binaries of plugins. A new version is
// started beside the old and checked: handshake, description, configuration, health. Then
// all of it is published in one moment; calls that have begun end on the version that they
// began with. What fails any check is refused and leaves the old version serving; of the
// configuration, a part that fails leaves all of the old one in use.
//
// When something changes during a reload, the newest is what gets published. Reloads wait for
// each other. The error says that nothing was tried: a plugin is not known, ctx ended, or
// the host is closed.
func (h *Host) Reload(ctx context.Context, opts ReloadOptions) (*Reload, error) {
	h.reloads.one.Lock()
	defer h.reloads.one.Unlock()
	for n := 0; ; n++ {
		out, err := h.attemptReload(ctx, opts)
		if !errors.Is(err, errSuperseded) {
			return out, err
		}
		if n == maxSupersessions {
			return nil, errors.New("nothing was reloaded: binaries or the configuration change all the time")
		}
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (h *Host) attemptReload(ctx context.Context, opts ReloadOptions) (*Reload, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !h.reloads.begin(cancel, h.onDisk(h.current.Load().cfg)) {
		return nil, errClosing
	}
	defer h.reloads.end()
	r := &reload{host: h, opts: opts, old: h.current.Load(), out: &Reload{Plugins: []PluginReload{}}}
	for _, name := range opts.Plugins {
		if r.old.member(name) == nil {
			return nil, fmt.Errorf("there is no plugin %q: toolhost status lists them", name)
		}
	}
	r.readConfig()
	r.plan()
	r.try(ctx)
	if err := r.settled(ctx); err != nil {
		for _, s := range r.steps {
			s.discard()
		}
		return nil, err
	}
	r.publish()
	return r.out, nil
}

// reload is one attempt to go from a generation to the next.
type reload struct {
	host *Host
	opts ReloadOptions
	old  *generation
	out  *Reload

	cfg   *config.Config // the old one's, when that stays
	wider []string       // what the new one lets tools do that the old one does not

	conf  *confinement
	steps []*step // for each plugin that is in either configuration
}

// step is what becomes of one plugin.
type step struct {
	name string
	// old and next are nil where there is none. They are the same when nothing changes.
	old, next *member
	// configured: something in the configuration is different, not only the binary.
	configured bool
	file       string // which binary was tried
	err        error
	changes    []ToolChange
}

// discard gives up what was started for the step.
func (s *step) discard() {
	if s.next != nil && s.next != s.old {
		s.next.plugin.Discard()
	}
	s.next = s.old
}

// readConfig finds out whether there is another configuration. A file with an error in it
// leaves the old one in use.
func (r *reload) readConfig() {
	h := r.host
	r.cfg, r.conf = r.old.cfg, r.old.confinement
	if len(r.opts.Plugins) > 0 {
		return
	}
	cfg, err := h.opts.readConfig()
	if err != nil {
		r.refuseConfig(nil, err)
		return
	}
	if cfg.Blank() && !r.old.cfg.Blank() {
		r.refuseConfig(cfg, fmt.Errorf("%s is empty: it is being written, or the disk was full", h.opts.Config))
		return
	}
	cfg.Keep(r.old.cfg)
	wider := widenings(r.old.cfg, cfg, h.managed.unregistered())
	h.managed.amend(cfg)
	h.reloads.mu.Lock()
	refusedBefore := h.reloads.config != "" && h.reloads.refusedAs != nil && h.reloads.refusedAs.Same(cfg)
	h.reloads.mu.Unlock()
	if r.opts.automatic && refusedBefore {
		return
	}
	if cfg.Same(r.old.cfg) {
		r.acceptConfig()
		return
	}
	r.wider = wider
	if len(wider) > 0 && !r.approved() && !r.opts.dry {
		how := "toolhost config reload"
		if r.old.cfg.Reload.Widening == "approve" {
			how += " --approve-widening"
		}
		r.refuseConfig(cfg, fmt.Errorf("it lets tools do more than the one in use: %s. If that is wanted: %s", strings.Join(wider, "; "), how))
		return
	}
	conf := &confinement{cfg: cfg, bundled: h.opts.BundledDir, cache: h.stateRoot}
	if err := conf.check(configuredRoots(cfg, h.opts.Workspace)); err != nil {
		r.refuseConfig(cfg, err)
		return
	}
	r.cfg, r.conf = cfg, conf
}

// approved reports whether what lets tools do more may be taken over, as the configuration in
// use says: the new one has no say in it.
func (r *reload) approved() bool {
	switch r.old.cfg.Reload.Widening {
	case "allow":
		return true
	case "approve":
		return r.opts.ApproveWidening
	}
	return !r.opts.automatic
}

func (r *reload) refuseConfig(cfg *config.Config, err error) {
	r.out.Config.Refused = err.Error()
	if r.opts.dry {
		return
	}
	m := &r.host.reloads
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.config != err.Error() {
		r.host.log.Warn("the configuration is refused, and the one before it stays in use", "why", err)
	}
	m.config, m.refusedAs = err.Error(), cfg
}

func (r *reload) acceptConfig() {
	if r.opts.dry {
		return
	}
	m := &r.host.reloads
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config, m.refusedAs = "", nil
}

// plan finds out what there is to do.
func (r *reload) plan() {
	h := r.host
	for i := range r.cfg.Plugins {
		p := &r.cfg.Plugins[i]
		s := &step{name: p.Name, old: r.old.member(p.Name)}
		r.steps = append(r.steps, s)
		s.configured = r.cfg != r.old.cfg && !r.cfg.SameProcess(r.old.cfg, p.Name)
		if !s.configured && !r.wanted(s) {
			s.next = s.old
			continue
		}
		b := binaryOf(h.state, p)
		if !s.configured && len(r.opts.Plugins) == 0 && b.keyed && b.key == s.old.binary.key && s.old.err == nil {
			s.next = s.old // the same bytes in another file
			h.reloads.forgive(s.name)
			continue
		}
		s.next = h.newMember(*p, r.cfg, r.conf, r.peer, r.acceptance(s))
		s.next.binary, s.file = b, b.file
	}
	for _, m := range r.old.members {
		if r.cfg.Plugin(m.Name) == nil {
			r.steps = append(r.steps, &step{name: m.Name, old: m, configured: true})
		}
	}
}

// peer finds a plugin as it will be when all that is tried succeeds.
func (r *reload) peer(name string) *member {
	for _, s := range r.steps {
		if s.name == name {
			return s.next
		}
	}
	return nil
}

// wanted reports whether a plugin's binary is to be looked at.
func (r *reload) wanted(s *step) bool {
	if len(r.opts.Plugins) > 0 {
		return slices.Contains(r.opts.Plugins, s.name)
	}
	file := state.FileIdentity(s.old.Path)
	m := &r.host.reloads
	m.mu.Lock()
	defer m.mu.Unlock()
	refused, was := m.plugins[s.name]
	switch {
	case s.old.err != nil && !r.opts.automatic: // what kept it from working may be gone
		return true
	case file == s.old.binary.file:
		delete(m.plugins, s.name) // what serves was put back
		return false
	case was && refused.file == file:
		return !r.opts.automatic
	}
	return true
}

// acceptance compares what a new version says of itself with what its tools are known as.
func (r *reload) acceptance(s *step) func(*tool.Description) error {
	if s.old == nil || s.old.err != nil || r.opts.AcceptChanges {
		return nil
	}
	return func(d *tool.Description) error { return breaks(r.cfg, s.name, s.old.desc.Load(), d) }
}

// breaks says how a version breaks who uses the tools of the one before; nil: it does not, or may.
func breaks(cfg *config.Config, plugin string, known, now *tool.Description) error {
	if known == nil || cfg.Reload.AnyChanges {
		return nil
	}
	var how []string
	for _, c := range registry.Compare(known.Tools, now.Tools) {
		if c.Breaks {
			how = append(how, c.String())
		}
	}
	if len(how) == 0 {
		return nil
	}
	return fmt.Errorf("version %s of it breaks who uses its tools (%s). Keep the definitions compatible, or take it as it is: toolhost plugin reload %s --accept-changes",
		now.Version, strings.Join(how, "; "), plugin)
}

// try starts and checks the new versions, side by side.
func (r *reload) try(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range r.steps {
		if s.next != nil && s.next != s.old {
			wg.Go(func() { s.err = r.tryOne(ctx, s) })
		}
	}
	wg.Wait()
	for _, s := range r.steps {
		if s.err == nil && s.next != nil && s.next != s.old && s.old != nil && s.old.err == nil {
			s.changes = registry.Compare(s.old.desc.Load().Tools, s.next.desc.Load().Tools)
		}
	}
}

func (r *reload) tryOne(ctx context.Context, s *step) error {
	h, m := r.host, s.next
	if m.Missing == "" && m.binary.file == "" {
		m.Missing = fmt.Sprintf("there is no file %s: build or install the plugin, or correct its path", m.Path)
	}
	if m.Missing != "" && m.binary.file == "" {
		return errors.New(m.Missing)
	}
	m.Missing = ""
	if err := h.pins.check(m.Name, m.Path); err != nil {
		return err
	}
	// What does not run now is not started to be replaced, when all is known of it.
	if m.binary.keyed && len(r.opts.Plugins) == 0 && (s.old == nil || !s.old.plugin.Status().Running) {
		if desc, by, err := h.state.Description(m.binary.key); err == nil && desc != nil {
			m.checked = by == Version
			m.desc.Store(desc)
			if err := h.pins.accept(m.Name, desc); err != nil {
				return err
			}
			if err := lacks(&m.Plugin, desc.Needs); err != nil {
				return err
			}
			if accept := r.acceptance(s); accept != nil {
				err = accept(desc)
			}
			return errors.Join(err, r.unapproved(s))
		}
	}
	if err := errors.Join(h.ask(ctx, m), r.unapproved(s)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	health, ok := m.plugin.Health(ctx, "")
	switch {
	case !ok:
		return fmt.Errorf("plugin %s ended right after its start", m.Name)
	case health.Status != tool.Healthy:
		return fmt.Errorf("plugin %s says that it is %s: %s", m.Name, health.Status, health.Message)
	}
	return nil
}

// settled reports whether what was tried is what is there now.
func (r *reload) settled(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, s := range r.steps {
		if s.next != nil && s.next != s.old && (errors.Is(s.err, syscall.ETXTBSY) || state.FileIdentity(s.next.Path) != s.next.binary.file) {
			return errSuperseded
		}
	}
	return nil
}
