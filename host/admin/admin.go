// Package admin provides what an operator asks of a configuration, or of running hosts in other processes: whether a
// configuration is valid ([Validate]), what it amounts to ([Show], [Diagnose]), what plugins are pinned to ([InspectTrust]),
// what hosts left behind ([OpenRecords]), and what running hosts do ([Running]).
//
// All functions take the options that a host would be started with. None of them needs a running host.
package admin

import (
	"toolhost.dev/host"
	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
)

// Options of the host that is meant. See [host.Options].
type Options = host.Options

// load reads the configuration that opts name.
func load(opts Options) (*config.Config, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	return source.Open()
}

// BuildInfo describes a build of the program.
type BuildInfo = build.Info

// Build returns the version of the running program and the commit it was built from.
func Build() BuildInfo { return build.Current() }

// BundledDir returns the directory of the bundled plugins: "plugins" beside the executable.
func BundledDir() string { return engine.BundledDir() }

// FindConfig returns the configuration that the program uses: path if it is not empty, or else $TOOLHOST_CONFIG, ./toolhost.hcl or
// the one in the user's configuration directory. It returns "" for the built-in default.
func FindConfig(path string) string { return config.Find(path) }
