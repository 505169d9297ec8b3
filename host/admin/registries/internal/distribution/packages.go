package distribution

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/host/admin/registries/internal/fetch"
	"toolhost.dev/host/admin/registries/internal/npm"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/trust"
)

// WantedPackage is an MCP server in the configuration that is an npm package.
type WantedPackage struct {
	// Field is the name of the field block.
	Field string
	// Spec is the package as written in the configuration.
	Spec string
	artifact.Package
}

// installPackages installs the MCP servers. The result "changed" reports whether the lock changed. If the argument
// "fresh" is true, the newest versions are installed.
func (m *Manager) installPackages(ctx context.Context, packages []WantedPackage, lock *trust.Lock, opts InstallOptions,
	fresh bool) (results []Result, changed bool) {
	for _, p := range packages {
		r := Result{Name: p.Field, Source: p.Spec, State: Current}
		before := lock.Packages[p.Field]
		if err := m.installPackage(ctx, p, lock, opts, fresh, &r); err != nil {
			r.fail(err)
		}
		changed = changed || lock.Packages[p.Field] != before
		results = append(results, r)
	}
	return results, changed
}

func (m *Manager) installPackage(ctx context.Context, p WantedPackage, lock *trust.Lock, opts InstallOptions,
	fresh bool, out *Result) error {
	pin, known := lock.Packages[p.Field]
	known = known && pin.Package == p.Spec && !fresh
	if opts.Locked && !known {
		return fmt.Errorf("%s is not in the lock file, so the file would change. Run toolhost plugin install without --locked, and commit it", p.Spec)
	}
	file := trust.PackageLock(m.Lock, p.Field)
	var text []byte
	if known {
		out.Version = pin.Version
		b, installed, err := m.lockedPackage(file, &pin)
		switch {
		case err != nil:
			return err
		case installed && !opts.Reinstall:
			return nil
		}
		text = b
	}
	dir, release, err := m.Store.Temporary()
	if err != nil {
		return err
	}
	defer release()
	done, err := npm.Install(ctx, p.Package, dir, text)
	if err != nil {
		return err
	}
	tree, err := artifact.HashTree(dir)
	if err != nil {
		return err
	}
	if opts.Reinstall {
		if gone, err := m.Store.Remove(tree); err != nil || !gone {
			return errors.Join(errors.New("the files that are installed cannot be replaced, because a running host uses them"), err)
		}
	}
	if err := m.Store.Publish(dir, tree); err != nil {
		return err
	}
	digest := fetch.Digest(done.Lock)
	err = m.Store.Change(m.Lock, func(r *artifact.StoreRecord) { r.Trees = with(r.Trees, digest, tree) })
	if err == nil && text == nil {
		if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil { //nolint:gosec // as any directory of configuration
			err = durable.ReplaceMode(file, done.Lock, 0o644)
		}
	}
	if err != nil {
		return err
	}
	out.State, out.Version = Installed, done.Version
	if pin.Version != done.Version {
		out.From = pin.Version
	}
	lock.Packages = with(lock.Packages, p.Field, trust.Package{
		Package: p.Spec, Version: done.Version, Lock: digest, Program: done.Program,
	})
	return nil
}

// with sets a key in a map, which can be nil.
func with[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = make(map[string]V)
	}
	m[key] = value
	return m
}

// lockedPackage returns the package lock of a locked server. The result "installed" reports whether the server is
// installed.
func (m *Manager) lockedPackage(file string, pin *trust.Package) (text []byte, installed bool, err error) {
	text, err = os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && fetch.Digest(text) != pin.Lock {
		return nil, false, fmt.Errorf("%s is not the package lock that %s names. Restore both from version control, or select versions again: toolhost plugin upgrade", file, filepath.Base(m.Lock))
	}
	if err != nil {
		return nil, false, err
	}
	record, err := m.Store.Record(m.Lock)
	if err != nil {
		return nil, false, err
	}
	tree := record.Trees[pin.Lock]
	return text, tree != "" && m.Store.Has(tree), nil
}

// verifyPackages checks that the files of the MCP servers did not change after the installation.
func (m *Manager) verifyPackages(lock *trust.Lock) ([]Verified, error) {
	record, err := m.Store.Record(m.Lock)
	if err != nil {
		return nil, err
	}
	var out []Verified
	for _, p := range m.Packages {
		pin := lock.Packages[p.Field]
		v := Verified{Name: p.Field, Version: pin.Version}
		tree := record.Trees[pin.Lock]
		switch is, err := artifact.HashTree(m.Store.Dir(tree)); {
		case pin.Package != p.Spec || tree == "" || !m.Store.Has(tree):
			v.Problem = "not installed here: toolhost plugin install"
		case err != nil || is != tree:
			v.Problem = "its files changed. Install them again: toolhost plugin install --reinstall " + p.Field
		}
		out = append(out, v)
	}
	return out, nil
}
