package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/flock"

	"toolhost.dev/host/internal/artifact"
)

// layout is a repository in the OCI image layout: a directory with blobs and a file index.json, which lists the tags.
// The file is not signed, so its tags are only hints.
type layout struct {
	files files
	write string // path of the directory; empty if it cannot be written
}

// files reads the files of a layout.
type files interface {
	// open returns a file from an offset on. The error is [ErrNotFound] if the file does not exist.
	open(ctx context.Context, name string, from int64) (io.ReadCloser, error)
	String() string
}

const (
	tagAnnotation = "org.opencontainers.image.ref.name"
	layoutFile    = "oci-layout"
	indexFile     = "index.json"
	// maxListing is the maximum size of index.json.
	maxListing = 4 << 20
)

// listing is the content of index.json.
type listing struct {
	SchemaVersion int                   `json:"schemaVersion"`
	MediaType     string                `json:"mediaType"`
	Manifests     []artifact.Descriptor `json:"manifests"`
}

func (l *layout) list(ctx context.Context) (*listing, error) {
	body, err := l.files.open(ctx, indexFile, 0)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(body, maxListing+1))
	if err != nil {
		return nil, err
	}
	var out listing
	if err := json.Unmarshal(b, &out); err != nil || len(b) > maxListing {
		return nil, fmt.Errorf("%s: %s is not the index of an OCI layout", l.files, indexFile)
	}
	return &out, nil
}

func blobName(digest string) (string, error) {
	if !artifact.ValidDigest(digest) {
		return "", fmt.Errorf("%.80q is not a SHA-256 digest", digest)
	}
	return "blobs/sha256/" + digest[len("sha256:"):], nil
}

func (l *layout) Tags(ctx context.Context) ([]string, error) {
	all, err := l.list(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range all.Manifests {
		if tag := m.Annotations[tagAnnotation]; tag != "" {
			out = append(out, tag)
		}
	}
	return out, nil
}

func (l *layout) Manifest(ctx context.Context, ref string) (artifact.Descriptor, []byte, error) {
	digest := ref
	if !artifact.ValidDigest(ref) {
		all, err := l.list(ctx)
		if err != nil {
			return artifact.Descriptor{}, nil, err
		}
		i := slices.IndexFunc(all.Manifests, func(m artifact.Descriptor) bool {
			return m.Annotations[tagAnnotation] == ref
		})
		if i < 0 {
			return artifact.Descriptor{}, nil, fmt.Errorf("%s: version %s: %w", l.files, ref, ErrNotFound)
		}
		digest = all.Manifests[i].Digest
	}
	name, err := blobName(digest)
	if err != nil {
		return artifact.Descriptor{}, nil, err
	}
	body, err := l.files.open(ctx, name, 0)
	if err != nil {
		return artifact.Descriptor{}, nil, err
	}
	defer body.Close() //nolint:errcheck // only read
	b, _, err := readManifest(body, digest)
	if err != nil {
		return artifact.Descriptor{}, nil, fmt.Errorf("%s: %w", l.files, err)
	}
	var head struct {
		MediaType string `json:"mediaType"`
	}
	_ = json.Unmarshal(b, &head) // ignore the error: the reader of the manifest reports it
	return artifact.Descriptor{MediaType: head.MediaType, Digest: digest, Size: int64(len(b))}, b, nil
}

func (l *layout) Blob(ctx context.Context, d artifact.Descriptor, from int64) (io.ReadCloser, error) {
	name, err := blobName(d.Digest)
	if err != nil {
		return nil, err
	}
	return l.files.open(ctx, name, from)
}

// Referrers reads the manifests without a tag, because a layout has no index of referrers.
func (l *layout) Referrers(ctx context.Context, d artifact.Descriptor,
	artifactType string) ([]artifact.Descriptor, error) {
	all, err := l.list(ctx)
	if err != nil {
		return nil, err
	}
	var out []artifact.Descriptor
	read := make(map[string]bool) // a hostile mirror can list a manifest many times
	for _, m := range all.Manifests {
		if read[m.Digest] || m.Annotations[tagAnnotation] != "" ||
			m.ArtifactType != "" && artifactType != "" && m.ArtifactType != artifactType {
			continue
		}
		read[m.Digest] = true
		_, b, err := l.Manifest(ctx, m.Digest)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var manifest artifact.Manifest
		if json.Unmarshal(b, &manifest) == nil && manifest.Subject != nil && manifest.Subject.Digest == d.Digest &&
			(artifactType == "" || manifest.ArtifactType == artifactType) {
			m.ArtifactType, m.Annotations = manifest.ArtifactType, manifest.Annotations
			out = append(out, m)
		}
		if len(out) > maxReferrers {
			return nil, fmt.Errorf("%s: %s has more than %d signatures and other referrers. Remove old ones, or name another version", l.files, d.Digest, maxReferrers)
		}
	}
	return out, nil
}

func (l *layout) PushBlob(_ context.Context, d artifact.Descriptor, content io.ReadSeeker) error {
	name, err := blobName(d.Digest)
	if err != nil {
		return err
	}
	if l.write == "" {
		return fmt.Errorf("%s is on a web server, which cannot be written; use a registry or a directory (file:///…)", l.files)
	}
	path := filepath.Join(l.write, name)
	if l.hasBlob(name, d) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // others may read a mirror
		return err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) //nolint:errcheck // it was renamed, or the error before counts
	_, err = io.Copy(out, content)
	if err == nil {
		err = errors.Join(out.Chmod(0o644), out.Sync())
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), path)
}

// hasBlob reports whether the directory has a blob. It reads the blob, because a directory that was copied by other
// means can have a damaged one.
func (l *layout) hasBlob(name string, d artifact.Descriptor) bool {
	body, err := l.files.open(context.Background(), name, 0)
	if err != nil {
		return false
	}
	defer body.Close() //nolint:errcheck // only read
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(body, d.Size+1))
	return err == nil && n == d.Size && "sha256:"+hex.EncodeToString(sum.Sum(nil)) == d.Digest
}

func (l *layout) PushManifest(ctx context.Context, d artifact.Descriptor, content []byte, tag string) error {
	if err := l.PushBlob(ctx, d, bytes.NewReader(content)); err != nil {
		return err
	}
	lock, err := flock.Open(filepath.Join(l.write, ".lock"), os.O_CREATE|os.O_RDWR, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // also unlocks
	all, err := l.list(ctx)
	if errors.Is(err, ErrNotFound) {
		all, err = &listing{SchemaVersion: 2, MediaType: artifact.TypeIndex},
			durable.ReplaceMode(filepath.Join(l.write, layoutFile), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
	}
	if err != nil {
		return err
	}
	entry := artifact.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size, ArtifactType: d.ArtifactType}
	if tag != "" {
		entry.Annotations = map[string]string{tagAnnotation: tag}
	}
	all.Manifests = slices.DeleteFunc(all.Manifests, func(m artifact.Descriptor) bool {
		return m.Digest == d.Digest && m.Annotations[tagAnnotation] == tag ||
			tag != "" && m.Annotations[tagAnnotation] == tag
	})
	all.Manifests = append(all.Manifests, entry)
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return durable.ReplaceMode(filepath.Join(l.write, indexFile), append(b, '\n'), 0o644)
}

// directory is the path of a layout on this machine.
type directory string

func (d directory) String() string { return string(d) }

func (d directory) open(_ context.Context, name string, from int64) (io.ReadCloser, error) {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would block otherwise
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %s: %w", d, name, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s/%s is not a regular file", d, name), err, f.Close())
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// web is the URL of a layout on a web server.
type web struct {
	url    string
	client *http.Client
}

func (w web) String() string { return w.url }

func (w web) open(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/"+name, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	r.Header.Set("User-Agent", agent)
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	response, err := w.client.Do(r) //nolint:bodyclose // watch closes it
	if err != nil {
		cancel()
		return nil, fmt.Errorf("the mirror cannot be reached: %w", err)
	}
	body := watch(response.Body, cancel)
	switch {
	case response.StatusCode == http.StatusPartialContent && from > 0,
		response.StatusCode == http.StatusOK && from == 0:
		return body, nil
	case response.StatusCode == http.StatusOK: // a server without Range
		if _, err := io.CopyN(io.Discard, body, from); err != nil {
			return nil, errors.Join(err, body.Close())
		}
		return body, nil
	case response.StatusCode == http.StatusNotFound:
		return nil, errors.Join(fmt.Errorf("%s/%s: %w", w.url, name, ErrNotFound), body.Close())
	}
	return nil, errors.Join(fmt.Errorf("%s/%s: the server answers %s", w.url, name, response.Status), body.Close())
}
