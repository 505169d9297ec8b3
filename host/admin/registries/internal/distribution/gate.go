package distribution

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host/admin/registries/internal/fetch"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/config"
)

const (
	// typeYank is the artifact type of a withdrawal.
	typeYank = "application/vnd.toolhost.yank.v1+json"
	// annotationKey is the name of an annotation of signatures. The annotation contains the public key in base64. If no
	// publisher block matches the source, the first installation accepts this key.
	annotationKey = "dev.toolhost.key"
)

// subject is the version or the catalog that a publisher signed.
type subject struct {
	repo    fetch.Repository
	name    artifact.Name
	version string
	at      artifact.Descriptor
}

// verdict is the result of the gate.
type verdict struct {
	key       artifact.Key
	publisher string
	unsigned  bool
	isNew     bool // whether the key was not known before
	yanked    string
	withdrawn bool
	others    []artifact.Descriptor // referrers that are not signatures
}

// errUnsigned means that a version has no signature.
var errUnsigned = errors.New("it is not signed. Ask its publisher, or accept it for this version: --allow-unsigned")

// publisherOf returns the publisher block for a source. If several blocks match, publisherOf returns the block with the
// longest matching pattern.
func (m *Manager) publisherOf(n artifact.Name) *config.Publisher {
	var best *config.Publisher
	length := -1
	for i := range m.Settings.Publishers {
		for _, p := range m.Settings.Publishers[i].Sources {
			if p.Matches(n) && len(p) > length {
				best, length = &m.Settings.Publishers[i], len(p)
			}
		}
	}
	return best
}

// known contains the data about a source in the lock file.
type known struct {
	// key is the fingerprint of the key of the locked version. It is "" if the source is not locked.
	key string
	// locked reports whether the version in question is the locked version. The field "unsigned" reports
	// whether the lock file records this version as unsigned.
	locked, unsigned bool
}

// judge decides whether a version is trusted. The commands install, upgrade, mirror, verify and search all use this
// method.
func (m *Manager) judge(ctx context.Context, s subject, was known, consent Consent) (*verdict, error) {
	referrers, err := s.repo.Referrers(ctx, s.at, "")
	if err != nil {
		return nil, err
	}
	publisher := m.publisherOf(s.name)
	out := &verdict{}
	if publisher != nil {
		out.publisher = publisher.Name
	}
	var signers []string
	for _, r := range referrers {
		if r.ArtifactType != artifact.TypeSignature {
			if r.ArtifactType != typeYank {
				out.others = append(out.others, r)
			}
			continue
		}
		raw, keys, err := s.signatureAt(ctx, r, publisher)
		if err != nil {
			return nil, fmt.Errorf("a signature cannot be read: %w", err)
		}
		key, _, err := artifact.Verify(raw, keys, strings.TrimPrefix(s.at.Digest, "sha256:"), artifact.Signed)
		if err != nil {
			signers = append(signers, artifact.KeyHint(raw))
			continue
		}
		if out.key.Fingerprint == "" || key.Fingerprint == was.key {
			out.key = key
		}
	}
	if err := m.decide(out, publisher, was, consent, signers); err != nil {
		return nil, err
	}
	out.yanked, out.withdrawn, err = s.yank(ctx, referrers, publisher, out.key)
	return out, err
}

// decide applies the rules about keys to the found signatures.
func (m *Manager) decide(out *verdict, publisher *config.Publisher, was known, consent Consent,
	signers []string) error {
	signers = slices.DeleteFunc(signers, func(s string) bool { return s == "" })
	is := out.key.Fingerprint
	switch {
	case is == "" && publisher != nil && len(signers) > 0:
		return fmt.Errorf("it is signed by the key %s, which publisher %q does not list. If the publisher has a new key, add it to keys", signers[0], publisher.Name)
	case is == "" && publisher != nil:
		return fmt.Errorf("no key of publisher %q signed it", publisher.Name)
	case is == "" && was.key != "":
		return fmt.Errorf("the key %s, which signed the locked version, did not sign it%s", was.key, by(signers))
	case is == "" && len(signers) > 0:
		return fmt.Errorf("it is signed by the key %s, which is not known. Add a publisher block with this key", signers[0])
	case is == "" && (was.unsigned || consent.Unsigned):
		out.unsigned = true
		return nil
	case is == "":
		return errUnsigned
	case publisher != nil:
		if !publisher.Expires.IsZero() && time.Now().After(publisher.Expires) && !was.locked {
			return fmt.Errorf("the keys of publisher %q expired at the end of %s. Ask for a new key, and change keys and expires", publisher.Name, publisher.Expires.AddDate(0, 0, -1).Format(time.DateOnly))
		}
		out.isNew = was.key != "" && is != was.key
		return nil
	case was.key != "" && is != was.key && consent.Key != is:
		return fmt.Errorf("it is signed by the key %s, but the locked version by %s. If the publisher has a new key, accept it: --accept-key %s", is, was.key, is)
	}
	out.isNew = is != was.key
	return nil
}

func by(signers []string) string {
	if len(signers) == 0 {
		return ""
	}
	return "; the key " + signers[0] + " did"
}

// signatureAt reads one signature. It also returns the keys that can have made the signature: the keys of the
// publisher, or the attached key.
func (s subject) signatureAt(ctx context.Context, d artifact.Descriptor,
	publisher *config.Publisher) ([]byte, []artifact.Key, error) {
	_, b, err := s.repo.Manifest(ctx, d.Digest)
	if err != nil {
		return nil, nil, err
	}
	var manifest artifact.Manifest
	if err := json.Unmarshal(b, &manifest); err != nil || len(manifest.Layers) != 1 {
		return nil, nil, fmt.Errorf("%s does not have exactly one layer", d.Digest)
	}
	raw, err := fetch.Small(ctx, s.repo, manifest.Layers[0])
	if err != nil {
		return nil, nil, err
	}
	if publisher != nil {
		return raw, publisher.Keys, nil
	}
	der, err := base64.StdEncoding.DecodeString(manifest.Annotations[annotationKey])
	if err != nil || len(der) == 0 {
		return raw, nil, nil //nolint:nilerr // a signature without a readable key counts for no key
	}
	key, err := artifact.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		return raw, nil, nil //nolint:nilerr // a key of another kind is not a key that is known
	}
	return raw, []artifact.Key{key}, nil
}

// withdrawal is the predicate of a yank.
type withdrawal struct {
	Reason string `json:"reason"`
}

// maxReason is the maximum length of the reason of a yank.
const maxReason = 300

// yank returns the reason why the publisher withdrew the version. The withdrawal must be signed with a key of the
// publisher. Without a publisher block, it must be signed with the key of the version.
func (s subject) yank(ctx context.Context, referrers []artifact.Descriptor, publisher *config.Publisher,
	signer artifact.Key) (reason string, yanked bool, err error) {
	keys := []artifact.Key{signer}
	if publisher != nil {
		keys = publisher.Keys
	}
	if signer.Fingerprint == "" && publisher == nil {
		return "", false, nil
	}
	for _, r := range referrers {
		if r.ArtifactType != typeYank {
			continue
		}
		raw, _, err := s.signatureAt(ctx, r, publisher)
		if err != nil {
			return "", false, err
		}
		_, predicate, err := artifact.Verify(raw, keys, strings.TrimPrefix(s.at.Digest, "sha256:"), artifact.Yanked)
		if err != nil {
			continue // another person made the withdrawal
		}
		var w withdrawal
		if json.Unmarshal(predicate, &w) == nil {
			return fmt.Sprintf("%.*s", maxReason, w.Reason), true, nil
		}
	}
	return "", false, nil
}

// checkNames returns an error if an index does not belong to the wanted plugin and version. The signature cannot show
// this, because it contains only a digest.
func checkNames(annotations map[string]string, name artifact.Name, version string) error {
	if is := annotations[artifact.AnnotationSource]; is != name.String() {
		return fmt.Errorf("the registry serves the plugin %.200q, but %s was asked for", is, name)
	}
	if is := annotations[artifact.AnnotationVersion]; is != version {
		return fmt.Errorf("the registry serves the version %.100q, but %s was asked for", is, version)
	}
	return nil
}

// attach adds a manifest with one blob. The manifest refers to the subject.
func (s subject) attach(ctx context.Context, artifactType string, blob []byte, annotations map[string]string) error {
	layer := artifact.Descriptor{MediaType: artifactType, Digest: fetch.Digest(blob), Size: int64(len(blob))}
	empty := artifact.Descriptor{MediaType: artifact.TypeEmpty, Digest: fetch.Digest([]byte("{}")), Size: 2}
	if err := errors.Join(s.repo.PushBlob(ctx, layer, bytes.NewReader(blob)),
		s.repo.PushBlob(ctx, empty, strings.NewReader("{}"))); err != nil {
		return err
	}
	b, err := json.Marshal(artifact.Manifest{
		SchemaVersion: 2, MediaType: artifact.TypeManifest, ArtifactType: artifactType, Config: empty,
		Layers:      []artifact.Descriptor{layer},
		Subject:     &artifact.Descriptor{MediaType: s.at.MediaType, Digest: s.at.Digest, Size: s.at.Size},
		Annotations: annotations,
	})
	if err != nil {
		return err
	}
	return s.repo.PushManifest(ctx, artifact.Descriptor{MediaType: artifact.TypeManifest, Digest: fetch.Digest(b),
		Size: int64(len(b)), ArtifactType: artifactType}, b, "")
}

// sign adds a signature of the subject.
func (s subject) sign(ctx context.Context, key crypto.Signer, artifactType, predicateType string, predicate any) error {
	p, err := json.Marshal(predicate)
	if err != nil {
		return err
	}
	raw, err := artifact.Sign(key, strings.TrimPrefix(s.at.Digest, "sha256:"), predicateType, p)
	if err != nil {
		return err
	}
	public, err := artifact.KeyOf(key)
	if err != nil {
		return err
	}
	text, err := public.PEM()
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	return s.attach(ctx, artifactType, raw, map[string]string{
		annotationKey: base64.StdEncoding.EncodeToString(block.Bytes),
	})
}
