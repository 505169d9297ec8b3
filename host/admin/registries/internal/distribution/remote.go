package distribution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"toolhost.dev/host/admin/registries/internal/fetch"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/trust"
)

// Outdated compares a locked version with the registry.
type Outdated struct {
	Name   string `json:"name"`
	Locked string `json:"locked"`
	// Fitting is the newest version that satisfies the constraint. Newest is the newest of all versions.
	Fitting string `json:"fitting,omitempty"`
	Newest  string `json:"newest,omitempty"`
	Note    string `json:"note,omitempty"`
	Error   string `json:"error,omitempty"`
	// Due reports whether the operator should act, for example because of an upgrade or an alarm.
	Due bool `json:"due"`

	err error
}

// Outdated looks for newer versions. It changes nothing.
func (m *Manager) Outdated(ctx context.Context) ([]Outdated, error) {
	lock, err := trust.Read(m.Lock)
	if err != nil {
		return nil, err
	}
	var out []Outdated
	var errs []error
	for _, w := range m.Wanted {
		pin, ok := lock.Plugins[w.Name]
		if !ok || pin.Source != w.Source.String() {
			out = append(out, Outdated{Name: w.Name, Note: "not in the lock file: toolhost plugin install", Due: true})
			continue
		}
		o := Outdated{Name: w.Name, Locked: pin.Version}
		if err := m.outdated(ctx, w, &pin, &o); err != nil {
			o.err, o.Error = err, err.Error()
			errs = append(errs, fmt.Errorf("plugin %s: %w", w.Name, err))
		}
		out = append(out, o)
	}
	return out, errors.Join(errs...)
}

func (m *Manager) outdated(ctx context.Context, w Wanted, pin *trust.Pin, o *Outdated) error {
	repo, err := m.open(w.Source)
	if err != nil {
		return err
	}
	tags, err := repo.Tags(ctx)
	if err != nil {
		return err
	}
	versions := artifact.VersionsOf(tags)
	if v, ok := artifact.SelectVersion(versions, artifact.Constraint{}, nil); ok {
		o.Newest = v.String()
	}
	if v, ok := artifact.SelectVersion(versions, w.Constraint, nil); ok {
		o.Fitting = v.String()
	}
	alarm, note, err := m.alarm(ctx, repo, w, pin)
	if err != nil {
		return err
	}
	o.Note = note
	is, err := artifact.ParseVersion(pin.Version)
	if err != nil {
		return err
	}
	fits, err := artifact.ParseVersion(o.Fitting)
	o.Due = alarm || err == nil && fits.Compare(is) > 0
	return nil
}

// alarm reports whether the operator must be informed of a change in the registry: the locked version is missing, has
// different content or files, or was yanked. The second result describes the change.
func (m *Manager) alarm(ctx context.Context, repo fetch.Repository, w Wanted, pin *trust.Pin) (bool, string, error) {
	at, raw, err := repo.Manifest(ctx, pin.Version)
	if errors.Is(err, fetch.ErrNotFound) {
		return true, fmt.Sprintf("version %s is gone from the registry", pin.Version), nil
	}
	if err != nil {
		return false, "", err
	}
	if at.Digest != pin.Index {
		return true, fmt.Sprintf("ALARM: version %s was republished with other content; the locked content stays in use", pin.Version), nil
	}
	r, err := m.releaseAt(ctx, repo, w.Source, pin.Version, at, raw, known{pin.Key, true, pin.Unsigned}, Consent{})
	if err != nil {
		return false, "", err
	}
	if !maps.Equal(pin.Platforms, platformsOf(r.index)) {
		return true, fmt.Sprintf("ALARM: version %s has other files in the lock file than in its index %s. Restore the lock file from version control", pin.Version, pin.Index), nil
	}
	if r.verdict.withdrawn {
		return true, fmt.Sprintf("yanked: %q", r.verdict.yanked), nil
	}
	return false, "", nil
}

// Verified is the result of a verification.
type Verified struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Problem describes what differs. It is empty if the plugin is as in the lock file.
	Problem string `json:"problem,omitempty"`
}

// Verify compares the files of the installed plugins with the lock file. If the argument "remote" is true, it also
// checks the signatures in the registry, and whether a version was yanked or republished.
func (m *Manager) Verify(ctx context.Context, remote bool) ([]Verified, error) {
	lock, err := trust.Read(m.Lock)
	if err != nil {
		return nil, err
	}
	var out []Verified
	for _, w := range m.Wanted {
		pin, ok := lock.Plugins[w.Name]
		v := Verified{Name: w.Name, Version: pin.Version}
		if !ok || pin.Source != w.Source.String() {
			v.Problem = "not in the lock file: toolhost plugin install"
			out = append(out, v)
			continue
		}
		build := pin.Platforms[trust.ThisPlatform()]
		dir := m.Store.Dir(build.Content)
		switch content, entry, err := artifact.HashDir(dir, pin.Base()); {
		case !fileExists(dir):
			v.Problem = "not installed here: toolhost plugin install"
		case err != nil:
			v.Problem = fmt.Sprintf("its files cannot be read: %v. Install them again: toolhost plugin install --reinstall %s", err, w.Name)
		case content != build.Content || entry != build.Entry:
			v.Problem = fmt.Sprintf("its files changed: they have the hash %s, but %s is locked. Install them again: toolhost plugin install --reinstall %s", content, build.Content, w.Name)
		}
		if remote && v.Problem == "" {
			repo, err := m.open(w.Source)
			if err == nil {
				_, v.Problem, err = m.alarm(ctx, repo, w, &pin)
			}
			if err != nil {
				v.Problem = err.Error()
			}
		}
		out = append(out, v)
	}
	packages, err := m.verifyPackages(lock)
	return append(out, packages...), err
}

// Mirrored describes a copied version.
type Mirrored struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	To      string `json:"to"`
	Bytes   int64  `json:"bytes"`
}

// Mirror copies the locked versions of some platforms, with their signatures and other documents, to another place.
// Without platforms, it copies the versions of all platforms. It checks the signatures first.
func (m *Manager) Mirror(ctx context.Context, to string, platforms []string) ([]Mirrored, error) {
	lock, err := trust.Read(m.Lock)
	if err != nil {
		return nil, err
	}
	var out []Mirrored
	for _, name := range slices.Sorted(maps.Keys(lock.Plugins)) {
		pin := lock.Plugins[name]
		if pin.Source == "" {
			continue
		}
		done, err := m.mirrorOne(ctx, to, platforms, &pin)
		if err != nil {
			return out, fmt.Errorf("plugin %s: %w", name, err)
		}
		done.Name = name
		out = append(out, *done)
	}
	return out, nil
}

func (m *Manager) mirrorOne(ctx context.Context, to string, platforms []string, pin *trust.Pin) (*Mirrored, error) {
	name, err := artifact.ParseName(pin.Source)
	if err != nil {
		return nil, err
	}
	place, err := artifact.NameBelow(to, name, name.Path)
	if err != nil {
		return nil, err
	}
	if place.Kind == artifact.Registry && len(platforms) > 0 {
		return nil, errors.New("a registry refuses an index that lacks a platform: copy all platforms, or use a directory (file:///…)")
	}
	from, err := m.open(name)
	if err != nil {
		return nil, err
	}
	target, err := fetch.Open(place, fetch.Options{Warn: m.Warn})
	if err != nil {
		return nil, err
	}
	at, raw, err := from.Manifest(ctx, pin.Index)
	if err != nil {
		return nil, err
	}
	at.MediaType = artifact.TypeIndex
	r, err := m.releaseAt(ctx, from, name, pin.Version, at, raw, known{pin.Key, true, pin.Unsigned}, Consent{})
	if err == nil && !maps.Equal(pin.Platforms, platformsOf(r.index)) {
		err = fmt.Errorf("version %s has other files in the lock file than in its index %s. Restore the lock file from version control", pin.Version, pin.Index)
	}
	if err != nil {
		return nil, err
	}
	out := &Mirrored{Version: pin.Version, To: place.String()}
	digests, err := chosen(ctx, r, platforms)
	if err != nil {
		return nil, err
	}
	for _, digest := range digests.builds {
		n, err := m.copyManifest(ctx, from, target, digest, buildOf)
		if err != nil {
			return nil, err
		}
		out.Bytes += n
	}
	if err := target.PushManifest(ctx, at, raw, ""); err != nil {
		return nil, err
	}
	for _, digest := range digests.referrers {
		n, err := m.copyManifest(ctx, from, target, digest, documentOf)
		if err != nil {
			return nil, err
		}
		out.Bytes += n
	}
	return out, target.PushManifest(ctx, at, raw, pin.Version)
}

// parts contains the digests of the manifests that belong to a version.
type parts struct{ builds, referrers []string }

// chosen returns the parts of a version for some platforms. Without platforms, it returns the parts for
// all platforms.
func chosen(ctx context.Context, r *release, platforms []string) (out parts, err error) {
	for _, p := range platforms {
		if _, err := r.index.For(p); err != nil {
			return out, err
		}
	}
	for _, e := range r.index.Manifests {
		if len(platforms) == 0 || slices.Contains(platforms, e.Platform.String()) {
			out.builds = append(out.builds, e.Digest)
		}
	}
	referrers, err := r.repo.Referrers(ctx, r.at, "")
	for _, d := range referrers {
		out.referrers = append(out.referrers, d.Digest)
	}
	return out, err
}

// These constants limit a document that is attached to a version, such as a signature. Without them, a registry could
// attach so many blobs that they fill the disk of a mirror.
const (
	maxDocument = 16 << 20
	maxParts    = 4
)

// buildOf reads the manifest of a platform. documentOf reads the manifest of an attached document.
func buildOf(raw []byte) (*artifact.Manifest, error) { return artifact.ReadManifest(raw) }

func documentOf(raw []byte) (*artifact.Manifest, error) {
	var out artifact.Manifest
	if err := unmarshal(raw, &out); err != nil {
		return nil, err
	}
	if len(out.Layers) > maxParts {
		return nil, fmt.Errorf("an attached document has %d parts; at most %d are copied", len(out.Layers), maxParts)
	}
	for _, d := range append(slices.Clone(out.Layers), out.Config) {
		if d.Size < 0 || d.Size > maxDocument {
			return nil, fmt.Errorf("an attached document has %d bytes; at most %d are copied", d.Size, maxDocument)
		}
	}
	return &out, nil
}

// copyManifest copies a manifest and its blobs. The function "read" reads the manifest and checks its sizes.
func (m *Manager) copyManifest(ctx context.Context, from, to fetch.Repository, digest string,
	read func([]byte) (*artifact.Manifest, error)) (n int64, err error) {
	at, raw, err := from.Manifest(ctx, digest)
	if err != nil {
		return 0, err
	}
	manifest, err := read(raw)
	if err != nil {
		return 0, err
	}
	for _, d := range append(slices.Clone(manifest.Layers), manifest.Config) {
		if err := m.copyBlob(ctx, from, to, d); err != nil {
			return n, err
		}
		n += d.Size
	}
	at.MediaType, at.ArtifactType = artifact.TypeManifest, manifest.ArtifactType
	return n, to.PushManifest(ctx, at, raw, "")
}

func (m *Manager) copyBlob(ctx context.Context, from, to fetch.Repository, d artifact.Descriptor) error {
	part, err := fetch.Get(ctx, from, d, m.Store.Partial(), nil)
	if err != nil {
		return err
	}
	if _, err := part.File.Seek(0, io.SeekStart); err != nil {
		return errors.Join(err, part.Close())
	}
	return errors.Join(to.PushBlob(ctx, d, part.File), part.Done())
}

// Info describes a plugin in a registry.
type Info struct {
	Source    string           `json:"source"`
	Version   string           `json:"version"`
	Versions  []string         `json:"versions"`
	Config    *artifact.Config `json:"config"`
	Needs     []string         `json:"needs,omitempty"`
	Platforms []string         `json:"platforms"`
	Key       string           `json:"key,omitempty"`
	Publisher string           `json:"publisher,omitempty"`
	Unsigned  bool             `json:"unsigned,omitempty"`
	Yanked    string           `json:"yanked,omitempty"`
	// Documents lists the media types of attached documents. The claims in these documents are not checked.
	Documents []string `json:"documents,omitempty"`
}

// Info describes a version of a plugin without installing it. An empty version means the newest one.
func (m *Manager) Info(ctx context.Context, name artifact.Name, version string) (*Info, error) {
	repo, err := m.open(name)
	if err != nil {
		return nil, err
	}
	tags, err := repo.Tags(ctx)
	if err != nil {
		return nil, err
	}
	versions := artifact.VersionsOf(tags)
	if version == "" {
		v, ok := artifact.SelectVersion(versions, artifact.Constraint{}, nil)
		if !ok {
			return nil, noVersion(Wanted{Source: name}, versions, nil)
		}
		version = v.String()
	}
	r, err := m.release(ctx, repo, name, version, "", Consent{Unsigned: true})
	if err != nil {
		return nil, err
	}
	out := &Info{Source: name.String(), Version: version, Key: r.verdict.key.Fingerprint,
		Publisher: r.verdict.publisher, Unsigned: r.verdict.unsigned}
	if r.verdict.withdrawn {
		out.Yanked = r.verdict.yanked
	}
	for _, v := range versions {
		out.Versions = append(out.Versions, v.String())
	}
	for _, e := range r.index.Manifests {
		out.Platforms = append(out.Platforms, e.Platform.String())
	}
	for _, d := range r.verdict.others {
		out.Documents = append(out.Documents, d.ArtifactType)
	}
	_, raw, err := repo.Manifest(ctx, r.index.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	manifest, err := artifact.ReadManifest(raw)
	if err != nil {
		return nil, err
	}
	text, err := fetch.Small(ctx, repo, manifest.Config)
	if err != nil {
		return nil, err
	}
	if out.Config, err = artifact.ReadConfig(text); err == nil {
		out.Needs = needed(out.Config.Description)
	}
	return out, err
}
