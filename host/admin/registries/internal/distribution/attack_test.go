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

	"toolhost.dev/host/admin/registries/internal/fetch"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/trust"
)

// editLock changes the entry of a plugin in the lock file with the function edit.
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

// TestEditedLock changes the lock file, as a hostile commit could do. The commands must notice the change.
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

	// This entry combines the index of the new version with the files of the old version.
	m.editLock("weather", func(p *trust.Pin) { p.Platforms = old.Platforms })
	if v, err := m.Verify(t.Context(), true); err != nil || !strings.Contains(v[0].Problem, "has other files in the lock file") {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := m.Mirror(t.Context(), "file://"+t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "has other files in the lock file") {
		t.Error(err)
	}
	// This entry names another program for the right files. Verify must notice it, as the start of a host does.
	m.editLock("weather", func(p *trust.Pin) {
		*p = good
		b := p.Platforms[trust.ThisPlatform()]
		b.Entry = old.Platforms[trust.ThisPlatform()].Entry
		p.Platforms = map[string]trust.Platform{trust.ThisPlatform(): b}
	})
	if v, err := m.Verify(t.Context(), false); err != nil || !strings.Contains(v[0].Problem, "its files changed") {
		t.Errorf("%+v %v", v, err)
	}
	// This is the complete entry of an older version, but with the constraint of the configuration.
	m.editLock("weather", func(p *trust.Pin) { *p = old; p.Constraint = "~> 1.2" })
	if _, err := m.install(InstallOptions{Locked: true}); err == nil || !strings.Contains(err.Error(), "does not satisfy") {
		t.Error(err)
	}
	if r, err := m.install(InstallOptions{}); err != nil || r[0].Version != "1.2.0" {
		t.Error(r, err)
	}
}

// TestExpired checks that a new version is refused if it is signed with the keys of an expired publisher. The version
// in the lock file stays usable.
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

// TestDamagedStore checks that an installation replaces damaged files in the store. The damaged files must stay until
// the new files are completely downloaded.
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
		if err := os.WriteFile(file, nil, 0o500); err != nil { // an empty file, as it can remain after a power failure
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

// TestHostileMirror uses mirror directories with changed files. A new copy must repair changed files. An installation
// must refuse changed files and a named pipe.
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
	for _, b := range blobs { // change the content, but not the size
		text, err := os.ReadFile(b)
		if err != nil {
			t.Fatal(err)
		}
		text[0] ^= 1
		if err := os.WriteFile(b, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mirror() // this second copy repairs the blobs
	to, err := artifact.ParseMirror(s.host+"/*", "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	fresh := newMachine(t).want("weather", src, "")
	fresh.Settings.Mirrors = []artifact.Mirror{to}
	if _, err := fresh.install(InstallOptions{}); err != nil {
		t.Error(err)
	}
	hostile := newMachine(t).want("weather", src, "")
	hostile.Settings.Mirrors = []artifact.Mirror{to}
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

// TestLargeDocuments checks that a mirror refuses documents that are attached to a version if they are too large or too
// many. They could fill the disk.
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
			n, err := artifact.ParseName(src)
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

// TestMovedSignature attaches two wrong statements to a version: the signature of another version, and a withdrawal.
// Neither must count as a signature of the version.
func TestMovedSignature(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, public := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.0.0", program("weather", "1.0.0", "now"))
	m.publish(nil, src+":1.1.0", program("weather", "1.1.0", "now"))
	n, err := artifact.ParseName(src)
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
	raw, err := artifact.Sign(key, strings.TrimPrefix(signed.Digest, "sha256:"), artifact.Signed, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	yank, err := artifact.Sign(key, strings.TrimPrefix(at.Digest, "sha256:"), artifact.Yanked, []byte(`{"reason":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{raw, yank} {
		if err := (subject{repo, n, "1.1.0", at}).attach(t.Context(), artifact.TypeSignature, b, nil); err != nil {
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

// whole fails the test if a part of a version in the store is missing or changed.
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

// TestFullDisk simulates a full disk by a limit on the size of files. The installation must then fail and leave no
// files behind.
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
