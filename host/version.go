package host

import (
	"runtime"
	"runtime/debug"

	"toolhost.dev/sdk/toolrpc"
)

// BuildInfo says what a program was built of.
type BuildInfo struct {
	Version string `json:"version"`
	// Commit it was built from, and when that was made; empty: not known.
	Commit string `json:"commit,omitempty"`
	Time   string `json:"time,omitempty"`
	// Modified: there were changes that are in no commit.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// PluginProtocols are the versions of the protocol that it speaks with plugins, newest first.
	PluginProtocols []int `json:"plugin_protocols"`
}

// commit and committed are set by the linker for releases.
var commit, committed string

// Build says what this program was built of.
func Build() BuildInfo {
	b := BuildInfo{
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
