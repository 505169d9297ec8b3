// Package trust implements pinning of plugins and approval of their tool definitions. A pin fixes the content of a
// plugin's binary and the definitions of its tools.
package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/ownfile"
	"toolhost.dev/sdk/tool"
)

// layout is the version of the lock file that this package writes.
const layout = 1

// Lock is the content of a lock file.
type Lock struct {
	Version int            `json:"version"`
	Plugins map[string]Pin `json:"plugins"`
}

// Pin fixes the binary and the tool definitions of a plugin.
type Pin struct {
	// Path is the path of the binary at the time of pinning. Another path with the same content is also accepted.
	Path string `json:"path"`
	// SHA256 is the hash of the binary in hexadecimal.
	SHA256 string `json:"sha256"`
	// Version is the version that the plugin reported.
	Version string              `json:"version"`
	Tools   map[string]ToolPins `json:"tools"`
}

// ToolPins are hashes of the parts of a tool's definition.
type ToolPins struct {
	Description string `json:"description"`
	Parameters  string `json:"parameters"`
	Result      string `json:"result"`
	Traits      string `json:"traits"`
}

// PathFor returns the path of a configuration's lock file, which is in the directory of the configuration. An empty
// config means the built-in configuration. Its lock file is in the user's configuration directory.
func PathFor(config string) (string, error) {
	if config == "" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "toolhost", "built-in.lock.json"), err
	}
	if st, err := os.Stat(config); err == nil && st.IsDir() {
		return filepath.Join(config, "toolhost.lock.json"), nil
	}
	base := strings.TrimSuffix(strings.TrimSuffix(config, ".json"), ".hcl")
	return base + ".lock.json", nil
}

// Read reads a lock file. If the file does not exist, Read returns a lock without pins.
func Read(path string) (*Lock, error) {
	lock, _, err := readLock(path)
	return lock, err
}

// readLock reads a lock file and returns its SHA-256. The hash is "" if the file does not exist.
func readLock(path string) (lock *Lock, sum string, err error) {
	out := &Lock{Version: layout, Plugins: make(map[string]Pin)}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, sum, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("the lock file cannot be read: %w", err)
	}
	hash := sha256.Sum256(b)
	sum = hex.EncodeToString(hash[:])
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return nil, "", fmt.Errorf("the lock file %s cannot be read: %w. Restore it, or remove it and pin the plugins again: toolhost plugin pin", path, err)
	}
	if out.Version != layout {
		return nil, "", fmt.Errorf("the lock file %s has the layout %d, and this toolhost knows %d: use the toolhost that wrote it", path, out.Version, layout)
	}
	for name, p := range out.Plugins {
		if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != sha256.Size {
			return nil, "", fmt.Errorf("the lock file %s pins plugin %s to %q, which is not a SHA-256. Restore it, or pin the plugin again: toolhost plugin pin %s", path, name, p.SHA256, name)
		}
	}
	return out, sum, nil
}

// Write replaces a lock file atomically.
func (l *Lock) Write(path string) (err error) {
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as any directory of configuration
		return fmt.Errorf("the lock file cannot be written: %w", err)
	}
	if err := ownfile.Replace(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("the lock file cannot be written: %w", err)
	}
	return nil
}

// Definitions returns the hashes of tool definitions by tool name.
func Definitions(tools []tool.Definition) map[string]ToolPins {
	out := make(map[string]ToolPins, len(tools))
	for _, d := range tools {
		shown := []any{d.Description, d.Examples, d.Category}
		if d.Title != "" || len(d.Icons) > 0 {
			shown = append(shown, d.Title, canonical(d.Icons))
		}
		out[d.Name] = ToolPins{
			Description: hash(shown...), Parameters: hash(canonical(d.Input), d.StdinParameter), Result: hash(canonical(d.Output)), Traits: hash(d.Traits),
		}
	}
	return out
}

// The function "canonical" returns the schema without insignificant blanks. It keeps the order of properties, because
// positional arguments depend on this order.
func canonical(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

func hash(parts ...any) string {
	b, err := json.Marshal(parts)
	if err != nil { // impossible for strings and booleans
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Changes returns a text for each difference between tools and the pinned definitions. It returns nil if tools match.
func (p *Pin) Changes(tools []tool.Definition) []string {
	now := Definitions(tools)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, known := p.Tools[name]
		is := now[name]
		if !known {
			out = append(out, fmt.Sprintf("tool %s is new", name))
			continue
		}
		var parts []string
		for _, c := range []struct{ what, was, is string }{
			{"description", was.Description, is.Description}, {"parameters", was.Parameters, is.Parameters}, {"result", was.Result, is.Result}, {"traits", was.Traits, is.Traits},
		} {
			if c.was != c.is {
				parts = append(parts, c.what)
			}
		}
		if len(parts) > 0 {
			out = append(out, fmt.Sprintf("tool %s has another %s", name, strings.Join(parts, ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Tools)) {
		if _, there := now[name]; !there {
			out = append(out, fmt.Sprintf("tool %s is gone", name))
		}
	}
	return out
}
