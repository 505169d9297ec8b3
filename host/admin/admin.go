// Package admin implements operations for operators. [Validate] validates configurations. [Show] and [Diagnose]
// describe configurations. [InspectTrust] compares plugins with their pins. [OpenRecords] reads saved state. [Running]
// returns running hosts in other processes for their control.
//
// All functions take the same options as a host. None of them needs a running host in the same process.
package admin

import (
	"path/filepath"

	"toolhost.dev/host"
	"toolhost.dev/host/agent"
	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
)

// Options contains the options that select the host or configuration. See [host.Options].
type Options = host.Options

// BuildInfo describes a build of the program.
type BuildInfo = build.Info

// Build returns the version and the commit of the running program.
func Build() BuildInfo { return build.Current() }

// BundledDir returns the directory of the bundled plugins. This is the directory "plugins" next to the executable.
func BundledDir() string { return engine.BundledDir() }

// FindConfig returns the path of the configuration to use. It tries the argument "path", $TOOLHOST_CONFIG, toolhost.hcl
// in the directory dir, and the file in the user's configuration directory, in this order. It returns the first path
// that exists, or "" for the built-in configuration. An empty dir means the current directory.
func FindConfig(path, dir string, getenv func(string) string) string {
	return config.Find(path, dir, getenv)
}

// AgentStore returns the store with the backups of the agents' settings.
func AgentStore(opts Options) (agent.Store, error) {
	_, dir, err := stateDirectory(opts)
	return agent.Store{Dir: filepath.Join(dir, "setup")}, err
}
