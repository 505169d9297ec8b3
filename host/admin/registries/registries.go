// Package registries installs plugins from registries, publishes plugins there, and verifies installed plugins.
// [Manage] returns the manager for a configuration. It is the only package for embedding programs that connects to
// registries.
package registries

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/admin/registries/internal/distribution"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/host/internal/trust"
)

// Manager installs and publishes plugins.
type Manager = distribution.Manager

// InstallOptions configures an installation.
type InstallOptions = distribution.InstallOptions

// Consent contains the exceptions that the operator accepts.
type Consent = distribution.Consent

// Result is the outcome of a command for one plugin.
type Result = distribution.Result

// Publication is a version that an author publishes.
type Publication = distribution.Publication

// Published describes a published version.
type Published = distribution.Published

// Outdated compares a locked version with its registry.
type Outdated = distribution.Outdated

// Verified is the result of a verification.
type Verified = distribution.Verified

// Mirrored describes a version that was copied to a mirror.
type Mirrored = distribution.Mirrored

// Info describes a plugin in a registry.
type Info = distribution.Info

// Listed is a plugin in a catalog.
type Listed = distribution.Listed

// Collected describes which versions were removed from the store.
type Collected = distribution.Collected

// Name is the name of a plugin in a registry.
type Name = artifact.Name

// Version is the name of a plugin in a registry with a version.
type Version = artifact.Reference

// Place is the location of the versions of a plugin.
type Place = artifact.Place

// Manage returns the manager of the plugins that come from registries. The manager applies its changes to running
// hosts.
func Manage(opts admin.Options) (*Manager, error) {
	cfg, err := engine.Options(opts).Configuration()
	if err != nil {
		return nil, err
	}
	if cfg.Untrusted != "" {
		return nil, fmt.Errorf("plugins are not installed: %s", cfg.Untrusted)
	}
	wanted, err := distribution.WantedOf(cfg)
	if err != nil {
		return nil, err
	}
	packages, err := distribution.PackagesOf(cfg)
	if err != nil {
		return nil, err
	}
	lock, err := trust.PathFor(cfg.Path)
	if err == nil {
		lock, err = filepath.Abs(lock)
	}
	if err != nil {
		return nil, err
	}
	m, err := Publisher(opts)
	if err != nil {
		return nil, err
	}
	m.Lock, m.Wanted, m.Packages, m.Kept, m.Settings = lock, wanted, packages, cfg.Off, cfg.Distribution
	m.Apply = func(ctx context.Context, plugins []string, acceptChanges bool) error {
		return apply(ctx, opts, lock, plugins, acceptChanges)
	}
	return m, nil
}

// Publisher returns a manager for publishing, which needs no configuration.
func Publisher(opts admin.Options) (*Manager, error) {
	s, err := artifact.OpenStore()
	if err != nil {
		return nil, err
	}
	return &Manager{Store: s, Describe: func(ctx context.Context, program string) (*tool.Description, error) {
		return describe(ctx, opts, program)
	}}, nil
}

// apply makes running hosts use a changed lock file. The error lists the hosts that refuse one of the plugins.
func apply(ctx context.Context, opts admin.Options, lock string, plugins []string, acceptChanges bool) error {
	if err := admin.RenewContent(opts, lock); err != nil {
		return err
	}
	hosts, err := admin.Running(opts)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hosts {
		r, err := h.Reload(ctx, host.ReloadOptions{AcceptChanges: acceptChanges})
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("host %d: %w", h.PID, err))
		case r.Config.Refused != "":
			errs = append(errs, fmt.Errorf("host %d: %s", h.PID, r.Config.Refused))
		default:
			for _, p := range r.Plugins {
				if p.Refused != "" && slices.Contains(plugins, p.Name) {
					errs = append(errs, fmt.Errorf("host %d: plugin %s: %s", h.PID, p.Name, p.Refused))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// describe starts a plugin program to get its description, and then stops it. The program runs in a sandbox without
// roots, without network and without access to other programs. describe uses neither the configuration nor the state of
// the operator.
func describe(ctx context.Context, opts admin.Options, program string) (*tool.Description, error) {
	dir, err := os.MkdirTemp("", "toolhost-describe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	text := candidateConfig(program)
	file, workspace := filepath.Join(dir, "describe.hcl"), filepath.Join(dir, "workspace")
	err = os.WriteFile(file, []byte(text), 0o600)
	if err == nil {
		err = os.Mkdir(workspace, 0o700)
	}
	if err != nil {
		return nil, err
	}
	e, err := engine.NewMode(ctx,
		engine.Options{Config: file, Workspace: workspace, StateDir: filepath.Join(dir, "state"),
			BundledDir: opts.BundledDir, RetryFailed: true}, engine.Mode{DescribeOnly: true})
	if err != nil {
		return nil, err
	}
	p := e.Current().Plugin("candidate")
	var d *tool.Description
	if p == nil {
		err = errors.New("the program cannot be loaded")
	} else if d = p.Description(); d == nil {
		err = p.Err
	}
	return d, errors.Join(err, e.Close())
}

// candidateConfig returns a configuration for an unknown program. If the program is a script, the configuration permits
// it to read the files of its interpreter.
func candidateConfig(program string) string {
	runtime := manifest.RuntimeOf(manifest.Interpreter(program))
	var read, env []string
	for _, path := range append([]string{filepath.Dir(program)}, runtime.Read...) {
		read = append(read, fmt.Sprintf("%q", escape(path)))
	}
	for _, name := range runtime.Env {
		env = append(env, fmt.Sprintf("%s = %q", name, escape(os.Getenv(name))))
	}
	return fmt.Sprintf("bundled = false\nplugin \"candidate\" {\n  path = %q\n  env = { %s }\n  sandbox {\n    roots = \"none\"\n    network = false\n    exec = false\n    read = [%s]\n  }\n}\n",
		escape(program), strings.Join(env, ", "), strings.Join(read, ", "))
}

// escape escapes the characters in a path that would begin a template in HCL.
func escape(path string) string { return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(path) }

// ParseName reads the name of a plugin in a registry.
func ParseName(text string) (Name, error) { return artifact.ParseName(text) }

// ParseVersion reads the name of a plugin in a registry, with a version. Without a version, the version is empty.
func ParseVersion(text string) (Version, error) { return artifact.ParseReference(text) }

// PlaceFor returns the place where a version is published. If the argument "to" is empty, it is the registry in the
// name of the version.
func PlaceFor(ref Version, to string) (Place, error) {
	if to == "" {
		return artifact.Locate(ref.Name, nil), nil
	}
	return artifact.NameBelow(to, ref.Name, ref.Path)
}

// CheckRuntime returns an error if text names no known runtime of plugins.
func CheckRuntime(text string) error { return distribution.CheckRuntime(text) }

// Collect removes the installed plugins that no lock file needs.
func Collect() (*Collected, error) {
	s, err := artifact.OpenStore()
	if err != nil {
		return nil, err
	}
	return distribution.Collect(s)
}

// NewSigningKey returns a new key pair in PEM, and the fingerprint of the public key.
func NewSigningKey() (private, public []byte, fingerprint string, err error) {
	if private, public, err = artifact.NewKey(); err != nil {
		return nil, nil, "", err
	}
	key, err := artifact.ParseKey(public)
	return private, public, key.Fingerprint, err
}

// ReadSigningKey reads a private key from a file, or from an environment variable if name begins with "env:".
func ReadSigningKey(name string) (crypto.Signer, error) {
	var text []byte
	if variable, ok := strings.CutPrefix(name, "env:"); ok {
		value, set := os.LookupEnv(variable)
		if !set {
			return nil, fmt.Errorf("the environment variable %s with the key is not set", variable)
		}
		text = []byte(value)
	} else {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("the key cannot be read: %w. Make one with toolhost plugin key NAME", err)
		}
		text = b
	}
	key, err := artifact.ParseSigner(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return key, nil
}
