package distribution

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/fetch"
	"toolhost.dev/host/internal/signature"
	"toolhost.dev/host/internal/source"
	"toolhost.dev/host/internal/trust"
)

// editLock changes the entry of a plugin in the lock file.
func (m *machine) editLock(name string, edit func(*trust.Pin)) {
	m.t.Helper()
	lock := m.lock()
	pin := lock.Plugins[name]
	pin.Platforms = maps.Clone(pin.Platforms)
	edit(&pin)
	lock.Plugins[name] = pin
	if err := lock.Write(m.Lock); err != nil {
		m.t.Fatal(err)
	}
}

// TestEditedLock changes the lock file, as a hostile change in version control would.
func TestEditedLock(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.0.0", program("weather", "1.0.0", "now"))
	m.want("weather", src, "1.0.0")
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	old := m.lock().Plugins["weather"]
	m.publish(key, src+":1.2.0", program("weather", "1.2.0", "now"))
	m.want("weather", src, "~> 1.2")
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	good := m.lock().Plugins["weather"]

	// The files of the old version under the index of the new one.
	m.editLock("weather", func(p *trust.Pin) { p.Platforms = old.Platforms })
	if v, err := m.Verify(t.Context(), true); err != nil || !strings.Contains(v[0].Problem, "names other files") {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := m.Mirror(t.Context(), "file://"+t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "names other files") {
		t.Error(err)
	}
	// Another program among the right files is found by the start of a host, and here.
	m.editLock("weather", func(p *trust.Pin) {
		*p = good
		b := p.Platforms[trust.ThisPlatform()]
		b.Entry = old.Platforms[trust.ThisPlatform()].Entry
		p.Platforms = map[string]trust.Platform{trust.ThisPlatform(): b}
	})
	if v, err := m.Verify(t.Context(), false); err != nil || !strings.Contains(v[0].Problem, "its files changed") {
		t.Errorf("%+v %v", v, err)
	}
	// The whole entry of an older version, with the constraint of the configuration.
	m.editLock("weather", func(p *trust.Pin) { *p = old; p.Constraint = "~> 1.2" })
	if _, err := m.install(InstallOptions{Locked: true}); err == nil || !strings.Contains(err.Error(), "does not satisfy") {
		t.Error(err)
	}
	if r, err := m.install(InstallOptions{}); err != nil || r[0].Version != "1.2.0" {
		t.Error(r, err)
	}
}

// TestExpired checks that the keys of an expired publisher sign no new version, also if they signed the locked one.
func TestExpired(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, public := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.0.0", program("weather", "1.0.0", "now"))
	m.want("weather", src, "")
	m.Settings = publisher(public, src)
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	m.publish(key, src+":1.1.0", program("weather", "1.1.0", "now"))
	m.Settings.Publishers[0].Expires = time.Now().AddDate(0, 0, -1)
	if _, err := m.Upgrade(t.Context(), nil, Consent{}); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Error(err)
	}
	if v, err := m.Verify(t.Context(), true); err != nil || v[0].Problem != "" {
		t.Errorf("the locked version: %+v %v", v, err)
	}
	if _, err := m.Mirror(t.Context(), "file://"+t.TempDir(), nil); err != nil {
		t.Errorf("the locked version: %v", err)
	}
}

// TestDamagedStore checks that files in the store that changed do not enter a lock file, and that they stay until the
// download of others is complete.
func TestDamagedStore(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.0.0", program("weather", "1.0.0", "now"))
	m.want("weather", src, "")
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.Store.Dir(m.lock().Plugins["weather"].Platforms[trust.ThisPlatform()].Content), "weather")
	damage := func() {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o500); err != nil { // as after a power failure
			t.Fatal(err)
		}
	}
	damage()
	if err := os.Remove(m.Lock); err != nil {
		t.Fatal(err)
	}
	if r, err := m.install(InstallOptions{}); err != nil || r[0].State != Installed || r[0].Bytes == 0 {
		t.Fatal(r, err)
	}
	damage()
	s.Close()
	if _, err := m.install(InstallOptions{Reinstall: true}); err == nil {
		t.Error("installed without the registry")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the files were removed before others were there: %v", err)
	}
}

// TestHostileMirror reads and writes directories that somebody else prepared.
func TestHostileMirror(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.0.0", program("weather", "1.0.0", "now"))
	m.want("weather", src, "")
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mirror := func() {
		t.Helper()
		if _, err := m.Mirror(t.Context(), "file://"+dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	mirror()
	at := filepath.Join(dir, src)
	blobs, err := filepath.Glob(filepath.Join(at, "blobs/sha256/*"))
	if err != nil || len(blobs) == 0 {
		t.Fatal(err)
	}
	for _, b := range blobs { // the size stays
		text, err := os.ReadFile(b)
		if err != nil {
			t.Fatal(err)
		}
		text[0] ^= 1
		if err := os.WriteFile(b, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mirror() // repairs the blobs
	to, err := source.ParseMirror(s.host+"/*", "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	fresh := newMachine(t).want("weather", src, "")
	fresh.Settings.Mirrors = []source.Mirror{to}
	if _, err := fresh.install(InstallOptions{}); err != nil {
		t.Error(err)
	}
	hostile := newMachine(t).want("weather", src, "")
	hostile.Settings.Mirrors = []source.Mirror{to}
	for _, b := range blobs {
		text, err := os.ReadFile(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b, append(text, ' '), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := hostile.install(InstallOptions{}); err == nil || !strings.Contains(err.Error(), "the manifest has the digest") {
		t.Error(err)
	}
	index := filepath.Join(at, "index.json")
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(index, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := hostile.install(InstallOptions{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// TestLargeDocuments attaches documents to a version that would fill the disk of a mirror.
func TestLargeDocuments(t *testing.T) {
	for name, layers := range map[string][]int64{"size": {20 << 20}, "number": {2, 2, 2, 2, 2}} {
		t.Run(name, func(t *testing.T) {
			s, m := newServer(t), newMachine(t)
			key, _ := newKey(t)
			src := s.host + "/acme/weather"
			m.publish(key, src+":1.0.0", program("weather", "1.0.0", "now"))
			m.want("weather", src, "")
			if _, err := m.install(InstallOptions{}); err != nil {
				t.Fatal(err)
			}
			n, err := source.Parse(src)
			if err != nil {
				t.Fatal(err)
			}
			repo, err := m.open(n)
			if err != nil {
				t.Fatal(err)
			}
			at, _, err := repo.Manifest(t.Context(), "1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			manifest := artifact.Manifest{SchemaVersion: 2, MediaType: artifact.TypeManifest, ArtifactType: "application/x-large", Subject: &at}
			blob := func(size int64) artifact.Descriptor {
				b := bytes.Repeat([]byte("x"), int(size))
				d := artifact.Descriptor{MediaType: artifact.TypeEmpty, Digest: fetch.Digest(b), Size: size}
				if err := repo.PushBlob(t.Context(), d, bytes.NewReader(b)); err != nil {
					t.Fatal(err)
				}
				return d
			}
			manifest.Config = blob(2)
			for _, size := range layers {
				manifest.Layers = append(manifest.Layers, blob(size))
			}
			raw, err := json.Marshal(manifest)
			if err != nil {
				t.Fatal(err)
			}
			if err := repo.PushManifest(t.Context(), artifact.Descriptor{MediaType: artifact.TypeManifest, Digest: fetch.Digest(raw), Size: int64(len(raw))}, raw, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Mirror(t.Context(), "file://"+t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "an attached document has") {
				t.Error(err)
			}
		})
	}
}

// TestMovedSignature attaches the signature of one version to another, and a withdrawal in place of a signature.
func TestMovedSignature(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, public := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.0.0", program("weather", "1.0.0", "now"))
	m.publish(nil, src+":1.1.0", program("weather", "1.1.0", "now"))
	n, err := source.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := m.open(n)
	if err != nil {
		t.Fatal(err)
	}
	signed, _, err := repo.Manifest(t.Context(), "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	at, _, err := repo.Manifest(t.Context(), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signature.Sign(key, strings.TrimPrefix(signed.Digest, "sha256:"), signature.Signed, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	yank, err := signature.Sign(key, strings.TrimPrefix(at.Digest, "sha256:"), signature.Yanked, []byte(`{"reason":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{raw, yank} {
		if err := (subject{repo, n, "1.1.0", at}).attach(t.Context(), signature.MediaType, b, nil); err != nil {
			t.Fatal(err)
		}
	}
	m.want("weather", src, "")
	m.Settings = publisher(public, src)
	if _, err := m.install(InstallOptions{Consent: Consent{Unsigned: true}}); err == nil || !strings.Contains(err.Error(), "publisher") {
		t.Error(err)
	}
	m.unchanged(0)
}

// whole fails the test if the store has a version of which a part is missing.
func (m *machine) whole() {
	m.t.Helper()
	contents, err := m.Store.Contents()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, c := range contents {
		if is, err := artifact.HashTree(m.Store.Dir(c)); err != nil || is != c {
			m.t.Fatalf("%s is not whole: %s %v", c, is, err)
		}
	}
}

// manyFiles adds files beside the program, so that it takes longer to unpack a version.
func manyFiles(p *Publication) {
	path := p.Builds[trust.ThisPlatform()]
	for i := range 200 {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), fmt.Sprintf("file-%d", i)), []byte(p.Reference.Version.String()), 0o600); err != nil {
			panic(err)
		}
	}
	p.Builds[trust.ThisPlatform()] = filepath.Dir(path)
}

// TestFullDisk installs where no file can be larger than a part of the plugin.
func TestFullDisk(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.0.0", random("1.0.0", 300_000))
	out, err := m.helper(src, "INSTALL_LIMIT=100000").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot be stored") {
		t.Errorf("%v %s", err, out)
	}
	m.unchanged(0)
	if left, _ := filepath.Glob(filepath.Join(m.Store.Partial(), "*")); len(left) > 0 {
		t.Errorf("the part fills the disk: %v", left)
	}
	if out, err := m.helper(src).CombinedOutput(); err != nil {
		t.Errorf("%v %s", err, out)
	}
	m.unchanged(1)
}
