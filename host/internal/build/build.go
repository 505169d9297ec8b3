// Package build identifies the running program: its version, its commit and the supported plugin protocols. Most
// callers want [Current].
package build

import (
	"runtime"
	"runtime/debug"

	"toolhost.dev/sdk/toolrpc"
)

// Version is the version of the host that plugins and peers receive.
const Version = "0.1.0"

// Info describes a build.
type Info struct {
	Version string `json:"version"`
	// Commit is the commit that the program was built from. Time is the time of that commit. Both are empty if the
	// build does not record them.
	Commit string `json:"commit,omitempty"`
	Time   string `json:"time,omitempty"`
	// Modified reports whether the working tree had uncommitted changes.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// PluginProtocols lists the supported versions of the plugin protocol, newest first.
	PluginProtocols []int `json:"plugin_protocols"`
}

// The linker sets these variables in releases.
var commit, committed string

// Current returns the description of the running program.
func Current() Info {
	b := Info{
		Commit: commit, Time: committed,
		Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		PluginProtocols: []int{toolrpc.ProtocolVersion, toolrpc.LegacyVersion},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || commit != "" {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
