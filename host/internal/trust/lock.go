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

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/tool"
)

// layout is the version of the lock file that this package writes. The package also reads version 1, in which paths are
// absolute.
const layout = 2

// Lock is the content of a lock file.
type Lock struct {
	Version int            `json:"version"`
	Plugins map[string]Pin `json:"plugins"`
	// Packages contains the MCP servers that are packages, by the names of their fields.
	Packages map[string]Package `json:"packages,omitempty"`
}

// Package fixes an MCP server that is a package of npm. The versions of its dependencies are in a package lock beside
// the lock file; see [PackageLock].
type Package struct {
	// Package is the text of the configuration. Version is the version that was selected.
	Package string `json:"package"`
	Version string `json:"version"`
	// Lock is the digest of the package lock. Program is the path of the program below the directory of the package.
	Lock    string `json:"lock"`
	Program string `json:"program"`
}

// PackageLock returns the path of the package lock of a field.
func PackageLock(lock, field string) string {
	return strings.TrimSuffix(lock, ".json") + ".d/" + field + ".package-lock.json"
}

// Pin fixes the program and the tool definitions of a plugin. A plugin with a source has an entry for each platform.
// For other plugins, Path and SHA256 describe the binary.
type Pin struct {
	// Source, Constraint and Index identify the artifact of the plugin: the name of the artifact, the configured
	// version constraint at the time of locking, and the digest of the artifact's index.
	Source     string `json:"source,omitempty"`
	Constraint string `json:"constraint,omitempty"`
	Index      string `json:"index,omitempty"`
	// Key is the fingerprint of the key that signed the index. Unsigned reports that the operator accepted an artifact
	// without a signature.
	Key       string              `json:"key,omitempty"`
	Unsigned  bool                `json:"unsigned,omitempty"`
	Platforms map[string]Platform `json:"platforms,omitempty"`
	// Path is the path of the binary at the time of pinning, relative to the directory of the lock file if possible.
	// Another path with the same content is also accepted.
	Path string `json:"path,omitempty"`
	// SHA256 is the hash of the binary in hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Version is the version that the plugin reported.
	Version string              `json:"version"`
	Tools   map[string]ToolPins `json:"tools,omitempty"`
}

// Platform is the build of a plugin for one platform.
type Platform struct {
	// Manifest is the digest of the manifest. Content is the hash of the files, and Entry is the digest of the program.
	Manifest string `json:"manifest"`
	Content  string `json:"content"`
	Entry    string `json:"entry"`
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
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{Version: layout, Plugins: make(map[string]Pin)}, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("the lock file cannot be read: %w", err)
	}
	if lock, err = ParseLock(path, b); err != nil {
		return nil, "", err
	}
	hash := sha256.Sum256(b)
	return lock, hex.EncodeToString(hash[:]), nil
}

// ParseLock decodes the text of a lock file. path is the path of the file, for errors.
func ParseLock(path string, b []byte) (*Lock, error) {
	out := &Lock{Version: layout, Plugins: make(map[string]Pin)}
	var head struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(b, &head) == nil && head.Version > layout { // first, because later versions have unknown fields
		return nil, fmt.Errorf("the lock file %s has the layout %d, and this toolhost knows %d: use the toolhost that wrote it", path, head.Version, layout)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return nil, describeDamage(path, b, err)
	}
	if out.Version < 1 || out.Version > layout {
		return nil, fmt.Errorf("the lock file %s has the layout %d, and this toolhost knows %d: use the toolhost that wrote it", path, out.Version, layout)
	}
	for name, p := range out.Plugins {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("the lock file %s pins plugin %s to %w. Restore it, or pin the plugin again: %s", path, name, err, p.remedy(name))
		}
	}
	for name, p := range out.Packages {
		if !artifact.ValidDigest(p.Lock) || !filepath.IsLocal(p.Program) {
			return nil, fmt.Errorf("the lock file %s has an invalid package lock or program for field %s. Restore it, or remove the entry and run toolhost plugin install", path, name)
		}
	}
	out.Version = layout
	return out, nil
}

// describeDamage explains why a lock file cannot be decoded. It names the line of a conflict marker, because a merge is
// the usual cause.
func describeDamage(path string, b []byte, err error) error {
	n := 0
	for line := range bytes.Lines(b) {
		n++
		for _, marker := range []string{"<<<<<<<", "=======", ">>>>>>>"} {
			if bytes.HasPrefix(line, []byte(marker)) {
				return fmt.Errorf("the lock file %s has conflict markers in line %d. Restore one side, such as with git checkout --ours %s, and then run toolhost plugin install", path, n, filepath.Base(path))
			}
		}
	}
	var syntax *json.SyntaxError
	where := ""
	if errors.As(err, &syntax) {
		where = fmt.Sprintf(" (line %d)", 1+bytes.Count(b[:min(int(syntax.Offset), len(b))], []byte("\n")))
	}
	return fmt.Errorf("the lock file %s cannot be read%s: %w. Restore it, or remove it and pin the plugins again: toolhost plugin pin", path, where, err)
}

// check returns an error if a part of the pin has an invalid form.
func (p *Pin) check() error {
	if p.Source == "" {
		if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != sha256.Size {
			return fmt.Errorf("%q, which is not a SHA-256", p.SHA256)
		}
		return nil
	}
	if _, err := artifact.ParseName(p.Source); err != nil {
		return err
	}
	if _, err := artifact.ParseVersion(p.Version); err != nil {
		return err
	}
	if !artifact.ValidDigest(p.Index) || len(p.Platforms) == 0 {
		return fmt.Errorf("%q, which is not the digest of an index with platforms", p.Index)
	}
	for name, b := range p.Platforms {
		if _, err := artifact.ParsePlatform(name); err != nil {
			return err
		}
		if !artifact.ValidDigest(b.Manifest) || !artifact.ValidContent(b.Content) || !artifact.ValidDigest(b.Entry) {
			return fmt.Errorf("hashes of %s that are not valid", name)
		}
	}
	return nil
}

// remedy returns the command that writes the pin again.
func (p *Pin) remedy(name string) string {
	if p.Source != "" {
		return "remove its entry, and then run toolhost plugin install"
	}
	return "toolhost plugin pin " + name
}

// Base returns the file name of the program of a plugin with a source.
func (p *Pin) Base() string { return p.Source[strings.LastIndexByte(p.Source, '/')+1:] }

// Relative makes the path of a pin relative to the directory of the lock file, so that the lock file can be used in
// other places. It does not change a path outside of this directory.
func Relative(lock, path string) string {
	abs, err := filepath.Abs(lock)
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(filepath.Dir(abs), path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return filepath.ToSlash(rel)
}

// Write replaces a lock file atomically.
func (l *Lock) Write(path string) (err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // constraints contain ">"
	enc.SetIndent("", "  ")
	if err := enc.Encode(l); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as any directory of configuration
		return fmt.Errorf("the lock file cannot be written: %w", err)
	}
	if err := durable.ReplaceMode(path, b.Bytes(), 0o644); err != nil {
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
		traits := []any{d.Traits}
		if named := (tool.Definition{Name: d.Name}); d.Claims() != named.Claims() { // a role decides which calls reach the tool
			traits = append(traits, d.Claims())
		}
		if d.Program != nil { // it decides which commands reach the tool
			traits = append(traits, d.Program)
		}
		out[d.Name] = ToolPins{
			Description: hash(shown...), Parameters: hash(canonical(d.Input), d.StdinParameter),
			Result: hash(canonical(d.Output)), Traits: hash(traits...),
		}
	}
	return out
}

// canonical returns the schema without insignificant blanks. It keeps the order of properties, because
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
			{"description", was.Description, is.Description}, {"parameters", was.Parameters, is.Parameters},
			{"result", was.Result, is.Result}, {"traits", was.Traits, is.Traits},
		} {
			if c.was != c.is {
				parts = append(parts, c.what)
			}
		}
		if len(parts) > 0 {
			out = append(out, fmt.Sprintf("tool %s changed: %s", name, strings.Join(parts, ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Tools)) {
		if _, there := now[name]; !there {
			out = append(out, fmt.Sprintf("tool %s is gone", name))
		}
	}
	return out
}
