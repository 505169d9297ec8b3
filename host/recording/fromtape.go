package recording

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/sdk/tape"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/engine"
)

// replayPlugin is the bundled plugin that answers calls from a tape.
const replayPlugin = "replay"

// ConfigFromTape writes a configuration for a host that replays a tape: it has the tools of the tape, and answers calls
// from the tape. The caller must call the function "remove" after it has closed the host.
func ConfigFromTape(path string) (file string, remove func(), err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	t, err := tape.Open(path)
	if err != nil {
		return "", nil, err
	}
	if len(t.Tools) == 0 {
		return "", nil, fmt.Errorf("the tape %s has no calls, so there is nothing to answer", path)
	}
	var plugins []config.Plugin
	for _, v := range t.Tools {
		name := "tape-" + v.Plugin
		if slices.ContainsFunc(plugins, func(p config.Plugin) bool { return p.Name == name }) {
			continue
		}
		plugins = append(plugins, config.Plugin{
			Name: name, Path: filepath.Join(engine.BundledDir(), replayPlugin), Field: v.Namespace,
			Args:        []string{"--tape", path, "--plugin", v.Plugin, "--sum", t.Sum},
			Confinement: config.Confinement{Read: []string{path}},
		})
	}
	dir, err := os.MkdirTemp("", "toolhost-tape-*")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // a temporary directory
	file = filepath.Join(dir, "toolhost.hcl")
	if err := os.WriteFile(file, config.Render(plugins), 0o600); err != nil {
		remove()
		return "", nil, err
	}
	return file, remove, nil
}
