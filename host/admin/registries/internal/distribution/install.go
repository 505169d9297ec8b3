package distribution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"golang.org/x/sync/errgroup"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/trust"
)

// parallel is the maximum number of plugins that are downloaded at the same time.
const parallel = 4

// InstallOptions configures [Manager.Install].
type InstallOptions struct {
	// Names selects plugins. An empty list means all plugins.
	Names []string
	// If Locked is true, the lock file must not change. If Reinstall is true, installed versions are downloaded again.
	Locked, Reinstall bool
	Consent
}

// Install installs the plugins in the lock file. It selects a version only for a plugin that the lock file lacks, or
// whose locked version no longer satisfies the configuration. The failure of a plugin does not prevent the installation
// of other plugins.
func (m *Manager) Install(ctx context.Context, opts InstallOptions) ([]Result, error) {
	wanted, packages, err := m.find(opts.Names)
	if err != nil {
		return nil, err
	}
	lock, unlock, err := m.locked()
	if err != nil {
		return nil, err
	}
	defer unlock()
	results, pins := make([]Result, len(wanted)), make([]*trust.Pin, len(wanted))
	var all errgroup.Group
	all.SetLimit(parallel)
	for i, w := range wanted {
		all.Go(func() error {
			results[i] = Result{Name: w.Name, Source: w.Source.String(), State: Current}
			pin, err := m.installOne(ctx, w, lock, opts, &results[i])
			if err != nil {
				results[i].fail(err)
			}
			pins[i] = pin
			return nil
		})
	}
	_ = all.Wait() // the functions return no errors
	changed := false
	for i, w := range wanted {
		if pins[i] != nil && results[i].err == nil && !reflect.DeepEqual(lock.Plugins[w.Name], *pins[i]) {
			lock.Plugins[w.Name], changed = *pins[i], true
		}
	}
	servers, more := m.installPackages(ctx, packages, lock, opts, false)
	results, changed = append(results, servers...), changed || more
	if len(opts.Names) == 0 && !opts.Locked {
		changed = m.dropUnused(lock) || changed
	}
	if err := m.Store.Change(m.Lock, func(r *artifact.StoreRecord) { see(r, lock) }); err != nil {
		return results, err
	}
	if changed {
		if err := lock.Write(m.Lock); err != nil {
			return results, err
		}
	}
	var installed []string
	for _, r := range results {
		if r.State == Installed {
			installed = append(installed, r.Name)
		}
	}
	if m.Apply != nil && (changed || len(installed) > 0) {
		return results, errors.Join(Errors(results), m.Apply(ctx, installed, opts.Changes))
	}
	return results, Errors(results)
}

// dropUnused removes the entries of plugins that are no longer in the configuration.
func (m *Manager) dropUnused(lock *trust.Lock) (changed bool) {
	maps.DeleteFunc(lock.Plugins, func(name string, p trust.Pin) bool {
		drop := p.Source != "" && !slices.Contains(m.Kept, name) &&
			!slices.ContainsFunc(m.Wanted, func(w Wanted) bool { return w.Name == name })
		changed = changed || drop
		return drop
	})
	return changed
}

// installOne installs one plugin and returns its entry for the lock file.
func (m *Manager) installOne(ctx context.Context, w Wanted, lock *trust.Lock, opts InstallOptions,
	out *Result) (*trust.Pin, error) {
	pin, known := lock.Plugins[w.Name]
	known = known && pin.Source == w.Source.String()
	if known {
		if v, err := artifact.ParseVersion(pin.Version); err == nil && w.Constraint.Allows(v) {
			return m.installLocked(ctx, w, pin, opts, out)
		}
	}
	if opts.Locked {
		if known {
			return nil, fmt.Errorf("the locked version %s does not satisfy %q, so the lock file would change. Run toolhost plugin install without --locked, and commit %s", pin.Version, w.Constraint, m.Lock)
		}
		return nil, fmt.Errorf("%s is not in the lock file %s, so the file would change. Run toolhost plugin install without --locked, and commit the file", w.Source, m.Lock)
	}
	var before *trust.Pin
	if known {
		before = &pin
	} else if err := m.checkResembling(w, lock); err != nil && !opts.Source {
		return nil, err
	}
	c, err := m.select1(ctx, w, before, opts.Consent)
	if err != nil || c == nil {
		return nil, err
	}
	out.State, out.Bytes = Installed, c.bytes
	c.describe(out)
	return &c.pin, nil
}

// select1 selects the newest version and downloads it. The result is nil if the newest version is already locked.
func (m *Manager) select1(ctx context.Context, w Wanted, locked *trust.Pin, consent Consent) (*candidate, error) {
	repo, err := m.open(w.Source)
	if err != nil {
		return nil, err
	}
	r, err := m.newest(ctx, repo, w, locked, consent)
	if err != nil || r == nil {
		return nil, err
	}
	c, err := m.admit(ctx, w, r)
	if err != nil {
		return nil, fmt.Errorf("version %s of %s is refused: %w", r.version, w.Source, err)
	}
	return c, nil
}

// describe adds the candidate's data that is new in the lock file to a result.
func (c *candidate) describe(out *Result) {
	out.Version, out.Key, out.Publisher, out.Unsigned, out.NewKey = c.pin.Version, c.pin.Key, c.verdict.publisher,
		c.pin.Unsigned, c.verdict.isNew
	out.Tools = slices.Sorted(maps.Keys(c.pin.Tools))
	out.Needs = needed(c.config.Description)
}

// installLocked installs exactly the version in the lock file.
func (m *Manager) installLocked(ctx context.Context, w Wanted, pin trust.Pin, opts InstallOptions,
	out *Result) (*trust.Pin, error) {
	out.Version, out.Key, out.Unsigned = pin.Version, pin.Key, pin.Unsigned
	if pin.Constraint != w.Constraint.String() {
		if opts.Locked {
			return nil, fmt.Errorf("the constraint changed from %q to %q, so the lock file would change. Run toolhost plugin install without --locked, and commit %s", pin.Constraint, w.Constraint, m.Lock)
		}
		pin.Constraint = w.Constraint.String()
	}
	build, ok := pin.Platforms[trust.ThisPlatform()]
	if !ok {
		return nil, fmt.Errorf("version %s has no build for %s, only for %v", pin.Version, trust.ThisPlatform(), slices.Sorted(maps.Keys(pin.Platforms)))
	}
	if m.Store.Has(build.Content) && !opts.Reinstall {
		return &pin, nil
	}
	repo, err := m.open(w.Source)
	if err != nil {
		return nil, err
	}
	_, raw, err := repo.Manifest(ctx, build.Manifest)
	if err != nil {
		return nil, err
	}
	manifest, err := artifact.ReadManifest(raw)
	if err != nil {
		return nil, err
	}
	out.State = Installed
	out.Bytes, err = m.unpack(ctx, w, repo, manifest, &pin, opts.Reinstall)
	return &pin, err
}

// remember stores a plugin's entry before an upgrade, so that the upgrade can be rolled back.
func (m *Manager) remember(name string, before trust.Pin) error {
	raw, err := json.Marshal(before)
	if err != nil {
		return err
	}
	return m.Store.Change(m.Lock, func(r *artifact.StoreRecord) {
		r.Previous = with(r.Previous, name, json.RawMessage(raw))
	})
}
