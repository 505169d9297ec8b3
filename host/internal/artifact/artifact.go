// Package artifact defines the form of a plugin in a registry, and packs and unpacks its files. An artifact is an OCI
// image index with one manifest for each platform. A manifest has a [Config] and one layer with the plugin's files.
// Most callers want [Pack], [Unpack] and [ReadIndex].
//
// The index carries the hash of each platform's files. One signature of the index therefore covers all platforms, and
// one small request is enough to lock them.
//
// A [Name] is the whole name of a plugin such as "registry.example.org/acme/weather": there is no default registry and
// no search order. [ParseName] and [ParseConstraint] read what people write, and [SelectVersion] selects a version.
//
// [Sign] signs the digest of an artifact, and [Verify] checks a signature. A signature is a sigstore bundle v0.3, as
// "cosign sign --key" writes it: one DSSE envelope around an in-toto statement about the digest. Keys are ECDSA P-256
// or Ed25519.
//
// A [Store] holds the files of installed plugins under the hash of their content. The directory of a plugin appears by
// one rename and never changes afterwards. Below the root are the directories "content" (installed plugins), "partial"
// (downloads and files that are being unpacked) and "records" (which lock files use the store).
package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"toolhost.dev/host/internal/lazyregexp"

	"toolhost.dev/sdk/tool"
)

// Media types.
const (
	TypeIndex    = "application/vnd.oci.image.index.v1+json"
	TypeManifest = "application/vnd.oci.image.manifest.v1+json"
	TypeConfig   = "application/vnd.toolhost.plugin.config.v1+json"
	TypeLayer    = "application/vnd.oci.image.layer.v1.tar+zstd"
	TypeEmpty    = "application/vnd.oci.empty.v1+json"
)

// Annotations of the index, which the signature covers.
const (
	// AnnotationSource is the source of the plugin. Without it, a registry could serve one plugin of a publisher as
	// another one.
	AnnotationSource = "dev.toolhost.source"
	// AnnotationVersion is the version of the plugin. Without it, a registry could serve an old version as a new one.
	AnnotationVersion = "org.opencontainers.image.version"
	// AnnotationContent and AnnotationEntry are annotations of a platform: the hash of its files and the SHA-256 of its
	// program.
	AnnotationContent = "dev.toolhost.content"
	AnnotationEntry   = "dev.toolhost.entry"
)

// Limits of an artifact.
const (
	// MaxManifest is the maximum size of an index, of a manifest, and of a config, in bytes.
	MaxManifest = 1 << 20
	// MaxPlatforms is the maximum number of platforms.
	MaxPlatforms = 64
	// MaxUnpacked is the maximum size of a plugin's files, in bytes. MaxFiles is the maximum number of files.
	MaxUnpacked = 512 << 20
	MaxFiles    = 50_000
)

// Descriptor refers to a part of an artifact by its digest.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Platform     *Platform         `json:"platform,omitempty"`
}

// Platform is the system for which a plugin was built.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// String returns the platform as OS/ARCHITECTURE.
func (p Platform) String() string { return p.OS + "/" + p.Architecture }

var platformForm = lazyregexp.New(`^[a-z0-9]{1,20}/[a-z0-9]{1,20}$`)

// ParsePlatform reads a platform such as "linux/amd64".
func ParsePlatform(text string) (Platform, error) {
	if !platformForm.MatchString(text) {
		return Platform{}, fmt.Errorf("%.40q is not a platform; write the system and the architecture, such as linux/amd64", text)
	}
	os, arch, _ := strings.Cut(text, "/")
	return Platform{OS: os, Architecture: arch}, nil
}

// Index is an image index. It has no artifactType, because some tools that copy artifacts drop it. The digest of the
// copy would differ, and the signature would not apply.
type Index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []Descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Manifest is an image manifest.
type Manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        Descriptor        `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Subject       *Descriptor       `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// Config describes a plugin before it is downloaded.
type Config struct {
	// Name is the name of the plugin and of its program. Version is the version that the plugin reports.
	Name    string `json:"name"`
	Version string `json:"version"`
	// Runtime is the program that the plugin needs, such as "python>=3.11". It is "none" for a plugin that needs no
	// other program.
	Runtime string `json:"runtime"`
	// Summary describes the plugin in one line.
	Summary string `json:"summary,omitempty"`
	// Description is the description that the plugin itself reports.
	Description *tool.Description `json:"description"`
}

var (
	digestForm  = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)
	contentForm = lazyregexp.New(`^h1:[A-Za-z0-9+/]{43}=$`)
	runtimeForm = lazyregexp.New(`^(none|(python|node)>=[0-9]+(\.[0-9]+)*)$`)
)

// ValidDigest reports whether text is a SHA-256 digest.
func ValidDigest(text string) bool { return digestForm.MatchString(text) }

// ValidContent reports whether text is a hash of files.
func ValidContent(text string) bool { return contentForm.MatchString(text) }

// CheckRuntime returns an error if text names no known runtime.
func CheckRuntime(text string) error {
	if !runtimeForm.MatchString(text) {
		return fmt.Errorf("%.40q is not a runtime; use none, or a program and its lowest version, such as python>=3.11 or node>=20", text)
	}
	return nil
}

// ReadIndex reads an index and checks its form.
func ReadIndex(b []byte) (*Index, error) {
	var out Index
	if err := decode(b, &out, "index"); err != nil {
		return nil, err
	}
	if out.MediaType != TypeIndex {
		return nil, fmt.Errorf("this is not a plugin: its manifest has the type %.80q, not %s", out.MediaType, TypeIndex)
	}
	if n := len(out.Manifests); n == 0 || n > MaxPlatforms {
		return nil, fmt.Errorf("the index has %d platforms; a plugin has 1 to %d", n, MaxPlatforms)
	}
	seen := make(map[string]bool)
	for _, m := range out.Manifests {
		if m.Platform == nil || !platformForm.MatchString(m.Platform.String()) || seen[m.Platform.String()] {
			return nil, errors.New("the index has an entry without a platform of its own, so this is not a plugin of toolhost")
		}
		seen[m.Platform.String()] = true
		if !ValidDigest(m.Digest) || m.MediaType != TypeManifest || m.Size < 1 || m.Size > MaxManifest ||
			!ValidContent(m.Annotations[AnnotationContent]) || !ValidDigest(m.Annotations[AnnotationEntry]) {
			return nil, fmt.Errorf("the index entry of %s lacks the hashes of its files, so this is not a plugin of toolhost", m.Platform)
		}
	}
	return &out, nil
}

// For returns the entry of a platform. If the index has no such entry, the error lists the platforms of the plugin.
func (i *Index) For(platform string) (*Descriptor, error) {
	have := make(map[string]bool)
	for k := range i.Manifests {
		if i.Manifests[k].Platform.String() == platform {
			return &i.Manifests[k], nil
		}
		have[i.Manifests[k].Platform.String()] = true
	}
	return nil, fmt.Errorf("there is no build for %s, only for %s", platform,
		strings.Join(slices.Sorted(maps.Keys(have)), ", "))
}

// ReadManifest reads the manifest of a platform and checks its form.
func ReadManifest(b []byte) (*Manifest, error) {
	var out Manifest
	if err := decode(b, &out, "manifest"); err != nil {
		return nil, err
	}
	switch {
	case out.Config.MediaType != TypeConfig || !ValidDigest(out.Config.Digest):
		return nil, fmt.Errorf("this is not a plugin: its config has the type %.80q, not %s", out.Config.MediaType, TypeConfig)
	case out.Config.Size < 2 || out.Config.Size > MaxManifest:
		return nil, fmt.Errorf("the config has %d bytes; at most %d are allowed", out.Config.Size, MaxManifest)
	case len(out.Layers) != 1 || out.Layers[0].MediaType != TypeLayer || !ValidDigest(out.Layers[0].Digest):
		return nil, fmt.Errorf("this is not a plugin: it has %d layers, not one layer of the type %s", len(out.Layers), TypeLayer)
	case out.Layers[0].Size < 1 || out.Layers[0].Size > MaxUnpacked:
		return nil, fmt.Errorf("the layer has %d bytes; at most %d are allowed", out.Layers[0].Size, MaxUnpacked)
	}
	return &out, nil
}

// ReadConfig reads the config of a platform.
func ReadConfig(b []byte) (*Config, error) {
	var out Config
	if err := decode(b, &out, "config"); err != nil {
		return nil, err
	}
	if out.Description == nil {
		return nil, errors.New("the config lacks the description of the plugin")
	}
	if err := CheckRuntime(out.Runtime); err != nil {
		return nil, err
	}
	return &out, nil
}

func decode(b []byte, into any, what string) error {
	if len(b) > MaxManifest {
		return fmt.Errorf("the %s is larger than %d bytes", what, MaxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the %s cannot be read: %w", what, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the %s has bytes after its end", what)
	}
	return nil
}
