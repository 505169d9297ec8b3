package distribution

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/trust"
)

func sum256(b []byte) [32]byte { return sha256.Sum256(b) }

// TestLife follows a plugin from its publication over upgrades to the withdrawal of a version.
func TestLife(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, public := newKey(t)
	src := s.host + "/acme/weather"
	m.publish(key, src+":1.2.3", program("weather", "1.2.3", "now"))
	m.want("weather", src, "~> 1.2")
	s.requests()
	if _, err := m.install(InstallOptions{Locked: true}); err == nil || !strings.Contains(err.Error(), "not in the lock file") {
		t.Error(err)
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("--locked asks the registry: %q", got)
	}
	r, err := m.install(InstallOptions{})
	if err != nil || r[0].State != Installed || r[0].Key != public.Fingerprint || !r[0].NewKey || !slices.Equal(r[0].Tools, []string{"now"}) {
		t.Fatal(r, err)
	}
	if got := s.requests(); len(got) > 9 {
		t.Errorf("the first installation needs %d requests: %q", len(got), got)
	}
	before, err := os.ReadFile(m.Lock)
	if err != nil || strings.Contains(string(before), m.dir) {
		t.Fatalf("%v %s", err, before)
	}
	// Neither an installation that changes nothing nor an installation on another machine may change the lock file.
	if r, err := m.install(InstallOptions{Locked: true}); err != nil || r[0].State != Current {
		t.Fatal(r, err)
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("nothing to do, and yet %q", got)
	}
	other := newMachine(t).want("weather", src, "~> 1.2")
	if err := os.WriteFile(other.Lock, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := other.install(InstallOptions{Locked: true}); err != nil || r[0].State != Installed {
		t.Fatal(r, err)
	}
	if got := s.requests(); len(got) > 2 {
		t.Errorf("a locked installation needs %d requests: %q", len(got), got)
	}
	if after, err := os.ReadFile(other.Lock); err != nil || string(after) != string(before) {
		t.Errorf("%v %s", err, after)
	}
	upgradeAndRollBack(t, s, other, key, src)
}

// upgradeAndRollBack is the second part of TestLife. It upgrades the plugin and rolls an upgrade back.
func upgradeAndRollBack(t *testing.T, s *server, m *machine, key keyPair, src string) {
	t.Helper()
	var applied []string
	refuse := ""
	m.Apply = func(context.Context, []string, bool) error {
		v := m.lock().Plugins["weather"].Version
		applied = append(applied, v)
		if v == refuse {
			return errors.New("it is not healthy")
		}
		return nil
	}
	m.publish(key, src+":1.2.3", program("weather", "1.2.3", "now")) // publishing the same content again is allowed
	if err := m.tryPublish(key, src+":1.2.3", program("weather", "1.2.3", "now", "other")); err == nil || !strings.Contains(err.Error(), "Versions never change") {
		t.Error(err)
	}
	for _, v := range []string{"1.3.0", "1.4.0", "2.0.0", "1.5.0-rc.1"} {
		m.publish(key, src+":"+v, program("weather", v, "now"))
	}
	list, err := m.Outdated(t.Context())
	if err != nil || !list[0].Due || list[0].Fitting != "1.4.0" || list[0].Newest != "2.0.0" {
		t.Fatalf("%+v %v", list, err)
	}
	refuse = "1.4.0"
	if _, err := m.Upgrade(t.Context(), nil, Consent{}); err == nil || !strings.Contains(err.Error(), "so version 1.2.3 stays") {
		t.Fatal(err)
	}
	if got := m.lock().Plugins["weather"].Version; got != "1.2.3" || !slices.Equal(applied, []string{"1.4.0", "1.2.3"}) {
		t.Fatal(got, applied)
	}
	refuse = ""
	if r, err := m.Upgrade(t.Context(), []string{"weather"}, Consent{}); err != nil || r[0].From != "1.2.3" || r[0].Version != "1.4.0" {
		t.Fatal(r, err)
	}
	if out, err := Collect(m.Store); err != nil || out.Kept != 2 || out.Removed != 0 {
		t.Errorf("%+v %v", out, err)
	}
	// A rollback to the previous version must work without a network.
	s.lies(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		w.WriteHeader(http.StatusTeapot)
		return true
	})
	if r, err := m.Rollback(t.Context(), "weather"); err != nil || r.Version != "1.2.3" {
		t.Fatal(r, err)
	}
	s.lies(nil)
	// A withdrawn version must not be selected. Only the key that signed a version can withdraw it.
	ref, err := artifact.ParseReference(src + ":1.4.0")
	if err != nil {
		t.Fatal(err)
	}
	stranger, _ := newKey(t)
	if err := m.Yank(t.Context(), ref, artifact.Locate(ref.Name, nil), stranger, "mine"); err == nil || !strings.Contains(err.Error(), "with the key that signed it") {
		t.Error(err)
	}
	if err := m.Yank(t.Context(), ref, artifact.Locate(ref.Name, nil), key, "leaks tokens, use 1.3.0"); err != nil {
		t.Fatal(err)
	}
	if r, err := m.Upgrade(t.Context(), nil, Consent{}); err != nil || r[0].Version != "1.3.0" {
		t.Fatal(r, err)
	}
	if r, err := m.Rollback(t.Context(), "weather"); err != nil || r.Version != "1.2.3" {
		t.Fatal(r, err)
	}
	changesNeedConsent(t, m, key, src)
}

// changesNeedConsent checks that an upgrade to a version with incompatible tools, and a downgrade, need consent.
func changesNeedConsent(t *testing.T, m *machine, key keyPair, src string) {
	t.Helper()
	m.publish(key, src+":1.6.0", program("weather", "1.6.0", "later"))
	if r, err := m.Upgrade(t.Context(), nil, Consent{}); err == nil || !strings.Contains(err.Error(), "--accept-changes weather") || m.lock().Plugins["weather"].Version != "1.2.3" {
		t.Error(r, err)
	}
	if r, err := m.Upgrade(t.Context(), nil, Consent{Changes: true}); err != nil || r[0].Version != "1.6.0" || len(r[0].Changes) == 0 {
		t.Error(r, err)
	}
	m.want("weather", src, "~> 1.3.0")
	if _, err := m.install(InstallOptions{}); err == nil || !strings.Contains(err.Error(), "--allow-downgrade") {
		t.Error(err)
	}
	if r, err := m.install(InstallOptions{Consent: Consent{Downgrade: true}}); err != nil || r[0].Version != "1.3.0" {
		t.Error(r, err)
	}
	dir := m.Store.Dir(m.lock().Plugins["weather"].Platforms[trust.ThisPlatform()].Content)
	if err := os.Chmod(filepath.Join(dir, "weather"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "weather"), []byte("evil"), 0o700); err != nil {
		t.Fatal(err)
	}
	if v, err := m.Verify(t.Context(), true); err != nil || !strings.Contains(v[0].Problem, "--reinstall weather") {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := m.install(InstallOptions{Reinstall: true}); err != nil {
		t.Error(err)
	}
	if v, err := m.Verify(t.Context(), true); err != nil || v[0].Problem != "" {
		t.Errorf("%+v %v", v, err)
	}
}

// TestKeys checks which keys are accepted for the signature of a version.
func TestKeys(t *testing.T) {
	s := newServer(t)
	one, oneKey := newKey(t)
	two, twoKey := newKey(t)
	src := s.host + "/acme/weather"
	m := newMachine(t).want("weather", src, "")
	fails := func(want string, consent Consent) {
		t.Helper()
		lock, _ := os.ReadFile(m.Lock)
		_, err := m.install(InstallOptions{Consent: consent})
		if err == nil {
			_, err = m.Upgrade(t.Context(), nil, consent)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, wanted %q", err, want)
		}
		if now, _ := os.ReadFile(m.Lock); string(now) != string(lock) {
			t.Errorf("the lock file changed:\n%s", now)
		}
	}
	m.publish(nil, src+":1.0.0", program("weather", "1.0.0", "now"))
	fails("--allow-unsigned", Consent{})
	m.Settings = publisher(oneKey, src)
	fails("no key of publisher", Consent{Unsigned: true})
	m.publish(two, src+":1.0.1", program("weather", "1.0.1", "now"))
	fails("signed by the key "+twoKey.Fingerprint+", which publisher", Consent{Unsigned: true})
	m.Settings = config.Distribution{}
	m.publish(one, src+":1.0.2", program("weather", "1.0.2", "now"))
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	m.publish(two, src+":1.0.3", program("weather", "1.0.3", "now"))
	fails("--accept-key "+twoKey.Fingerprint, Consent{})
	fails("--accept-key", Consent{Key: oneKey.Fingerprint})
	m.publish(nil, src+":1.0.4", program("weather", "1.0.4", "now"))
	fails("did not sign it", Consent{Unsigned: true})
	m.publish(two, src+":1.0.5", program("weather", "1.0.5", "now"))
	m.Settings = publisher(twoKey, src)
	m.Settings.Publishers[0].Expires = m.Settings.Publishers[0].Expires.AddDate(2020, 0, 0)
	fails("expired", Consent{})
	m.Settings = config.Distribution{}
	if r, err := m.Upgrade(t.Context(), nil, Consent{Key: twoKey.Fingerprint}); err != nil || r[0].Version != "1.0.5" || r[0].Key != twoKey.Fingerprint {
		t.Error(r, err)
	}
	m.publish(nil, s.host+"/solo/plain:0.1.0", program("plain", "0.1.0", "x"))
	m.want("plain", s.host+"/solo/plain", "")
	if r, err := m.install(InstallOptions{Consent: Consent{Unsigned: true}}); err != nil || !m.lock().Plugins["plain"].Unsigned {
		t.Error(r, err)
	}
	m.want("wether", s.host+"/acne/weather", "")
	m.publish(one, s.host+"/acne/weather:1.0.0", program("weather", "1.0.0", "now"))
	fails("resembles", Consent{})
}

// keyPair is a private key. The alias keeps the parameter lists of helper functions short.
type keyPair = crypto.Signer

// TestMirrors copies a plugin to a directory, a web server and another registry, and installs the plugin from each of
// these mirrors alone.
func TestMirrors(t *testing.T) {
	s, other := newServer(t), newServer(t)
	key, public := newKey(t)
	src := s.host + "/acme/weather"
	m := newMachine(t).want("weather", src, "")
	sbom := filepath.Join(t.TempDir(), "sbom.json")
	if err := os.WriteFile(sbom, []byte(`{"bomFormat":"CycloneDX"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m.publish(key, src+":1.0.0", program("weather", "1.0.0", "now"), func(p *Publication) {
		p.Attached = map[string]string{"application/vnd.cyclonedx+json": sbom}
		p.Builds["plan9/mips"] = p.Builds[trust.ThisPlatform()]
	})
	if _, err := m.install(InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(m.Lock)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "mirror")
	if _, err := m.Mirror(t.Context(), "file://"+dir, []string{trust.ThisPlatform()}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Mirror(t.Context(), other.host+"/hub", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Mirror(t.Context(), other.host+"/hub", []string{trust.ThisPlatform()}); err == nil || !strings.Contains(err.Error(), "lacks a platform") {
		t.Error(err)
	}
	files := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer files.Close()
	s.requests()
	for _, to := range []string{"file://" + dir, files.URL, other.host + "/hub"} {
		mirror, err := artifact.ParseMirror(s.host+"/*", to)
		if err != nil {
			t.Fatal(err)
		}
		settings := publisher(public, s.host+"/acme/*")
		settings.Mirrors = []artifact.Mirror{mirror}
		locked := newMachine(t).want("weather", src, "")
		if err := os.WriteFile(locked.Lock, lock, 0o600); err != nil {
			t.Fatal(err)
		}
		locked.Settings = settings
		if r, err := locked.install(InstallOptions{Locked: true}); err != nil || r[0].State != Installed {
			t.Errorf("%s: %v %v", to, r, err)
		}
		if v, err := locked.Verify(t.Context(), true); err != nil || v[0].Problem != "" {
			t.Errorf("%s: %+v %v", to, v, err)
		}
		fresh := newMachine(t).want("weather", src, "")
		fresh.Settings = settings
		r, err := fresh.install(InstallOptions{})
		if err != nil || r[0].Publisher != "acme" || !reflect.DeepEqual(fresh.lock().Plugins, trustLock(t, lock)) {
			t.Errorf("%s: %v %v", to, r, err)
		}
		name, err := artifact.ParseName(src)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := fresh.Info(t.Context(), name, ""); err != nil || !slices.Contains(info.Documents, "application/vnd.cyclonedx+json") {
			t.Errorf("%s: %+v %v", to, info, err)
		}
		missing := newMachine(t).want("other", s.host+"/acme/other", "")
		missing.Settings = settings
		if _, err := missing.install(InstallOptions{}); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if got := s.requests(); len(got) > 0 {
		t.Errorf("the origin was asked: %q", got)
	}
}

func trustLock(t *testing.T, text []byte) map[string]trust.Pin {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := trust.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return l.Plugins
}

// TestCatalog publishes a catalog, and checks that it can be searched without the registry.
func TestCatalog(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, public := newKey(t)
	name, err := artifact.ParseName(s.host + "/acme/catalog")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "catalog")
	publish := func(version, text string) error {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ref, err := artifact.ParseReference(name.String() + ":" + version)
		if err != nil {
			t.Fatal(err)
		}
		return m.PublishCatalog(t.Context(), ref, artifact.Locate(name, nil), file, key)
	}
	if err := publish("1.0.0", `{"sauce":1}`); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Error(err)
	}
	if err := publish("1.0.0", `{"source":"registry.example.org/acme/weather","summary":"Reports the weather","tools":["now"]}`+"\n"+`{"source":"registry.example.org/acme/mail"}`); err != nil {
		t.Fatal(err)
	}
	m.Settings = publisher(public, name.String())
	m.Settings.Catalogs = []config.Catalog{{Name: "acme", Source: name}}
	if _, missing, err := m.Search(nil); err != nil || len(missing) != 1 {
		t.Error(missing, err)
	}
	if err := m.UpdateCatalogs(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.requests()
	found, _, err := m.Search([]string{"Weather", "now"})
	if err != nil || len(found) != 1 || found[0].Source != "registry.example.org/acme/weather" || len(s.requests()) > 0 {
		t.Error(found, err)
	}
	_, stranger := newKey(t)
	m.Settings.Publishers = publisher(stranger, name.String()).Publishers
	if err := m.UpdateCatalogs(t.Context()); err == nil || !strings.Contains(err.Error(), "does not list") {
		t.Error(err)
	}
}
