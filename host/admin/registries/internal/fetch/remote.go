package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"toolhost.dev/host/internal/artifact"
)

// remoteRepository is a repository of a registry.
type remoteRepository struct {
	repo *remote.Repository
	host string
	// known contains manifests by digest, so that none is read twice.
	known sync.Map
}

// agent identifies the program to registries.
const agent = "toolhost"

// client returns a client that repeats requests after temporary errors of a server.
func client() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the type is documented
	transport.ResponseHeaderTimeout = idle
	return &http.Client{Transport: retry.NewTransport(transport),
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 10 {
				return errors.New("more than 10 redirects")
			}
			if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
				return fmt.Errorf("the server redirects from https to %s", r.URL.Scheme)
			}
			return nil
		}}
}

func openRemote(at string, opts Options) (Repository, error) {
	repo, err := remote.NewRepository(at)
	if err != nil {
		return nil, err
	}
	logins, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	credential := func(context.Context, string) (auth.Credential, error) { return auth.EmptyCredential, nil }
	if err != nil {
		opts.Warn(fmt.Sprintf("The logins of docker cannot be read, so none is used: %v.", err))
	} else {
		find := credentials.Credential(logins)
		credential = func(ctx context.Context, host string) (auth.Credential, error) {
			c, err := find(ctx, host)
			if err != nil { // a helper that is not installed must not prevent the use of public registries
				opts.Warn(fmt.Sprintf("The login for %s cannot be read, so none is used: %v.", host, err))
				return auth.EmptyCredential, nil
			}
			return c, nil
		}
	}
	repo.Client = &auth.Client{
		Client: client(), Cache: auth.NewCache(), Credential: credential, Header: http.Header{"User-Agent": {agent}},
	}
	repo.PlainHTTP = loopback(repo.Reference.Registry)
	repo.TagListMaxPages, repo.ReferrerListMaxPages = 100, 10
	repo.SkipReferrersGC = true // registries often forbid deletion
	repo.ManifestMediaTypes = []string{artifact.TypeIndex, artifact.TypeManifest}
	return &remoteRepository{repo: repo, host: repo.Reference.Registry}, nil
}

// loopback reports whether a registry is on this machine. Such a registry is reached without TLS.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *remoteRepository) Tags(ctx context.Context) ([]string, error) {
	var out []string
	err := r.repo.Tags(ctx, "", func(tags []string) error {
		if out = append(out, tags...); len(out) > maxTags {
			return fmt.Errorf("the repository has more than %d tags", maxTags)
		}
		return nil
	})
	return out, r.explain(err)
}

func (r *remoteRepository) Manifest(ctx context.Context, ref string) (artifact.Descriptor, []byte, error) {
	want := ""
	if artifact.ValidDigest(ref) {
		want = ref
		if b, ok := r.known.Load(ref); ok {
			raw, _ := b.([]byte)
			return artifact.Descriptor{MediaType: artifact.TypeManifest, Digest: ref, Size: int64(len(raw))}, raw, nil
		}
	}
	d, body, err := r.repo.Manifests().FetchReference(ctx, ref)
	if err != nil {
		return artifact.Descriptor{}, nil, r.explain(err)
	}
	defer body.Close() //nolint:errcheck // only read
	b, is, err := readManifest(body, want)
	if err == nil && d.MediaType == artifact.TypeManifest {
		r.known.Store(is, b)
	}
	return artifact.Descriptor{MediaType: d.MediaType, Digest: is, Size: int64(len(b))}, b, r.explain(err)
}

func (r *remoteRepository) Blob(ctx context.Context, d artifact.Descriptor, from int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	var body io.ReadCloser
	var err error
	if from > 0 {
		body, err = r.rest(ctx, d, from)
	} else {
		body, err = r.repo.Blobs().Fetch(ctx, native(d))
	}
	if err != nil {
		cancel()
		return nil, r.explain(err)
	}
	return watch(body, cancel), nil
}

// rest requests a part of a blob. It does not use the library, which would request the whole blob first. If the
// registry refuses the range, rest requests the whole blob.
func (r *remoteRepository) rest(ctx context.Context, d artifact.Descriptor, from int64) (io.ReadCloser, error) {
	body, err := r.part(ctx, d, from, fmt.Sprintf("bytes=%d-%d", from, d.Size-1))
	if refused := (*errcode.ErrorResponse)(nil); errors.As(err, &refused) &&
		refused.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return r.part(ctx, d, from, "")
	}
	return body, err
}

func (r *remoteRepository) part(ctx context.Context, d artifact.Descriptor, from int64,
	part string) (io.ReadCloser, error) {
	ref := r.repo.Reference
	scheme := "https"
	if r.repo.PlainHTTP {
		scheme = "http"
	}
	ctx = auth.AppendRepositoryScope(ctx, ref, auth.ActionPull)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s://%s/v2/%s/blobs/%s", scheme, ref.Host(), ref.Repository, d.Digest), nil)
	if err != nil {
		return nil, err
	}
	if part != "" {
		req.Header.Set("Range", part)
	}
	response, err := r.repo.Client.Do(req)
	if err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusPartialContent:
		return response.Body, nil
	case http.StatusOK: // a server without Range
		if _, err := io.CopyN(io.Discard, response.Body, from); err != nil {
			return nil, errors.Join(err, response.Body.Close())
		}
		return response.Body, nil
	}
	return nil, errors.Join(&errcode.ErrorResponse{Method: req.Method, URL: req.URL, StatusCode: response.StatusCode},
		response.Body.Close())
}

func (r *remoteRepository) Referrers(ctx context.Context, d artifact.Descriptor,
	artifactType string) ([]artifact.Descriptor, error) {
	var out []artifact.Descriptor
	err := r.repo.Referrers(ctx, native(d), artifactType, func(l []ocispec.Descriptor) error {
		for _, d := range l {
			out = append(out, artifact.Descriptor{
				MediaType: d.MediaType, Digest: d.Digest.String(), Size: d.Size, ArtifactType: d.ArtifactType,
				Annotations: d.Annotations,
			})
		}
		if len(out) > maxReferrers {
			return fmt.Errorf("%s has more than %d signatures and other referrers. Remove old ones, or name another version", d.Digest, maxReferrers)
		}
		return nil
	})
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	for i := range out {
		if err == nil && (out[i].ArtifactType == "" || out[i].ArtifactType == artifact.TypeEmpty) { // some registries do not report the type
			var raw []byte
			var manifest artifact.Manifest
			if _, raw, err = r.Manifest(ctx, out[i].Digest); err == nil && json.Unmarshal(raw, &manifest) == nil {
				out[i].ArtifactType = manifest.ArtifactType
			}
		}
	}
	return out, r.explain(err)
}

func (r *remoteRepository) PushBlob(ctx context.Context, d artifact.Descriptor, content io.ReadSeeker) error {
	there, err := r.repo.Blobs().Exists(ctx, native(d))
	if err != nil || there {
		return r.explain(err)
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return r.explain(r.repo.Blobs().Push(ctx, native(d), struct{ io.ReadSeeker }{content})) // hides Close, which the client would call
}

func (r *remoteRepository) PushManifest(ctx context.Context, d artifact.Descriptor, content []byte, tag string) error {
	if tag == "" {
		return r.explain(r.repo.Manifests().Push(ctx, native(d), bytes.NewReader(content)))
	}
	return r.explain(r.repo.Manifests().PushReference(ctx, native(d), bytes.NewReader(content), tag))
}

func native(d artifact.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: d.MediaType, Digest: digest.Digest(d.Digest), Size: d.Size}
}

// explain adds the name of the registry and a remedy to an error.
func (r *remoteRepository) explain(err error) error {
	var response *errcode.ErrorResponse
	var network net.Error
	name := registry.Reference{Registry: r.host, Repository: r.repo.Reference.Repository}.String()
	switch {
	case err == nil:
		return nil
	case errors.As(err, &response) &&
		(response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden):
		return fmt.Errorf("the registry %s refuses access to %s (%d). Log in: docker login %s", r.host, r.repo.Reference.Repository, response.StatusCode, r.host)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("the registry %s wants a login. Log in: docker login %[1]s", r.host)
	case errors.As(err, &response) && response.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("the registry %s limits requests (429). Try again later, or log in: docker login %[1]s", r.host)
	case errors.Is(err, errdef.ErrNotFound) || errors.As(err, &response) && response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w. Check the name, and that the registry lets you read it: docker login %s", name, ErrNotFound, r.host)
	case errors.As(err, &network):
		return fmt.Errorf("the registry %s cannot be reached: %w", r.host, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// pause is the time before a cut download is continued.
const pause = 300 * time.Millisecond
