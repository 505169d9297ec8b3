package admin

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
	"toolhost.dev/host/internal/distribution"
	"toolhost.dev/host/internal/engine"
	"toolhost.dev/host/internal/manifest"
	"toolhost.dev/host/internal/signature"
	"toolhost.dev/host/internal/source"
	"toolhost.dev/host/internal/store"
	"toolhost.dev/host/internal/trust"
)

// PluginManager installs and publishes plugins.
type PluginManager = distribution.Manager

// InstallOptions configures an installation.
type InstallOptions = distribution.InstallOptions

// InstallConsent contains the exceptions that the operator accepts.
type InstallConsent = distribution.Consent

// InstallResult is the outcome of a command for one plugin.
type InstallResult = distribution.Result

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

// RegistryInfo describes a plugin in a registry.
type RegistryInfo = distribution.Info

// ListedPlugin is a plugin in a catalog.
type ListedPlugin = distribution.Listed

// Collected describes which versions were removed from the store.
type Collected = distribution.Collected

// PluginSource is the name of a plugin in a registry.
type PluginSource = source.Name

// PluginVersion is the name of a plugin in a registry with a version.
type PluginVersion = source.Reference

// PluginPlace is where the versions of a plugin are.
type PluginPlace = source.Place

// ManagePlugins returns the manager of the plugins that come from registries. It applies changes to running hosts.
func ManagePlugins(opts Options) (*PluginManager, error) {
	cfg, err := load(opts)
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
	m, err := PublishPlugins(opts)
	if err != nil {
		return nil, err
	}
	m.Lock, m.Wanted, m.Packages, m.Kept, m.Settings = lock, wanted, packages, cfg.Off, cfg.Distribution
	m.Apply = func(ctx context.Context, plugins []string, acceptChanges bool) error {
		return apply(ctx, opts, lock, plugins, acceptChanges)
	}
	return m, nil
}

// PublishPlugins returns a manager that needs no configuration.
func PublishPlugins(opts Options) (*PluginManager, error) {
	s, err := store.Open()
	if err != nil {
		return nil, err
	}
	return &PluginManager{Store: s, Describe: func(ctx context.Context, program string) (*tool.Description, error) {
		return describe(ctx, opts, program)
	}}, nil
}

// apply makes running hosts use a changed lock file. The error lists the hosts that refuse one of the plugins.
func apply(ctx context.Context, opts Options, lock string, plugins []string, acceptChanges bool) error {
	if err := RenewContent(opts, lock); err != nil {
		return err
	}
	hosts, err := Running(opts)
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

// describe starts a program in a sandbox without roots, network and other programs, until it has described itself. It
// uses neither the configuration nor the state of the operator.
func describe(ctx context.Context, opts Options, program string) (*tool.Description, error) {
	dir, err := os.MkdirTemp("", "toolhost-describe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // in the directory for temporary files
	text := candidateConfig(program)
	file, workspace := filepath.Join(dir, "describe.hcl"), filepath.Join(dir, "workspace")
	err = os.WriteFile(file, []byte(text), 0o600)
	if err == nil {
		err = os.Mkdir(workspace, 0o700)
	}
	if err != nil {
		return nil, err
	}
	e, err := engine.NewMode(ctx, engine.Options{Config: file, Workspace: workspace, StateDir: filepath.Join(dir, "state"), BundledDir: opts.BundledDir, RetryFailed: true}, engine.Mode{DescribeOnly: true})
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

// candidateConfig returns a configuration for a program of which nothing is known yet. If the program is a script, the
// configuration permits it to read the files of its interpreter.
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

// escape keeps a path from being read as a template.
func escape(path string) string { return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(path) }

// ParseSource reads the name of a plugin in a registry.
func ParseSource(text string) (PluginSource, error) { return source.Parse(text) }

// ParseReference reads the name of a plugin in a registry, with a version. Without a version, the version is empty.
func ParseReference(text string) (PluginVersion, error) { return source.ParseReference(text) }

// PlaceFor returns the place where a version is published. An empty to means the registry in its name.
func PlaceFor(ref PluginVersion, to string) (PluginPlace, error) {
	if to == "" {
		return source.Locate(ref.Name, nil), nil
	}
	return source.Below(to, ref.Name, ref.Path)
}

// CheckRuntime returns an error if text names no known runtime of plugins.
func CheckRuntime(text string) error { return distribution.CheckRuntime(text) }

// CollectPlugins removes the installed plugins that no lock file needs.
func CollectPlugins() (*Collected, error) {
	s, err := store.Open()
	if err != nil {
		return nil, err
	}
	return distribution.Collect(s)
}

// NewSigningKey returns a new key pair in PEM, and the fingerprint of the public key.
func NewSigningKey() (private, public []byte, fingerprint string, err error) {
	if private, public, err = signature.NewKey(); err != nil {
		return nil, nil, "", err
	}
	key, err := signature.ParseKey(public)
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
	key, err := signature.ParseSigner(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return key, nil
}
