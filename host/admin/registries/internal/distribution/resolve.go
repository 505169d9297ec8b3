package distribution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/admin/registries/internal/fetch"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/privilege"
	"toolhost.dev/host/internal/trust"
)

// candidate is a version that can enter the lock file.
type candidate struct {
	pin     trust.Pin
	verdict *verdict
	config  *artifact.Config
	bytes   int64
}

// release is a version whose index is trusted.
type release struct {
	subject
	index   *artifact.Index
	raw     []byte
	verdict *verdict
}

// release reads the index of a version and decides whether it is trusted.
func (m *Manager) release(ctx context.Context, repo fetch.Repository, name artifact.Name, version, key string,
	consent Consent) (*release, error) {
	at, raw, err := repo.Manifest(ctx, version)
	if err != nil {
		return nil, err
	}
	out, err := m.releaseAt(ctx, repo, name, version, at, raw, known{key: key}, consent)
	if err != nil {
		return nil, fmt.Errorf("version %s of %s is refused: %w", version, name, err)
	}
	return out, nil
}

func (m *Manager) releaseAt(ctx context.Context, repo fetch.Repository, name artifact.Name, version string,
	at artifact.Descriptor, raw []byte, was known, consent Consent) (*release, error) {
	index, err := artifact.ReadIndex(raw)
	if err != nil {
		return nil, err
	}
	if err := checkNames(index.Annotations, name, version); err != nil {
		return nil, err
	}
	s := subject{repo, name, version, at}
	v, err := m.judge(ctx, s, was, consent)
	if err != nil {
		return nil, err
	}
	return &release{s, index, raw, v}, nil
}

// newest returns the newest version that satisfies the constraint, was not withdrawn and has a trusted signature. If
// the lock file already has this version, newest returns nil.
func (m *Manager) newest(ctx context.Context, repo fetch.Repository, w Wanted, locked *trust.Pin,
	consent Consent) (*release, error) {
	tags, err := repo.Tags(ctx)
	if err != nil {
		return nil, err
	}
	versions := artifact.VersionsOf(tags)
	key := ""
	if locked != nil {
		key = locked.Key
	}
	yanked := make(map[string]bool)
	for {
		v, ok := artifact.SelectVersion(versions, w.Constraint, func(v artifact.Version) bool {
			return yanked[v.String()]
		})
		if !ok {
			return nil, noVersion(w, versions, yanked)
		}
		if locked != nil && v.String() == locked.Version {
			return nil, nil
		}
		if locked != nil && !consent.Downgrade {
			was, err := artifact.ParseVersion(locked.Version)
			if err == nil && v.Compare(was) < 0 {
				return nil, fmt.Errorf("the newest version that fits is %s, which is older than the locked %s. If that is intended: --allow-downgrade", v, locked.Version)
			}
		}
		r, err := m.release(ctx, repo, w.Source, v.String(), key, consent)
		if err != nil {
			return nil, err
		}
		if !r.verdict.withdrawn {
			return r, nil
		}
		yanked[v.String()] = true
	}
}

func noVersion(w Wanted, versions []artifact.Version, yanked map[string]bool) error {
	var have []string
	for _, v := range versions {
		text := v.String()
		if yanked[text] {
			text += " (yanked)"
		}
		have = append(have, text)
	}
	const shown = 10
	switch {
	case len(have) == 0:
		return fmt.Errorf("%s has no version: none of its tags is a version such as 1.2.3", w.Source)
	case len(have) > shown:
		have = append(have[:shown], "…")
	}
	if w.Constraint.String() == "" {
		return fmt.Errorf("%s has only prereleases or yanked versions (%s); name one: version = %q", w.Source, strings.Join(have, ", "), versions[0])
	}
	return fmt.Errorf("no version of %s satisfies %q; there are %s", w.Source, w.Constraint, strings.Join(have, ", "))
}

// admit downloads a trusted version for this platform, starts it once in a sandbox, and compares its description with
// the published description. After that, the version can enter the lock file.
func (m *Manager) admit(ctx context.Context, w Wanted, r *release) (*candidate, error) {
	build, err := r.index.For(trust.ThisPlatform())
	if err != nil {
		return nil, err
	}
	_, raw, err := r.repo.Manifest(ctx, build.Digest)
	if err != nil {
		return nil, err
	}
	manifest, err := artifact.ReadManifest(raw)
	if err != nil {
		return nil, err
	}
	text, err := fetch.Small(ctx, r.repo, manifest.Config)
	if err != nil {
		return nil, err
	}
	cfg, err := artifact.ReadConfig(text)
	if err != nil {
		return nil, err
	}
	if cfg.Name != w.Source.Base() || cfg.Version != r.version {
		return nil, fmt.Errorf("the artifact describes the plugin %.100q in version %.100q, but %s %s was asked for", cfg.Name, cfg.Version, w.Source.Base(), r.version)
	}
	pin := trust.Pin{
		Source: w.Source.String(), Constraint: w.Constraint.String(), Version: r.version, Index: r.at.Digest,
		Key: r.verdict.key.Fingerprint, Unsigned: r.verdict.unsigned,
		Platforms: platformsOf(r.index), Tools: trust.Definitions(cfg.Description.Defined()),
	}
	damaged, err := m.damaged(&pin)
	if err != nil {
		return nil, err
	}
	bytes, err := m.unpack(ctx, w, r.repo, manifest, &pin, damaged)
	if err != nil {
		return nil, err
	}
	if err := m.try(ctx, &pin, cfg); err != nil {
		if bytes > 0 { // the files were not in the store before
			_, gone := m.Store.Remove(pin.Platforms[trust.ThisPlatform()].Content)
			err = errors.Join(err, gone)
		}
		return nil, err
	}
	return &candidate{pin, r.verdict, cfg, bytes}, nil
}

// platformsOf returns the platforms of an index in the form of the lock file.
func platformsOf(index *artifact.Index) map[string]trust.Platform {
	out := make(map[string]trust.Platform, len(index.Manifests))
	for _, e := range index.Manifests {
		out[e.Platform.String()] = trust.Platform{Manifest: e.Digest,
			Content: e.Annotations[artifact.AnnotationContent], Entry: e.Annotations[artifact.AnnotationEntry]}
	}
	return out
}

// damaged reports whether the files of a version in the store changed after they were unpacked. Files in the store are
// not downloaded again, so damaged also checks the digest of the program.
func (m *Manager) damaged(pin *trust.Pin) (bool, error) {
	want := pin.Platforms[trust.ThisPlatform()]
	if !m.Store.Has(want.Content) {
		return false, nil
	}
	content, entry, err := artifact.HashDir(m.Store.Dir(want.Content), pin.Base())
	if err != nil || content != want.Content {
		return true, nil //nolint:nilerr // a file that is missing or cannot be read is damage, too
	}
	if entry != want.Entry {
		return false, fmt.Errorf("its program has the digest %s, but %s was announced", entry, want.Entry)
	}
	return false, nil
}

// unpack downloads the files of a pinned version for this platform, and adds them to the store. If the argument
// "replace" is true, the downloaded files replace the files in the store. The old files stay until the download is
// complete.
func (m *Manager) unpack(ctx context.Context, w Wanted, repo fetch.Repository, manifest *artifact.Manifest,
	pin *trust.Pin, replace bool) (int64, error) {
	want := pin.Platforms[trust.ThisPlatform()]
	if m.Store.Has(want.Content) && !replace {
		return 0, nil
	}
	layer := manifest.Layers[0]
	var progress func(int64)
	if m.Progress != nil {
		progress = func(have int64) { m.Progress(w.Name, have, layer.Size) }
	}
	d, err := fetch.Get(ctx, repo, layer, m.Store.Partial(), progress)
	if err != nil {
		return 0, err
	}
	if m.Store.Has(want.Content) && !replace { // another process added the version in the meantime
		return 0, d.Done()
	}
	dir, release, err := m.Store.Temporary()
	if err != nil {
		return 0, errors.Join(err, d.Close())
	}
	defer release()
	content, entry, err := artifact.Unpack(d.File, dir, pin.Base())
	switch {
	case err == nil && content != want.Content:
		err = fmt.Errorf("its files have the hash %s, but %s was announced", content, want.Content)
	case err == nil && entry != want.Entry:
		err = fmt.Errorf("its program has the digest %s, but %s was announced", entry, want.Entry)
	}
	if err := errors.Join(err, d.Done()); err != nil {
		return 0, err
	}
	if replace {
		if gone, err := m.Store.Remove(want.Content); err != nil {
			return 0, err
		} else if !gone {
			return 0, errors.New("a running host uses its files. Stop the host, then install it again")
		}
	}
	return layer.Size, m.Store.Publish(dir, want.Content)
}

// try starts a program once and compares its description with the published one.
func (m *Manager) try(ctx context.Context, pin *trust.Pin, cfg *artifact.Config) error {
	is, err := m.Describe(ctx, filepath.Join(m.Store.Dir(pin.Platforms[trust.ThisPlatform()].Content), pin.Base()))
	if err != nil {
		hint := ""
		if cfg.Runtime != "none" {
			hint = fmt.Sprintf(" It needs %s on this machine.", cfg.Runtime)
		}
		return fmt.Errorf("it cannot be started: %w.%s", err, hint)
	}
	if diff := differences(cfg, is); len(diff) > 0 {
		return fmt.Errorf("the plugin's description differs from the published one (%s), so it is refused. Ask its publisher", strings.Join(diff, "; "))
	}
	return nil
}

// differences returns the differences between a plugin's description and the published description.
func differences(cfg *artifact.Config, is *tool.Description) []string {
	var out []string
	if is.Name != cfg.Name || is.Version != cfg.Version {
		out = append(out, fmt.Sprintf("it is %.60s %.60s", is.Name, is.Version))
	}
	published := trust.Pin{Tools: trust.Definitions(cfg.Description.Defined())}
	out = append(out, published.Changes(is.Defined())...)
	if !reflect.DeepEqual(normal(is.Needs), normal(cfg.Description.Needs)) {
		out = append(out, "its needs differ")
	}
	return out
}

// normal returns needs in the form that they have after a conversion to JSON.
func normal(n *tool.Needs) any {
	var out any
	if b, err := json.Marshal(n); err == nil {
		_ = json.Unmarshal(b, &out) // ignore the error: the text was just written
	}
	return out
}

// needed returns the needs of a plugin as texts.
func needed(d *tool.Description) []string {
	if d == nil || d.Needs == nil {
		return nil
	}
	return privilege.GrantsOf(&config.Plugin{}, d.Needs).Needed
}

// checkResembling returns an error if a new source differs from a known source in one or two characters.
func (m *Manager) checkResembling(w Wanted, lock *trust.Lock) error {
	if m.publisherOf(w.Source) != nil {
		return nil
	}
	is := w.Source.String()
	var known []string
	for _, name := range slices.Sorted(maps.Keys(lock.Plugins)) {
		known = append(known, lock.Plugins[name].Source)
	}
	for _, k := range known {
		if k == is {
			return nil
		}
	}
	for _, k := range known {
		other, err := artifact.ParseName(k)
		if err != nil || other.Host == w.Source.Host &&
			strings.HasPrefix(w.Source.Path, strings.TrimSuffix(other.Path, other.Base())) { // the same publisher
			continue
		}
		if d := suggest.Distance(is, k); d > 0 && d <= 2 {
			return fmt.Errorf("the source %s is new and resembles %s, which is in the lock file. Check it for a typing error, then accept it: --accept-source", is, k)
		}
	}
	return nil
}

// fileExists reports whether a file exists.
func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
