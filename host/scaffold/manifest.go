package scaffold

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"

	"toolhost.dev/sdk/tool"
)

// ManifestFile is the name of the manifest in a plugin's directory.
const ManifestFile = "toolhost-plugin.json"

// Manifest says of the sources of a plugin what a developer's tools need to know.
type Manifest struct {
	// Name as in [tool.ValidName]; Version as major.minor.patch.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Build is the command that builds the plugin, run in its directory; empty: nothing to build.
	Build []string `json:"build,omitempty"`
	// Binary is what a host runs, relative to the directory.
	Binary string `json:"binary"`
	// Needs is what the sandbox must allow beyond the workspace, which it can always use.
	Needs Needs `json:"needs"`
}

// Needs is what a plugin cannot do without. The zero value is a plugin that works on files of
// the workspace only.
type Needs struct {
	Network bool `json:"network,omitempty"`
	Exec    bool `json:"exec,omitempty"`
	// Read and Write are paths outside of the workspace.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	// Env are variables of the developer's environment that the plugin is given.
	Env []string `json:"env,omitempty"`
}

// ReadManifest reads the manifest of a plugin's directory and checks it.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: name the directory of a plugin; toolhost plugin new creates one", path)
	}
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	var m Manifest
	if err := dec.Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case !tool.ValidName(m.Name):
		err = fmt.Errorf("the name %q is not valid: %s", m.Name, nameRule)
	case !semver.IsValid("v" + m.Version):
		err = fmt.Errorf("the version %q is not major.minor.patch", m.Version)
	case m.Binary == "":
		err = errors.New("binary is not set: name what a host runs")
	case !filepath.IsLocal(m.Binary):
		err = fmt.Errorf("binary %q leads out of the directory", m.Binary)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &m, nil
}

const nameRule = "use lower-case letters, digits, '_', '-' and '.', beginning with a letter, at most 64 characters"

// Block returns the plugin's block in a configuration; dir is absolute.
func (m *Manifest) Block(dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %s {\n  path = %s\n", quote(m.Name), quote(filepath.Join(dir, m.Binary)))
	var env []string
	for _, name := range m.Needs.Env {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, fmt.Sprintf("    %s = %s\n", name, quote(v)))
		}
	}
	if len(env) > 0 {
		fmt.Fprintf(&b, "  env = {\n%s  }\n", strings.Join(env, ""))
	}
	n := m.Needs
	if n.Network || n.Exec || len(n.Read)+len(n.Write) > 0 {
		b.WriteString("  sandbox {\n")
		if n.Network {
			b.WriteString("    network = true\n")
		}
		if n.Exec {
			b.WriteString("    exec = true\n")
		}
		list := func(name string, paths []string) {
			var quoted []string
			for _, p := range paths {
				if !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") {
					p = filepath.Join(dir, p)
				}
				quoted = append(quoted, quote(p))
			}
			if len(quoted) > 0 {
				fmt.Fprintf(&b, "    %s = [%s]\n", name, strings.Join(quoted, ", "))
			}
		}
		list("read", n.Read)
		list("write", n.Write)
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// quote returns a string as HCL has it.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return strings.NewReplacer("${", "$${", "%{", "%%{", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}
