package distribution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/trust"
)

// Upgrade replaces plugins by the newest versions that satisfy the configuration. Running hosts change to the new
// version. Running calls finish on the old version. If a host refuses the new version, the lock file keeps the old
// version. Each plugin is upgraded separately.
func (m *Manager) Upgrade(ctx context.Context, names []string, consent Consent) ([]Result, error) {
	wanted, packages, err := m.find(names)
	if err != nil {
		return nil, err
	}
	lock, unlock, err := m.locked()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var results []Result
	for _, w := range wanted {
		r := Result{Name: w.Name, Source: w.Source.String(), State: Current}
		if err := m.upgradeOne(ctx, w, lock, consent, &r); err != nil {
			r.fail(err)
		}
		results = append(results, r)
	}
	servers, changed := m.installPackages(ctx, packages, lock, InstallOptions{}, true)
	results = append(results, servers...)
	if !changed {
		return results, Errors(results)
	}
	if err := lock.Write(m.Lock); err != nil {
		return results, err
	}
	if m.Apply != nil {
		err = m.Apply(ctx, nil, consent.Changes)
	}
	return results, errors.Join(Errors(results), err)
}

func (m *Manager) upgradeOne(ctx context.Context, w Wanted, lock *trust.Lock, consent Consent, out *Result) error {
	pin, ok := lock.Plugins[w.Name]
	if !ok || pin.Source != w.Source.String() {
		return errors.New("it is not in the lock file yet; run toolhost plugin install")
	}
	out.Version, out.Key, out.Unsigned = pin.Version, pin.Key, pin.Unsigned
	c, err := m.select1(ctx, w, &pin, consent)
	if err != nil || c == nil {
		return err
	}
	out.From, out.Bytes = pin.Version, c.bytes
	c.describe(out)
	breaks, err := m.compare(ctx, &pin, c, out)
	if err != nil {
		return err
	}
	if len(breaks) > 0 && !consent.Changes {
		return fmt.Errorf("version %s differs from %s in a way that needs your consent: %s. Accept it: toolhost plugin upgrade --accept-changes %s", c.pin.Version, pin.Version, strings.Join(breaks, "; "), w.Name)
	}
	if err := m.swap(ctx, w.Name, lock, c.pin, consent.Changes); err != nil {
		return err
	}
	out.State = Installed
	return nil
}

// compare returns the differences between the locked version and a candidate for which the operator must give consent:
// changes that break callers, and new needs.
func (m *Manager) compare(ctx context.Context, pin *trust.Pin, c *candidate, out *Result) (breaks []string, err error) {
	now := c.config.Description
	old := filepath.Join(m.Store.Dir(pin.Platforms[trust.ThisPlatform()].Content), pin.Base())
	if !fileExists(old) { // only the hashes of the old definitions are known
		out.Changes = pin.Changes(now.Defined())
		return slices.DeleteFunc(slices.Clone(out.Changes),
			func(s string) bool { return strings.HasSuffix(s, " is new") }), nil
	}
	was, err := m.Describe(ctx, old)
	if err != nil {
		return nil, fmt.Errorf("the locked version %s cannot be started for the comparison: %w", pin.Version, err)
	}
	for _, change := range registry.Compare(was.Defined(), now.Defined()) {
		out.Changes = append(out.Changes, change.String())
		if change.Breaks {
			breaks = append(breaks, change.String())
		}
	}
	before := needed(was)
	for _, n := range needed(now) {
		if !slices.Contains(before, n) {
			out.Changes = append(out.Changes, "new need: "+n)
			breaks = append(breaks, "new need: "+n)
		}
	}
	return breaks, nil
}

// swap writes a new entry to the lock file and makes running hosts use it. If a host refuses the new version, swap
// restores the old entry.
func (m *Manager) swap(ctx context.Context, name string, lock *trust.Lock, pin trust.Pin, acceptChanges bool) error {
	old := lock.Plugins[name]
	record, err := m.Store.Record(m.Lock)
	if err != nil {
		return err
	}
	earlier, had := record.Previous[name]
	// Write the record first: after the lock file changes, hosts can start the old version only if the record names it.
	if err := m.remember(name, old); err != nil {
		return err
	}
	lock.Plugins[name] = pin
	if err := lock.Write(m.Lock); err != nil {
		lock.Plugins[name] = old
		return err
	}
	if m.Apply == nil {
		return nil
	}
	refused := m.Apply(ctx, []string{name}, acceptChanges)
	if refused == nil {
		return m.Store.Change(m.Lock, func(r *artifact.StoreRecord) { see(r, lock) })
	}
	lock.Plugins[name] = old
	// Until all hosts use the old version again, the record must name the new version, because a host that accepted the
	// new version can still start it.
	err = m.remember(name, pin)
	if err == nil {
		err = lock.Write(m.Lock)
	}
	if err == nil {
		err = m.Apply(context.WithoutCancel(ctx), []string{name}, true)
	}
	if err == nil && had {
		var before trust.Pin
		if json.Unmarshal(earlier, &before) == nil {
			err = m.remember(name, before)
		}
	}
	if err != nil {
		return fmt.Errorf("a host refuses version %s: %w; and the version before could not be restored: %w", pin.Version, refused, err)
	}
	return fmt.Errorf("a host refuses version %s, so version %s stays: %w", pin.Version, old.Version, refused)
}

// Rollback replaces a plugin by the version that was in use before the last upgrade. It needs no network.
func (m *Manager) Rollback(ctx context.Context, name string) (*Result, error) {
	if _, _, err := m.find([]string{name}); err != nil {
		return nil, err
	}
	lock, unlock, err := m.locked()
	if err != nil {
		return nil, err
	}
	defer unlock()
	pin := lock.Plugins[name]
	record, err := m.Store.Record(m.Lock)
	if err != nil {
		return nil, err
	}
	var before trust.Pin
	raw, ok := record.Previous[name]
	if !ok || json.Unmarshal(raw, &before) != nil || before.Source != pin.Source || before.Version == pin.Version {
		return nil, fmt.Errorf("plugin %s has no earlier version on this machine; set version in the configuration, and run toolhost plugin install --allow-downgrade", name)
	}
	if !m.Store.Has(before.Platforms[trust.ThisPlatform()].Content) {
		return nil, fmt.Errorf("version %s of plugin %s is no longer in the store; set version = %q in the configuration, and run toolhost plugin install --allow-downgrade", before.Version, name, before.Version)
	}
	if err := m.swap(ctx, name, lock, before, true); err != nil {
		return nil, err
	}
	return &Result{Name: name, Source: before.Source, State: Installed, From: pin.Version, Version: before.Version,
		Key: before.Key, Unsigned: before.Unsigned}, nil
}
