package config

import (
	"fmt"
	"strings"

	"toolhost.dev/host/internal/manifest"
)

// defaultHCL returns the configuration that is used if there is none: the bundled plugins in dir whose manifest
// enables them, and the workspace as the only root. A plugin with a broken manifest is in it, so that the error
// is reported.
func defaultHCL(dir string) []byte {
	var b strings.Builder
	for _, name := range manifest.BundledNames(dir) {
		if m, err := manifest.ReadBundled(dir, name); err != nil || m.Default {
			fmt.Fprintf(&b, "plugin %q {\n  optional = true\n}\n", name)
		}
	}
	return []byte(b.String())
}

// describe adds the values of the manifest of the bundled plugin with the same name, if there is one in dir.
// The host must not run a plugin whose manifest is broken.
func (p *Plugin) describe(dir string) error {
	m, err := manifest.ReadBundled(dir, p.Name)
	p.Profile = m.Profile
	return err
}
