package distribution

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/trust"
)

// server is a registry in this process. The field lie is a function that can answer a request instead of the registry.
// The field seen contains the received requests.
type server struct {
	*httptest.Server
	host string
	mu   sync.Mutex
	lie  func(w http.ResponseWriter, r *http.Request, real http.Handler) bool
	seen []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	real := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path)
		lie := s.lie
		s.mu.Unlock()
		if lie == nil || !lie(w, r, real) {
			real.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	s.host = strings.TrimPrefix(s.URL, "http://")
	return s
}

func (s *server) lies(f func(w http.ResponseWriter, r *http.Request, real http.Handler) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lie = f
}

// requests returns the requests since the last call.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.seen
	s.seen = nil
	return out
}

// machine is a machine of an operator or an author. Its plugins are text files whose first line is the description in
// JSON.
type machine struct {
	*Manager
	t   *testing.T
	dir string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_DATA_HOME", filepath.Join(dir, "data"))
	t.Setenv("DOCKER_CONFIG", dir)
	s, err := artifact.OpenStore()
	if err != nil {
		t.Fatal(err)
	}
	return &machine{&Manager{Lock: filepath.Join(dir, "toolhost.lock.json"), Store: s, Describe: describeText}, t, dir}
}

func describeText(_ context.Context, program string) (*tool.Description, error) {
	b, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	var d tool.Description
	return &d, json.Unmarshal(line, &d)
}

// program returns the text of a plugin with the given tools. Each tool has one parameter.
func program(name, version string, tools ...string) []byte {
	d := tool.Description{Name: name, Version: version}
	for _, t := range tools {
		d.Tools = append(d.Tools, tool.Definition{Name: t, Description: "d", Input: json.RawMessage(`{"type":"object"}`)})
	}
	b, _ := json.Marshal(d)
	return append(b, '\n')
}

// want adds a plugin with a name, a source and a version constraint to the configuration.
func (m *machine) want(name, src, constraint string) *machine {
	m.t.Helper()
	n, err := artifact.ParseName(src)
	if err != nil {
		m.t.Fatal(err)
	}
	c, err := artifact.ParseConstraint(constraint)
	if err != nil {
		m.t.Fatal(err)
	}
	m.Wanted = append(slices.DeleteFunc(m.Wanted, func(w Wanted) bool { return w.Name == name }), Wanted{name, n, c})
	return m
}

func (m *machine) install(opts InstallOptions) ([]Result, error) {
	return m.Install(m.t.Context(), opts)
}

func (m *machine) lock() *trust.Lock {
	m.t.Helper()
	l, err := trust.Read(m.Lock)
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

// unchanged fails the test if the store or the lock file does not have the given number of plugins, or if temporary
// directories remain.
func (m *machine) unchanged(contents int) {
	m.t.Helper()
	have, err := m.Store.Contents()
	if err != nil || len(have) != contents {
		m.t.Errorf("the store has %d plugins, wanted %d (%v)", len(have), contents, err)
	}
	left, _ := filepath.Glob(filepath.Join(m.Store.Partial(), "x-*"))
	if len(left) > 0 {
		m.t.Errorf("directories are left: %v", left)
	}
	if got := len(m.lock().Plugins); got != contents {
		m.t.Errorf("the lock file has %d plugins, wanted %d", got, contents)
	}
}

func newKey(t *testing.T) (crypto.Signer, artifact.Key) {
	t.Helper()
	private, _, err := artifact.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := artifact.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	k, err := artifact.KeyOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, k
}

// publish publishes a version of a plugin whose program is the given text.
func (m *machine) publish(key crypto.Signer, ref string, text []byte, change ...func(*Publication)) {
	m.t.Helper()
	if err := m.tryPublish(key, ref, text, change...); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) tryPublish(key crypto.Signer, ref string, text []byte, change ...func(*Publication)) error {
	m.t.Helper()
	r, err := artifact.ParseReference(ref)
	if err != nil {
		m.t.Fatal(err)
	}
	path := filepath.Join(m.t.TempDir(), r.Base())
	if err := os.WriteFile(path, text, 0o755); err != nil {
		m.t.Fatal(err)
	}
	p := Publication{Reference: r, Place: artifact.Locate(r.Name, nil), Key: key, Runtime: "none", Builds: map[string]string{trust.ThisPlatform(): path}}
	for _, f := range change {
		f(&p)
	}
	_, err = m.Publish(m.t.Context(), p)
	return err
}

// forgery describes an artifact that the publish command would never make.
type forgery struct {
	layer           []byte
	layerSize       int64 // size in the manifest; 0 means the real size
	config          artifact.Config
	source, version string
	content, entry  string
	index           func(*artifact.Index)
	padding         int
}

// forge pushes a signed artifact, as a hostile publisher or the thief of a key could do.
func (m *machine) forge(key crypto.Signer, ref string, f forgery) {
	m.t.Helper()
	ctx := m.t.Context()
	r, err := artifact.ParseReference(ref)
	if err != nil {
		m.t.Fatal(err)
	}
	repo, err := m.open(r.Name)
	if err != nil {
		m.t.Fatal(err)
	}
	push := func(kind string, b []byte) artifact.Descriptor {
		d := artifact.Descriptor{MediaType: kind, Digest: digestOf(b), Size: int64(len(b))}
		if err := repo.PushBlob(ctx, d, bytes.NewReader(b)); err != nil {
			m.t.Fatal(err)
		}
		return d
	}
	manifests := func(kind string, v any) (artifact.Descriptor, []byte) {
		b, err := json.Marshal(v)
		if err != nil {
			m.t.Fatal(err)
		}
		d := artifact.Descriptor{MediaType: kind, Digest: digestOf(b), Size: int64(len(b))}
		if err := repo.PushManifest(ctx, d, b, ""); err != nil {
			m.t.Fatal(err)
		}
		return d, b
	}
	cfg, err := json.Marshal(f.config)
	if err != nil {
		m.t.Fatal(err)
	}
	layer := push(artifact.TypeLayer, f.layer)
	if f.layerSize != 0 {
		layer.Size = f.layerSize
	}
	at, _ := manifests(artifact.TypeManifest, artifact.Manifest{SchemaVersion: 2, MediaType: artifact.TypeManifest, Config: push(artifact.TypeConfig, cfg), Layers: []artifact.Descriptor{layer}})
	p, _ := artifact.ParsePlatform(trust.ThisPlatform())
	at.Platform, at.Annotations = &p, map[string]string{artifact.AnnotationContent: f.content, artifact.AnnotationEntry: f.entry}
	index := artifact.Index{SchemaVersion: 2, MediaType: artifact.TypeIndex, Manifests: []artifact.Descriptor{at}, Annotations: map[string]string{
		artifact.AnnotationSource: f.source, artifact.AnnotationVersion: f.version, "padding": strings.Repeat("x", f.padding),
	}}
	if f.index != nil {
		f.index(&index)
	}
	d, b := manifests(artifact.TypeIndex, index)
	s := subject{repo, r.Name, r.Version.String(), d}
	if key != nil {
		if err := s.sign(ctx, key, artifact.TypeSignature, artifact.Signed, struct{}{}); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := repo.PushManifest(ctx, d, b, r.Version.String()); err != nil {
		m.t.Fatal(err)
	}
}

func publisher(key artifact.Key, pattern string) config.Distribution {
	return config.Distribution{Publishers: []config.Publisher{{Name: "acme", Sources: []artifact.Pattern{artifact.Pattern(pattern)}, Keys: []artifact.Key{key}}}}
}

func digestOf(b []byte) string {
	return fmt.Sprintf("sha256:%x", sum256(b))
}
