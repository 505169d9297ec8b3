package distribution

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/admin/registries/internal/fetch"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/trust"
)

// Publication is a version that an author publishes.
type Publication struct {
	Reference artifact.Reference
	// Place is the place where the version is published. It differs from the reference if an author publishes to a
	// directory.
	Place artifact.Place
	// Builds maps platforms to a program, or to a directory with the program and other files.
	Builds map[string]string
	// Key signs the version. A nil Key means that the version is not signed.
	Key crypto.Signer
	// Runtime and Summary describe the plugin. See [artifact.Config].
	Runtime, Summary string
	// Attached maps the media types of additional documents, such as a bill of materials, to the paths of the
	// documents.
	Attached map[string]string
}

// Published describes a published version.
type Published struct {
	Reference string `json:"reference"`
	Place     string `json:"place"`
	Index     string `json:"index"`
	// Platforms maps platforms to the number of bytes of their layers.
	Platforms map[string]int64 `json:"platforms"`
	Tools     []string         `json:"tools"`
	Needs     []string         `json:"needs,omitempty"`
	Key       string           `json:"key,omitempty"`
}

// Publish publishes a version. It starts the build for this machine to read its description. It writes the tag last, so
// that nobody finds an incomplete version. It never replaces an existing version.
func (m *Manager) Publish(ctx context.Context, p Publication) (*Published, error) {
	ref := p.Reference
	description, err := m.describeBuild(ctx, p)
	if err != nil {
		return nil, err
	}
	repo, err := fetch.Open(p.Place, fetch.Options{Warn: m.Warn})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(artifact.Config{
		Name: ref.Base(), Version: ref.Version.String(), Runtime: p.Runtime, Summary: p.Summary,
		Description: description,
	})
	if err != nil {
		return nil, err
	}
	index := artifact.Index{SchemaVersion: 2, MediaType: artifact.TypeIndex, Annotations: map[string]string{
		artifact.AnnotationSource: ref.String(), artifact.AnnotationVersion: ref.Version.String(),
	}}
	out := &Published{Reference: ref.String() + ":" + ref.Version.String(), Place: p.Place.String(),
		Platforms: make(map[string]int64), Needs: needed(description)}
	for _, t := range description.Tools {
		out.Tools = append(out.Tools, t.Name)
	}
	for _, platform := range slices.Sorted(maps.Keys(p.Builds)) {
		entry, size, err := pushBuild(ctx, repo, platform, p.Builds[platform], ref.Base(), config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
		index.Manifests = append(index.Manifests, *entry)
		out.Platforms[platform] = size
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	at := artifact.Descriptor{MediaType: artifact.TypeIndex, Digest: fetch.Digest(raw), Size: int64(len(raw))}
	out.Index = at.Digest
	return out, p.finish(ctx, subject{repo, ref.Name, ref.Version.String(), at}, raw, out)
}

// finish adds the index, the signature and the attached documents. The tag follows last.
func (p *Publication) finish(ctx context.Context, s subject, raw []byte, out *Published) error {
	there, _, err := s.repo.Manifest(ctx, s.version)
	switch {
	case err == nil && there.Digest != s.at.Digest:
		return fmt.Errorf("version %s of %s exists with another content (%s). Versions never change: publish a higher one", s.version, s.name, there.Digest)
	case err != nil && !errors.Is(err, fetch.ErrNotFound):
		return err
	}
	if err := s.repo.PushManifest(ctx, s.at, raw, ""); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(p.Attached)) {
		text, err := os.ReadFile(p.Attached[kind])
		if err == nil && len(text) > artifact.MaxManifest {
			err = fmt.Errorf("%s is larger than %d bytes", p.Attached[kind], artifact.MaxManifest)
		}
		if err == nil {
			err = s.attach(ctx, kind, text, nil)
		}
		if err != nil {
			return err
		}
	}
	if p.Key != nil {
		if err := s.sign(ctx, p.Key, artifact.TypeSignature, artifact.Signed, struct{}{}); err != nil {
			return err
		}
		key, err := artifact.KeyOf(p.Key)
		if err != nil {
			return err
		}
		out.Key = key.Fingerprint
	}
	return s.repo.PushManifest(ctx, s.at, raw, s.version)
}

// describeBuild returns the description of the build for this machine, and checks its name and version.
func (m *Manager) describeBuild(ctx context.Context, p Publication) (*tool.Description, error) {
	path, ok := p.Builds[trust.ThisPlatform()]
	if !ok {
		return nil, fmt.Errorf("there is no build for this machine, which is needed to read the tools: add --platform %s=PATH", trust.ThisPlatform())
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, p.Reference.Base())
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d, err := m.Describe(ctx, abs)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", path, err)
	}
	switch {
	case d.Name != p.Reference.Base():
		return nil, fmt.Errorf("%s is the plugin %q, but the reference ends in %q; both must have the same name", path, d.Name, p.Reference.Base())
	case d.Version != p.Reference.Version.String():
		return nil, fmt.Errorf("%s reports the version %q, but is published as %s; both must be the same", path, d.Version, p.Reference.Version)
	case slices.Contains(d.Capabilities, tool.CapabilityDiscovery):
		return nil, fmt.Errorf("%s finds its tools at run time, so they cannot be published and locked", path)
	}
	return d, nil
}

// pushBuild packs the build for one platform and pushes it. It returns the entry of the index.
func pushBuild(ctx context.Context, repo fetch.Repository, platform, from, name string,
	config []byte) (*artifact.Descriptor, int64, error) {
	is, err := artifact.ParsePlatform(platform)
	if err != nil {
		return nil, 0, err
	}
	file, err := os.CreateTemp("", "toolhost-layer-*")
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()           //nolint:errcheck // it is removed
	defer os.Remove(file.Name()) //nolint:errcheck // in the directory for temporary files
	packed, err := artifact.Pack(file, from, name)
	if err != nil {
		return nil, 0, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, 0, err
	}
	layer := artifact.Descriptor{MediaType: artifact.TypeLayer, Digest: packed.Digest, Size: packed.Size}
	described := artifact.Descriptor{
		MediaType: artifact.TypeConfig, Digest: fetch.Digest(config), Size: int64(len(config)),
	}
	if err := repo.PushBlob(ctx, layer, file); err != nil {
		return nil, 0, err
	}
	if err := repo.PushBlob(ctx, described, bytes.NewReader(config)); err != nil {
		return nil, 0, err
	}
	b, err := json.Marshal(artifact.Manifest{
		SchemaVersion: 2, MediaType: artifact.TypeManifest, Config: described, Layers: []artifact.Descriptor{layer},
	})
	if err != nil {
		return nil, 0, err
	}
	at := artifact.Descriptor{MediaType: artifact.TypeManifest, Digest: fetch.Digest(b), Size: int64(len(b))}
	if err := repo.PushManifest(ctx, at, b, ""); err != nil {
		return nil, 0, err
	}
	at.Platform = &is
	at.Annotations = map[string]string{
		artifact.AnnotationContent: packed.Content, artifact.AnnotationEntry: packed.Entry,
	}
	return &at, packed.Size, nil
}

// Yank withdraws a version. Later upgrades skip the version, and installations that have the version show the reason.
func (m *Manager) Yank(ctx context.Context, ref artifact.Reference, place artifact.Place, key crypto.Signer,
	reason string) error {
	if reason == "" || len(reason) > maxReason {
		return fmt.Errorf("the reason has %d characters; write 1 to %d, and name the version to use instead", len(reason), maxReason)
	}
	repo, err := fetch.Open(place, fetch.Options{Warn: m.Warn})
	if err != nil {
		return err
	}
	at, raw, err := repo.Manifest(ctx, ref.Version.String())
	if err != nil {
		return err
	}
	public, err := artifact.KeyOf(key)
	if err != nil {
		return err
	}
	if _, err := m.releaseAt(ctx, repo, ref.Name, ref.Version.String(), at, raw,
		known{key: public.Fingerprint, locked: true}, Consent{}); err != nil {
		return fmt.Errorf("a version can only be withdrawn with the key that signed it. Name that key with --key: %w", err)
	}
	return subject{repo, ref.Name, ref.Version.String(), at}.sign(ctx, key, typeYank, artifact.Yanked, withdrawal{
		reason,
	})
}

// CheckRuntime returns an error if the text is not the name of a known runtime.
func CheckRuntime(text string) error { return artifact.CheckRuntime(text) }
