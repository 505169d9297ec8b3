package host

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/trust"
)

// pins are what the plugins of a configuration are pinned to. The lock file is read at
// each use, so that a host that runs knows of new pins.
type pins struct {
	host *Host
	// lock is the path of the lock file.
	lock string
	// off: the operator is about to pin what is there.
	off bool
}

func newPins(h *Host, source string) (*pins, error) {
	path, err := trust.PathFor(source)
	if err != nil && source == "" {
		return &pins{host: h, off: true}, nil // without such a directory nothing can be pinned
	}
	p := &pins{host: h, lock: path, off: h.opts.ignorePins}
	if err == nil && !p.off {
		_, err = trust.Read(path)
	}
	return p, err
}

// of gives a plugin's pin; ok is false when it has none.
func (p *pins) of(plugin string) (pin trust.Pin, ok bool, err error) {
	if p.off {
		return pin, false, nil
	}
	lock, err := trust.Read(p.lock)
	if err != nil {
		return pin, false, err
	}
	pin, ok = lock.Plugins[plugin]
	return pin, ok, nil
}

// check says why a plugin's binary must not be run; nil: nothing is against it.
func (p *pins) check(plugin, path string) error {
	pin, ok, err := p.of(plugin)
	if !ok || err != nil {
		return err
	}
	sum, err := p.host.state.BinaryHash(path)
	if err != nil {
		return fmt.Errorf("its binary cannot be compared with what it is pinned to: %w", err)
	}
	if is := hex.EncodeToString(sum[:]); is != pin.SHA256 {
		return p.explain(plugin, &trust.MismatchError{Path: path, Is: is, Pinned: pin.SHA256})
	}
	return nil
}

// executable is the supervisor's Executable: a pinned plugin runs from a copy whose bytes
// are the pinned ones.
func (p *pins) executable(plugin, path string) (string, error) {
	pin, ok, err := p.of(plugin)
	if err != nil {
		return "", err
	}
	if !ok {
		return path, nil
	}
	store, err := p.store()
	if err != nil {
		return "", err
	}
	copied, err := store.Executable(path, pin.SHA256)
	if err != nil {
		return "", p.explain(plugin, err)
	}
	return copied, nil
}

func (p *pins) store() (*trust.Store, error) {
	dir := p.host.stateRoot
	if dir == "" {
		var err error
		if dir, err = p.host.super.RuntimeDir(); err != nil {
			return nil, err
		}
	}
	return &trust.Store{Dir: filepath.Join(dir, "pinned"), Hash: p.host.state.BinaryHash}, nil
}

func (p *pins) explain(plugin string, err error) error {
	var m *trust.MismatchError
	if !errors.As(err, &m) {
		return err
	}
	return fmt.Errorf("its binary is not the one that it is pinned to in %s: %w. If the change is wanted, pin it anew: toolhost plugin pin %s", p.lock, m, plugin)
}

// accept is the supervisor's Accept: it says what a plugin says of its tools other than
// what is pinned.
func (p *pins) accept(plugin string, desc *tool.Description) error {
	pin, ok, err := p.of(plugin)
	if !ok || err != nil {
		return err
	}
	changes := pin.Changes(desc.Tools)
	if len(changes) == 0 {
		return nil
	}
	return fmt.Errorf("what it says of its tools is not what is pinned in %s: %s. Look at them (toolhost plugin info %s); if the change is wanted, pin it anew: toolhost plugin pin --accept-changes %s",
		p.lock, strings.Join(changes, "; "), plugin, plugin)
}

// PluginTrust is a plugin, and what it is pinned to.
type PluginTrust struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// SHA256 of the binary; empty: it cannot be read.
	SHA256  string `json:"sha256"`
	Version string `json:"version"`
	Pinned  bool   `json:"pinned"`
	// PinnedSHA256 is what it is pinned to.
	PinnedSHA256 string `json:"pinned_sha256,omitempty"`
	// Changes say how its tools differ from what is pinned.
	Changes []string `json:"changes,omitempty"`
	// Unapproved say how the tools of a plugin that is not pinned differ from what the operator
	// saw at first, or approved since, and UnapprovedSince when that was first told.
	Unapproved      []ToolChange `json:"unapproved,omitempty"`
	UnapprovedSince time.Time    `json:"unapproved_since,omitzero"`
	Grants
	// Error is why the plugin cannot be loaded.
	Error string `json:"error,omitempty"`
	Tools []Tool `json:"tools"`
}

// OK reports whether the plugin is as it is pinned, or not pinned.
func (t *PluginTrust) OK() bool {
	return t.Error == "" && (!t.Pinned || t.SHA256 == t.PinnedSHA256 && len(t.Changes) == 0)
}

// Trust is what the plugins of a configuration are pinned to.
type Trust struct {
	// Lock is the path of the lock file.
	Lock    string        `json:"lock"`
	Plugins []PluginTrust `json:"plugins"`

	lock *trust.Lock
}

// InspectTrust compares the plugins of a configuration with its lock file. Plugins that
// were never described are started for it.
func InspectTrust(ctx context.Context, opts Options) (*Trust, error) {
	out, h, err := inspectTrust(ctx, opts)
	if err != nil {
		return nil, err
	}
	return out, h.Close()
}

func inspectTrust(ctx context.Context, opts Options) (*Trust, *Host, error) {
	opts.ignorePins = true // to see them as they are
	h, err := New(ctx, opts)
	if err != nil {
		return nil, nil, err
	}
	if h.pins.lock == "" {
		return nil, nil, errors.Join(errors.New("there is no place for a lock file: neither $XDG_CONFIG_HOME nor $HOME is set"), h.Close())
	}
	out := &Trust{Lock: h.pins.lock, Plugins: []PluginTrust{}}
	if out.lock, err = trust.Read(out.Lock); err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	for _, p := range h.current.Load().cfg.Plugins {
		out.Plugins = append(out.Plugins, h.inspectPlugin(p, out.lock))
	}
	return out, h, nil
}

// description is what a plugin that could be loaded says of itself; nil: there is none.
func (h *Host) description(plugin string) *tool.Description {
	m := h.current.Load().member(plugin)
	if m == nil || m.err != nil {
		return nil
	}
	return m.desc.Load()
}

func (h *Host) inspectPlugin(p config.Plugin, lock *trust.Lock) PluginTrust {
	var needs *tool.Needs
	if m := h.current.Load().member(p.Name); m != nil {
		if d := m.desc.Load(); d != nil {
			needs = d.Needs
		}
	}
	t := PluginTrust{Name: p.Name, Path: p.Path, Grants: grants(&p, needs), Error: h.current.Load().unloaded[p.Name], Tools: []Tool{}}
	if sum, err := h.state.BinaryHash(p.Path); err == nil {
		t.SHA256 = hex.EncodeToString(sum[:])
	} else if t.Error == "" {
		t.Error = err.Error()
	}
	var defs []tool.Definition
	for _, e := range h.current.Load().registry.All() {
		if e.Plugin == p.Name {
			defs = append(defs, e.Definition)
			t.Tools = append(t.Tools, describe(e))
		}
	}
	if desc := h.description(p.Name); desc != nil {
		t.Version, defs = desc.Version, desc.Tools // also those that could not be registered
	}
	if pin, ok := lock.Plugins[p.Name]; ok {
		t.Pinned, t.PinnedSHA256 = true, pin.SHA256
		if t.Error == "" {
			t.Changes = pin.Changes(defs)
		}
	} else if t.Error == "" {
		if w := h.current.Load().watchedPlugin(p.Name); w != nil {
			t.Unapproved, t.UnapprovedSince = w.changes, w.since
		}
	}
	return t
}

// PinPlugins pins plugins of a configuration to what they are now: those that are named,
// or all. One whose tools differ from what is pinned is pinned only if accept is true;
// otherwise nothing is written, and the error says what changed.
func PinPlugins(ctx context.Context, opts Options, names []string, accept bool) (*Trust, error) {
	t, h, err := inspectTrust(ctx, opts)
	if err != nil {
		return nil, err
	}
	return t, errors.Join(t.pin(h, names, accept), h.Close())
}

func (t *Trust) pin(h *Host, names []string, accept bool) error {
	var known []string
	for _, p := range t.Plugins {
		known = append(known, p.Name)
	}
	var errs []error
	for _, n := range names {
		if !slices.Contains(known, n) {
			errs = append(errs, fmt.Errorf("there is no plugin %q.%s", n, suggest.DidYouMean(n, known)))
		}
	}
	var old []string
	for i := range t.Plugins {
		p := &t.Plugins[i]
		switch {
		case len(names) > 0 && !slices.Contains(names, p.Name):
			continue
		case p.Error != "":
			errs = append(errs, fmt.Errorf("plugin %s cannot be pinned: %s", p.Name, p.Error))
			continue
		case len(p.Changes) > 0 && !accept:
			errs = append(errs, fmt.Errorf("plugin %s says other things of its tools than what is pinned: %s. Look at them (toolhost plugin info %s), and accept them with --accept-changes", p.Name, strings.Join(p.Changes, "; "), p.Name))
			continue
		}
		desc := h.description(p.Name)
		if p.Pinned && p.PinnedSHA256 != p.SHA256 {
			old = append(old, p.PinnedSHA256)
		}
		t.lock.Plugins[p.Name] = trust.Pin{Path: p.Path, SHA256: p.SHA256, Version: desc.Version, Tools: trust.Definitions(desc.Tools)}
		p.Pinned, p.PinnedSHA256, p.Changes = true, p.SHA256, nil
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// What was configured once and is no longer needs no pin.
	if len(names) == 0 {
		for name := range t.lock.Plugins {
			if !slices.Contains(known, name) && !slices.Contains(h.current.Load().cfg.LeftOut, name) {
				delete(t.lock.Plugins, name)
			}
		}
	}
	if err := t.lock.Write(t.Lock); err != nil {
		return err
	}
	store, err := h.pins.store()
	for _, sum := range old {
		if err == nil {
			err = store.Forget(sum)
		}
	}
	return err
}
