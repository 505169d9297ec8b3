// Package distribution installs plugins from registries, and publishes them. It combines the packages fetch, artifact
// and trust. Only commands that a person runs use this package. A host starts plugins from the store without it. Most
// callers need [Manager.Install].
//
// Three checks protect an installation. A signature is checked when a version enters the lock file. The lock file is
// checked at each installation. The bytes are checked at each start of a plugin.
package distribution

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/admin/registries/internal/fetch"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/trust"
)

// Manager installs the plugins of one configuration.
type Manager struct {
	// Lock is the absolute path of the lock file. It is empty for commands that need no lock file.
	Lock string
	// Wanted lists the plugins of the configuration that have a source. Kept lists additional names. The entries with
	// these names stay in the lock file.
	Wanted   []Wanted
	Packages []WantedPackage
	Kept     []string
	Settings config.Distribution
	Store    *artifact.Store
	// Describe starts a program in a sandbox without roots and network, and returns its description.
	Describe func(ctx context.Context, program string) (*tool.Description, error)
	// Apply makes running hosts use the changed lock file. It returns an error if a host refuses a plugin. A nil
	// function means that no host runs.
	Apply func(ctx context.Context, plugins []string, acceptChanges bool) error
	// Warn is called with problems that do not end the command. Progress is called during downloads. Both functions can
	// be nil. Several goroutines can call these functions at the same time.
	Warn     func(text string)
	Progress func(plugin string, have, of int64)
}

// Wanted is a plugin of the configuration.
type Wanted struct {
	Name       string
	Source     artifact.Name
	Constraint artifact.Constraint
}

// WantedOf returns the plugins of a configuration that have a source.
func WantedOf(cfg *config.Config) ([]Wanted, error) {
	var out []Wanted
	var errs []error
	for _, p := range cfg.Sourced() {
		name, err := artifact.ParseName(p.Source)
		errs = append(errs, err)
		c, err := artifact.ParseConstraint(p.Version)
		errs = append(errs, err)
		out = append(out, Wanted{p.Name, name, c})
	}
	return out, errors.Join(errs...)
}

// PackagesOf returns the MCP servers of a configuration that are packages.
func PackagesOf(cfg *config.Config) ([]WantedPackage, error) {
	var out []WantedPackage
	var errs []error
	for _, p := range cfg.Plugins {
		if p.Package != "" {
			is, err := artifact.ParsePackage(p.Package)
			errs = append(errs, err)
			out = append(out, WantedPackage{p.Name, p.Package, is})
		}
	}
	return out, errors.Join(errs...)
}

// Consent contains the exceptions that the operator accepts for one command.
type Consent struct {
	// If Unsigned is true, versions without a signature are accepted. Key is the fingerprint of a new key that is
	// accepted.
	Unsigned bool
	Key      string
	// If Changes is true, a version is accepted even if it breaks callers of its tools or has additional needs. If
	// Downgrade is true, lower versions are accepted.
	Changes, Downgrade bool
	// If Source is true, a source is accepted although its name resembles the name of a known source.
	Source bool
}

// Result is the outcome of a command for one plugin.
type Result struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Version string `json:"version,omitempty"`
	// From is the version before an upgrade.
	From string `json:"from,omitempty"`
	// State is "current", "installed" or "failed".
	State string `json:"state"`
	// Bytes is the number of bytes of the download.
	Bytes int64 `json:"bytes,omitempty"`
	// Key is the fingerprint of the key that signed the version. Publisher is the name of the publisher block.
	Key       string `json:"key,omitempty"`
	Publisher string `json:"publisher,omitempty"`
	Unsigned  bool   `json:"unsigned,omitempty"`
	// NewKey reports that the key was not known before.
	NewKey bool `json:"new_key,omitempty"`
	// Tools and Needs describe a version that is new in the lock file. Changes are the differences to the version
	// before.
	Tools   []string `json:"tools,omitempty"`
	Needs   []string `json:"needs,omitempty"`
	Changes []string `json:"changes,omitempty"`
	// Note is a remark, such as that the version was yanked.
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"`

	err error
}

// These are the states of a result.
const (
	Current   = "current"
	Installed = "installed"
	Failed    = "failed"
)

// Errors joins the errors of results.
func Errors(results []Result) error {
	var errs []error
	for _, r := range results {
		if r.err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", r.Name, r.err))
		}
	}
	return errors.Join(errs...)
}

func (r *Result) fail(err error) {
	r.State, r.err, r.Error = Failed, err, err.Error()
}

// open returns the repository of a source. The mirrors in the configuration determine the location of the repository.
func (m *Manager) open(n artifact.Name) (fetch.Repository, error) {
	return fetch.Open(artifact.Locate(n, m.Settings.Mirrors), fetch.Options{Warn: m.Warn})
}

// find returns the wanted plugins and packages with the given names. Without names, it returns all.
func (m *Manager) find(names []string) ([]Wanted, []WantedPackage, error) {
	if len(names) == 0 {
		return m.Wanted, m.Packages, nil
	}
	var out []Wanted
	var packages []WantedPackage
	for _, name := range names {
		if i := slices.IndexFunc(m.Packages, func(p WantedPackage) bool { return p.Field == name }); i >= 0 {
			packages = append(packages, m.Packages[i])
			continue
		}
		i := slices.IndexFunc(m.Wanted, func(w Wanted) bool { return w.Name == name })
		if i < 0 {
			var known []string
			for _, w := range m.Wanted {
				known = append(known, w.Name)
			}
			if len(known) == 0 {
				return nil, nil, fmt.Errorf("plugin %q: the configuration has no plugin with a source", name)
			}
			return nil, nil, fmt.Errorf("plugin %q: the configuration has no plugin of this name with a source, only %s", name, strings.Join(known, ", "))
		}
		out = append(out, m.Wanted[i])
	}
	return out, packages, nil
}

// locked reads the lock file and prevents changes by other commands. The caller must call the function "unlock".
func (m *Manager) locked() (lock *trust.Lock, unlock func(), err error) {
	if unlock, err = m.Store.Lock(m.Lock); err != nil {
		return nil, nil, err
	}
	if err = m.Store.Sweep(false); err == nil {
		lock, err = trust.Read(m.Lock)
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return lock, unlock, nil
}
