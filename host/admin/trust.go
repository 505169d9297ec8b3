package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/trust"
)

// PluginTrust compares a plugin with its pin.
type PluginTrust struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// SHA256 is the hash of the binary. It is empty if the binary cannot be read.
	SHA256  string `json:"sha256"`
	Version string `json:"version"`
	Pinned  bool   `json:"pinned"`
	// PinnedSHA256 is the pinned hash of the binary.
	PinnedSHA256 string `json:"pinned_sha256,omitempty"`
	// Changes describes the differences between the tool definitions and the pinned definitions.
	Changes []string `json:"changes,omitempty"`
	// Unapproved lists the differences between the tool definitions and the approved definitions. It is empty for a
	// pinned plugin. UnapprovedSince is the time of the operator's first notification about these differences.
	Unapproved      []host.ToolChange `json:"unapproved,omitempty"`
	UnapprovedSince time.Time         `json:"unapproved_since,omitzero"`
	Grants
	// Error is the reason why the plugin cannot be loaded.
	Error string      `json:"error,omitempty"`
	Tools []host.Tool `json:"tools"`
}

// OK reports whether the plugin can be loaded and matches its pin. A plugin without a pin always matches.
func (t *PluginTrust) OK() bool {
	return t.Error == "" && (!t.Pinned || t.SHA256 == t.PinnedSHA256 && len(t.Changes) == 0)
}

// Trust compares the plugins of a configuration with its lock file.
type Trust struct {
	// Lock is the path of the lock file.
	Lock    string        `json:"lock"`
	Plugins []PluginTrust `json:"plugins"`

	lock *trust.Lock
}

// InspectTrust compares the plugins of a configuration with its lock file. It starts plugins that have no saved
// description.
func InspectTrust(ctx context.Context, opts Options) (*Trust, error) {
	i, err := inspect(ctx, opts)
	if err != nil {
		return nil, err
	}
	return i.trust, i.engine.Close()
}

// inspection contains the result of an inspection and the running engine. The caller must close the engine.
type inspection struct {
	trust  *Trust
	engine *engine.Engine
}

// inspect starts an engine that ignores the pins. This engine also loads plugins that differ from their pins.
func inspect(ctx context.Context, opts Options) (*inspection, error) {
	e, err := engine.NewMode(ctx, engine.Options(opts), engine.Mode{IgnorePins: true})
	if err != nil {
		return nil, err
	}
	path := e.Reloader().Builder.Pins(nil).Path()
	if path == "" {
		return nil, errors.Join(errors.New("the directory of the lock file is not known: set $XDG_CONFIG_HOME or $HOME"), e.Close())
	}
	out := &Trust{Lock: path, Plugins: []PluginTrust{}}
	if out.lock, err = trust.Read(path); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	i := &inspection{trust: out, engine: e}
	for _, p := range e.Current().Config.Plugins {
		out.Plugins = append(out.Plugins, i.plugin(p))
	}
	return i, nil
}

// description returns the description that a plugin reported. It returns nil if the plugin was not loaded.
func (i *inspection) description(plugin string) *tool.Description {
	p := i.engine.Current().Plugin(plugin)
	if p == nil || p.Err != nil {
		return nil
	}
	return p.Description()
}

func (i *inspection) plugin(p config.Plugin) PluginTrust {
	g := i.engine.Current()
	t := PluginTrust{Name: p.Name, Path: p.Path, Grants: privilege.GrantsOf(&p, needs(g, p.Name)),
		Error: g.Unloaded[p.Name], Tools: []host.Tool{}}
	if sum, err := i.engine.State().BinaryHash(p.Path); err == nil {
		t.SHA256 = hex.EncodeToString(sum[:])
	} else if t.Error == "" {
		t.Error = err.Error()
	}
	var defs []tool.Definition
	for _, e := range g.Registry.All() {
		if e.Plugin == p.Name {
			defs = append(defs, e.Definition)
			t.Tools = append(t.Tools, engine.ToolOf(e))
		}
	}
	if desc := i.description(p.Name); desc != nil {
		t.Version, defs = desc.Version, desc.Defined() // also use tools that the host could not register
	}
	if pin, ok := i.trust.lock.Plugins[p.Name]; ok {
		t.Pinned, t.PinnedSHA256 = true, pin.Sum()
		if t.Error == "" {
			t.Changes = pin.Changes(defs)
		}
	} else if t.Error == "" {
		if r := g.Review(p.Name); r != nil {
			t.Unapproved, t.UnapprovedSince = r.Changes, r.Since
		}
	}
	return t
}

// needs returns the permissions that a plugin declares as needed. It returns nil if the plugin declares
// no permissions.
func needs(g *generation.Generation, plugin string) *tool.Needs {
	p := g.Plugin(plugin)
	if p == nil || p.Description() == nil {
		return nil
	}
	return p.Description().Needs
}

func (t *Trust) names() []string {
	var out []string
	for _, p := range t.Plugins {
		out = append(out, p.Name)
	}
	return out
}

// actorKey is the key of the name of the principal in a context.
type actorKey struct{}

// For returns a context with the name of a principal. The audit log then names this principal for actions of
// [PinPlugins] and [ApprovePlugins] with this context.
func For(ctx context.Context, principal string) context.Context {
	return context.WithValue(ctx, actorKey{}, principal)
}

func actor(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return name
}

// PinPlugins pins plugins to their current binaries and tool definitions. An empty list of names means all plugins. If
// accept is false and definitions differ from an existing pin, PinPlugins writes nothing and returns an error with the
// differences.
func PinPlugins(ctx context.Context, opts Options, names []string, accept bool) (*Trust, error) {
	i, err := inspect(ctx, opts)
	if err != nil {
		return nil, err
	}
	err = i.pin(names, accept)
	if err == nil {
		err = RenewContent(opts, i.trust.Lock)
		i.engine.Reloader().Audit(actor(ctx), "(pin)", map[string]any{"plugins": names, "lock": i.trust.Lock}, "")
	}
	return i.trust, errors.Join(err, i.engine.Close())
}

func (i *inspection) pin(names []string, accept bool) error {
	t, known := i.trust, i.trust.names()
	old, err := i.pinAll(names, accept)
	if err != nil {
		return err
	}
	if len(names) == 0 { // delete pins of plugins that the configuration does not contain
		for name := range t.lock.Plugins {
			if !slices.Contains(known, name) && !slices.Contains(i.engine.Current().Config.LeftOut, name) {
				delete(t.lock.Plugins, name)
			}
		}
	}
	if err := t.lock.Write(t.Lock); err != nil {
		return err
	}
	store, err := i.engine.Reloader().Builder.Pins(nil).Store()
	for _, sum := range old {
		if err == nil {
			err = store.Forget(sum)
		}
	}
	return err
}

// pinAll adds the pins of plugins to the lock. It returns the hashes that are no longer pinned. The error lists every
// plugin that cannot be pinned.
func (i *inspection) pinAll(names []string, accept bool) (old []string, err error) {
	t, known := i.trust, i.trust.names()
	var errs []error
	for _, n := range names {
		if !slices.Contains(known, n) {
			errs = append(errs, fmt.Errorf("there is no plugin %q.%s", n, suggest.DidYouMean(n, known)))
		}
	}
	for k := range t.Plugins {
		p := &t.Plugins[k]
		switch {
		case len(names) > 0 && !slices.Contains(names, p.Name):
			continue
		case p.Error != "":
			errs = append(errs, fmt.Errorf("plugin %s cannot be pinned: %s", p.Name, p.Error))
			continue
		case len(p.Changes) > 0 && !accept:
			errs = append(errs, fmt.Errorf("plugin %s: the definitions of its tools differ from the pinned ones (%s); check them with toolhost plugin info %s, then accept them with --accept-changes", p.Name, strings.Join(p.Changes, "; "), p.Name))
			continue
		}
		desc := i.description(p.Name)
		if p.Pinned && p.PinnedSHA256 != p.SHA256 {
			old = append(old, p.PinnedSHA256)
		}
		if old := t.lock.Plugins[p.Name]; old.Source != "" { // only the commands install and upgrade set Source
			continue
		}
		t.lock.Plugins[p.Name] = trust.Pin{Path: trust.Relative(t.Lock, p.Path), SHA256: p.SHA256,
			Version: desc.Version, Tools: trust.Definitions(desc.Defined())}
		p.Pinned, p.PinnedSHA256, p.Changes = true, p.SHA256, nil
	}
	return old, errors.Join(errs...)
}

// ApprovePlugins approves the current tool definitions of plugins. The result describes the plugins before the
// approval.
func ApprovePlugins(ctx context.Context, opts Options, names []string) (*Trust, error) {
	i, err := inspect(ctx, opts)
	if err != nil {
		return nil, err
	}
	err = i.approve(names)
	if err == nil {
		i.engine.Reloader().Audit(actor(ctx), "(approve)", map[string]any{"plugins": names}, "")
	}
	return i.trust, errors.Join(err, i.engine.Close())
}

func (i *inspection) approve(names []string) error {
	t, known := i.trust, i.trust.names()
	var errs []error
	for _, n := range names {
		k := slices.Index(known, n)
		switch {
		case k < 0:
			errs = append(errs, fmt.Errorf("there is no plugin %q.%s", n, suggest.DidYouMean(n, known)))
		case t.Plugins[k].Pinned:
			errs = append(errs, fmt.Errorf("plugin %s is pinned: toolhost plugin pin --accept-changes %s approves its current state", n, n))
		case t.Plugins[k].Error != "":
			errs = append(errs, fmt.Errorf("plugin %s cannot be approved: %s", n, t.Plugins[k].Error))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, n := range names {
		if err := i.engine.Reloader().Builder.Approvals(nil).Approve(n, i.description(n).Defined()); err != nil {
			return fmt.Errorf("the approval of plugin %s cannot be stored: %w", n, err)
		}
	}
	return nil
}
