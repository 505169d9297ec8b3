package distribution

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"toolhost.dev/host/admin/registries/internal/fetch"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/ownfile"
)

// typeCatalog is the artifact type of a catalog.
const typeCatalog = "application/vnd.toolhost.catalog.v1+jsonl"

// Listed is a plugin in a catalog.
type Listed struct {
	Source  string   `json:"source"`
	Summary string   `json:"summary,omitempty"`
	Tools   []string `json:"tools,omitempty"`
	// Catalog is the name of the catalog in the configuration.
	Catalog string `json:"catalog,omitempty"`
}

// cached is the copy of a catalog on this machine.
type cached struct {
	Source  string   `json:"source"`
	Version string   `json:"version"`
	Key     string   `json:"key"`
	Plugins []Listed `json:"plugins"`
}

// readCatalog reads a catalog. Each line of a catalog contains one JSON object.
func readCatalog(text []byte) ([]Listed, error) {
	var out []Listed
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var l Listed
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		err := d.Decode(&l)
		if err == nil {
			_, err = artifact.ParseName(l.Source)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the catalog cannot be read: %w. Each line is one object, such as {\"source\": \"registry.example.org/acme/weather\", \"summary\": \"…\"}", len(out)+1, err)
		}
		out = append(out, l)
	}
	return out, nil
}

// PublishCatalog publishes a list of plugins. The key must not be nil, because a catalog must be signed.
func (m *Manager) PublishCatalog(ctx context.Context, ref artifact.Reference, place artifact.Place, file string,
	key crypto.Signer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err := readCatalog(text); err != nil {
		return err
	}
	repo, err := fetch.Open(place, fetch.Options{Warn: m.Warn})
	if err != nil {
		return err
	}
	layer := artifact.Descriptor{MediaType: typeCatalog, Digest: fetch.Digest(text), Size: int64(len(text))}
	empty := artifact.Descriptor{MediaType: artifact.TypeEmpty, Digest: fetch.Digest([]byte("{}")), Size: 2}
	if err := errors.Join(repo.PushBlob(ctx, layer, bytes.NewReader(text)),
		repo.PushBlob(ctx, empty, strings.NewReader("{}"))); err != nil {
		return err
	}
	raw, err := json.Marshal(artifact.Manifest{
		SchemaVersion: 2, MediaType: artifact.TypeManifest, ArtifactType: typeCatalog, Config: empty,
		Layers: []artifact.Descriptor{layer},
		Annotations: map[string]string{
			artifact.AnnotationSource: ref.String(), artifact.AnnotationVersion: ref.Version.String(),
		},
	})
	if err != nil {
		return err
	}
	at := artifact.Descriptor{MediaType: artifact.TypeManifest, Digest: fetch.Digest(raw), Size: int64(len(raw))}
	p := &Publication{Key: key}
	return p.finish(ctx, subject{repo, ref.Name, ref.Version.String(), at}, raw, new(Published))
}

func (m *Manager) cache(c config.Catalog) ownfile.File {
	return ownfile.File{
		Path: filepath.Join(m.Store.Root(), "records", "catalog-"+strings.NewReplacer("/", "_", ":",
			"_").Replace(c.Source.String())+".list"), Name: "the copy of the catalog",
	}
}

// UpdateCatalogs downloads the catalogs of the configuration.
func (m *Manager) UpdateCatalogs(ctx context.Context) error {
	if len(m.Settings.Catalogs) == 0 {
		return errors.New("the configuration has no catalog; add one: catalog \"acme\" { source = \"registry.example.org/acme/catalog\" }")
	}
	for _, c := range m.Settings.Catalogs {
		if err := m.updateCatalog(ctx, c); err != nil {
			return fmt.Errorf("catalog %s: %w", c.Name, err)
		}
	}
	return nil
}

func (m *Manager) updateCatalog(ctx context.Context, c config.Catalog) error {
	repo, err := m.open(c.Source)
	if err != nil {
		return err
	}
	tags, err := repo.Tags(ctx)
	if err != nil {
		return err
	}
	v, ok := artifact.SelectVersion(artifact.VersionsOf(tags), artifact.Constraint{}, nil)
	if !ok {
		return fmt.Errorf("%s has no version", c.Source)
	}
	return m.cache(c).Change(func() (any, error) {
		var was cached
		if err := m.cache(c).Read(&was); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if before, err := artifact.ParseVersion(was.Version); err == nil && v.Compare(before) < 0 {
			return nil, fmt.Errorf("the registry serves version %s, which is older than version %s of the copy here", v, was.Version)
		}
		at, raw, err := repo.Manifest(ctx, v.String())
		if err != nil {
			return nil, err
		}
		var manifest artifact.Manifest
		if err := unmarshal(raw, &manifest); err != nil || len(manifest.Layers) != 1 ||
			manifest.ArtifactType != typeCatalog {
			return nil, errors.Join(errors.New("this is not a catalog"), err)
		}
		if err := checkNames(manifest.Annotations, c.Source, v.String()); err != nil {
			return nil, err
		}
		verdict, err := m.judge(ctx, subject{repo, c.Source, v.String(), at},
			known{key: was.Key, locked: was.Version == v.String()}, Consent{})
		if err != nil {
			return nil, err
		}
		text, err := fetch.Small(ctx, repo, manifest.Layers[0])
		if err != nil {
			return nil, err
		}
		plugins, err := readCatalog(text)
		return cached{c.Source.String(), v.String(), verdict.key.Fingerprint, plugins}, err
	})
}

// Search returns the plugins in the catalogs whose source, summary or tools contain all words. It needs no network
// after [Manager.UpdateCatalogs].
func (m *Manager) Search(words []string) (found []Listed, missing []string, err error) {
	for _, c := range m.Settings.Catalogs {
		var list cached
		if err := m.cache(c).Read(&list); err != nil {
			return nil, nil, err
		}
		if list.Source == "" {
			missing = append(missing, c.Name)
		}
		for _, p := range list.Plugins {
			text := strings.ToLower(p.Source + " " + p.Summary + " " + strings.Join(p.Tools, " "))
			if containsAll(text, words) {
				p.Catalog = c.Name
				found = append(found, p)
			}
		}
	}
	return found, missing, nil
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, strings.ToLower(w)) {
			return false
		}
	}
	return true
}

func unmarshal(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the manifest cannot be read: %w", err)
	}
	return nil
}
