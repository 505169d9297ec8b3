package distribution

import (
	"os"
	"testing"
	"time"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/trust"
)

// TestCollect checks which versions are not removed: the version in a lock file, the version before it, the versions of
// a lock file that was missing for less than 30 days, and a version that a process uses.
func TestCollect(t *testing.T) {
	s, m := newServer(t), newMachine(t)
	key, _ := newKey(t)
	src := s.host + "/acme/weather"
	m.want("weather", src, "")
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		m.publish(key, src+":"+v, program("weather", v, "now"))
		if _, err := m.install(InstallOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Upgrade(t.Context(), nil, Consent{}); err != nil {
			t.Fatal(err)
		}
	}
	collect := func(removed, kept, inUse int) {
		t.Helper()
		if out, err := Collect(m.Store); err != nil || *out != (Collected{removed, kept, inUse}) {
			t.Errorf("%+v %v, wanted %d removed, %d kept, %d in use", out, err, removed, kept, inUse)
		}
	}
	collect(1, 2, 0)
	content := m.lock().Plugins["weather"].Platforms[trust.ThisPlatform()].Content
	if err := os.Rename(m.Lock, m.Lock+".away"); err != nil {
		t.Fatal(err)
	}
	age := func(days int) {
		t.Helper()
		if err := m.Store.Change(m.Lock, func(r *artifact.StoreRecord) { r.Seen = time.Now().AddDate(0, 0, -days) }); err != nil {
			t.Fatal(err)
		}
	}
	age(29)
	collect(0, 2, 0)
	if err := m.Store.Hold(m.Store.Dir(content) + "/weather"); err != nil {
		t.Fatal(err)
	}
	age(31)
	collect(1, 0, 1)
}
