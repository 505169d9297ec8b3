package dist

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// bill collects the modules that binaries were built from. The linker records these modules in each binary.
type bill struct {
	modules  map[string]component
	binaries []component
}

// component is a component in the CycloneDX format.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref,omitempty"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (b *bill) add(name, path string, content []byte) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if b.modules == nil {
		b.modules = make(map[string]component)
	}
	sum := sha256.Sum256(content)
	b.binaries = append(b.binaries, component{Type: "file", Ref: "file:" + name, Name: name, Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}})
	b.module("std", strings.TrimPrefix(info.GoVersion, "go"), "")
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		if !strings.HasPrefix(d.Path, "toolhost.dev/") && !strings.HasPrefix(d.Path, ".") { // skip the modules of this project
			b.module(d.Path, d.Version, d.Sum)
		}
	}
	return nil
}

func (b *bill) module(path, version, sum string) {
	purl := "pkg:golang/" + path + "@" + version
	c := component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	b.modules[purl] = c
}

// cycloneDX returns the bill of materials in the CycloneDX 1.6 format.
func (b *bill) cycloneDX(r *release, platform string) ([]byte, error) {
	components := slices.Clone(b.binaries)
	for _, purl := range slices.Sorted(maps.Keys(b.modules)) {
		components = append(components, b.modules[purl])
	}
	out, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{
			"timestamp": r.at.Format(time.RFC3339),
			"component": component{
				Type: "application", Ref: "toolhost", Name: "toolhost", Version: r.version,
				Properties: []property{{"platform", platform}, {"commit", r.commit}},
			},
		},
		"components": components,
	}, "", "  ")
	return append(out, '\n'), err
}
