// Package fetch reads and writes artifacts in registries and in directories. No other package of the host accesses
// registries. Only commands that a person runs use this package, so the start of a host never accesses the network.
// Most callers want [Open] and [Repository].
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"toolhost.dev/host/internal/artifact"
)

// Repository holds the artifacts of one source.
type Repository interface {
	// Tags returns all tags.
	Tags(ctx context.Context) ([]string, error)
	// Manifest returns an index or a manifest by tag or digest. The result has at most [artifact.MaxManifest] bytes.
	// The descriptor contains its digest, which equals ref if ref is a digest.
	Manifest(ctx context.Context, ref string) (artifact.Descriptor, []byte, error)
	// Blob returns the content of a blob from an offset on. The caller must check the digest.
	Blob(ctx context.Context, d artifact.Descriptor, from int64) (io.ReadCloser, error)
	// Referrers returns the manifests that refer to the manifest d, such as signatures. An empty artifactType means
	// all.
	Referrers(ctx context.Context, d artifact.Descriptor, artifactType string) ([]artifact.Descriptor, error)
	// PushBlob adds a blob. It does nothing if the repository has the blob.
	PushBlob(ctx context.Context, d artifact.Descriptor, content io.ReadSeeker) error
	// PushManifest adds an index or a manifest, under a tag unless the tag is empty.
	PushManifest(ctx context.Context, d artifact.Descriptor, content []byte, tag string) error
}

// maxReferrers limits the referrers of one manifest. A registry could otherwise keep a command busy without an end.
const maxReferrers = 100

// maxTags limits the tags of a repository for the same reason.
const maxTags = 20_000

// Options configures access to registries.
type Options struct {
	// Warn is called with problems that do not prevent the access. It can be nil.
	Warn func(text string)
}

// Open returns the repository at a place.
func Open(at artifact.Place, opts Options) (Repository, error) {
	if opts.Warn == nil {
		opts.Warn = func(string) {}
	}
	switch at.Kind {
	case artifact.Directory:
		return &layout{files: directory(at.At), write: at.At}, nil
	case artifact.Web:
		return &layout{files: web{at.At, client()}}, nil
	}
	return openRemote(at.At, opts)
}

// ErrNotFound reports that a repository lacks a manifest, a tag or a blob, or does not exist.
var ErrNotFound = errors.New("not found")

// readManifest reads a manifest and checks its size and digest. The parameter "want" is the expected digest. An empty
// one accepts any content.
func readManifest(r io.Reader, want string) ([]byte, string, error) {
	b, err := io.ReadAll(io.LimitReader(r, artifact.MaxManifest+1))
	if err != nil {
		return nil, "", err
	}
	if len(b) > artifact.MaxManifest {
		return nil, "", fmt.Errorf("the manifest is larger than %d bytes", artifact.MaxManifest)
	}
	is := Digest(b)
	if want != "" && is != want {
		return nil, "", fmt.Errorf("the manifest has the digest %s, but %s was asked for", is, want)
	}
	return b, is, nil
}

// Digest returns the digest of a content.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Small returns the content of a blob that has at most [artifact.MaxManifest] bytes. It checks the digest of the
// content.
func Small(ctx context.Context, r Repository, d artifact.Descriptor) ([]byte, error) {
	if d.Size < 0 || d.Size > artifact.MaxManifest {
		return nil, fmt.Errorf("the blob %s has %d bytes; at most %d are allowed", d.Digest, d.Size, artifact.MaxManifest)
	}
	body, err := r.Blob(ctx, d, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(body, d.Size+1))
	if err != nil {
		return nil, err
	}
	if is := Digest(b); is != d.Digest {
		return nil, fmt.Errorf("the blob has the digest %s, but %s was asked for", is, d.Digest)
	}
	return b, nil
}

// idle is the time without a byte after which a download counts as cut.
const idle = time.Minute

// watched is a body that ends with an error if it delivers nothing for some time.
type watched struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelFunc
}

func watch(body io.ReadCloser, cancel context.CancelFunc) io.ReadCloser {
	return &watched{body, time.AfterFunc(idle, cancel), cancel}
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.timer.Reset(idle)
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	defer w.cancel()
	return w.ReadCloser.Close()
}
