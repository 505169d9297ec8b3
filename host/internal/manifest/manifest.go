// Package manifest reads manifests of plugins. [Read] reads the manifest beside a plugin's sources. [ReadBundled] reads
// the manifest of a bundled plugin.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"toolhost.dev/host/internal/lazyregexp"

	"golang.org/x/mod/semver"

	"toolhost.dev/sdk/tool"
)

// File is the name of the manifest in a plugin's directory.
const File = "toolhost-plugin.json"

// NameRule describes the valid names.
const NameRule = "use lower-case letters, digits, '_', '-' and '.', beginning with a letter, at most 64 characters"

// Manifest describes a plugin and its sources.
type Manifest struct {
	// Name must be valid for [tool.ValidName]. Version has the form major.minor.patch.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Build is the command that builds the plugin. It runs in the plugin's directory. Empty means that no build is
	// needed.
	Build []string `json:"build,omitempty"`
	// Binary is the path of the plugin's program, relative to the plugin's directory.
	Binary string `json:"binary"`
	// Runtime is the interpreter of a plugin that is a script: "python" or "node". The plugin may read the interpreter
	// and its packages.
	Runtime string `json:"runtime,omitempty"`
	// Needs lists the permissions that the plugin needs beyond access to the workspace.
	Needs Needs `json:"needs"`
	// Tools names the tools of the plugin. If the host does not run a bundled plugin, it uses the names to explain how
	// to enable the tools, and to keep their roles from other plugins.
	Tools []string `json:"tools,omitempty"`
	// Bundled is set for bundled plugins. Hosts ignore this field in other manifests.
	Bundled *Bundled `json:"bundled,omitempty"`

	nameLine int
}

// Needs lists the permissions that a plugin requires. The zero value means that the plugin only needs files of the
// workspace.
type Needs struct {
	Network bool `json:"network,omitempty"`
	Exec    bool `json:"exec,omitempty"`
	// Read and Write are paths outside the workspace.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	// Env lists variables of the developer's environment that the plugin receives.
	Env []string `json:"env,omitempty"`
}

// Bundled describes how the host uses a bundled plugin.
type Bundled struct {
	// Default is the position of the plugin in the built-in configuration, starting at 1. Zero means that the built-in
	// configuration omits the plugin.
	Default int `json:"default,omitempty"`
	// Profile is the sandbox profile before changes by the configuration.
	Profile Profile `json:"profile"`
}

// Profile is a sandbox profile. Its fields use the same values as a configuration's sandbox block.
type Profile struct {
	// Roots is "none", "read-only" or "read-write". Empty means read-write.
	Roots string `json:"roots,omitempty"`
	Exec  bool   `json:"exec,omitempty"`
}

// Read reads the manifest in the directory of a plugin's sources.
func Read(dir string) (*Manifest, error) {
	path := filepath.Join(dir, File)
	m, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; name the directory of a plugin, or create a plugin with toolhost plugin new", path)
	}
	return m, err
}

func readFile(path string) (*Manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, line, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", path, line, err)
	}
	return m, nil
}

// parse parses and validates a manifest. line is the line of the error.
func parse(b []byte) (m *Manifest, line int, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	m = new(Manifest)
	if err := dec.Decode(m); err != nil {
		if unknown := unknownField.FindStringSubmatch(err.Error()); unknown != nil {
			return nil, keyLine(b, unknown[1]), fmt.Errorf("unknown key %q; correct or remove the key", unknown[1])
		}
		return nil, lineOf(b, err), err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, bytes.Count(b[:dec.InputOffset()], []byte("\n")) + 1, errors.New("unexpected text after the manifest; remove the text")
	}
	m.nameLine = keyLine(b, "name")
	key := ""
	switch {
	case !tool.ValidName(m.Name):
		key, err = "name", fmt.Errorf("the name %q is not valid: %s", m.Name, NameRule)
	case !semver.IsValid("v" + m.Version):
		key, err = "version", fmt.Errorf("the version %q is not major.minor.patch", m.Version)
	case m.Binary == "":
		key, err = "binary", errors.New("binary is not set; set binary to the program that a host runs")
	case !filepath.IsLocal(m.Binary):
		key, err = "binary", fmt.Errorf("binary %q is outside of the plugin's directory", m.Binary)
	case m.Bundled != nil && !slices.Contains([]string{"", "none", "read-only", "read-write"}, m.Bundled.Profile.Roots):
		key, err = "roots", fmt.Errorf("invalid roots %q: use none, read-only or read-write", m.Bundled.Profile.Roots)
	}
	return m, keyLine(b, key), err
}

// lineOf returns the line number of a decoder error.
func lineOf(b []byte, err error) int {
	offset := int64(len(b)) // by default, the error is at the end of the text
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	return bytes.Count(b[:min(offset, int64(len(b)))], []byte("\n")) + 1
}

var unknownField = lazyregexp.New(`unknown field "(.*)"`)

// keyLine returns the line of a key. It returns 1 if the key is missing.
func keyLine(b []byte, key string) int {
	at := bytes.Index(b, []byte(`"`+key+`"`))
	return bytes.Count(b[:max(at, 0)], []byte("\n")) + 1
}
