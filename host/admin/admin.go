// Package admin implements operations for operators. It validates configurations ([Validate]), shows them ([Show],
// [Diagnose]), compares plugins with their pins ([InspectTrust]), reads saved state ([OpenRecords]), and controls
// running hosts in other processes ([Running]).
//
// All functions take the same options as a host. None of them needs a running host in the same process.
package admin

import (
	"toolhost.dev/host"
	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
)

// Options holds the options of the host or configuration to use. See [host.Options].
type Options = host.Options

// load reads the configuration in the options.
func load(opts Options) (*config.Config, error) {
	source, err := engine.Options(opts).Source()
	if err != nil {
		return nil, err
	}
	return source.Open()
}

// BuildInfo describes a build of the program.
type BuildInfo = build.Info

// Build returns the version and the commit of the running program.
func Build() BuildInfo { return build.Current() }

// BundledDir returns the directory of the bundled plugins, which is "plugins" beside the executable.
func BundledDir() string { return engine.BundledDir() }

// FindConfig returns the path of the configuration to use. It is the first of these that exists: path, $TOOLHOST_CONFIG,
// ./toolhost.hcl, and the file in the user's configuration directory. FindConfig returns "" for the built-in
// configuration.
func FindConfig(path string) string { return config.Find(path) }
