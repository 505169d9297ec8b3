package generation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/testbuilder"
)

// TestHeldVersion checks which version of a plugin with a rollout block runs, as a host finds it after a rollout that
// did not end, was aborted, or became obsolete.
func TestHeldVersion(t *testing.T) {
	const block = "rollout {}"
	d := one(t, "version=1.0.0", block)
	version := func(t *testing.T, h *testbuilder.Host) (version string, held *generation.Held) {
		t.Helper()
		g := h.Load(t)
		h.KeepVersions(g.Config, g.Plugins)
		p := g.Plugin("p")
		desc, err := p.Process.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.Held() != nil {
			contains(t, "problems", g.Problems, "Plugin p runs a copy of its earlier version")
		}
		return desc.Version, p.Held()
	}
	t.Run("the first version is copied", func(t *testing.T) {
		h := testbuilder.New(t, d)
		if v, held := version(t, h); v != "1.0.0" || held != nil {
			t.Errorf("version %s, held %+v", v, held)
		}
	})
	d.Write("p", "version=2.0.0")
	t.Run("a rollout begins", func(t *testing.T) {
		h := testbuilder.New(t, d)
		cfg, launcher := h.Open(t)
		serving, tried := &generation.Plugin{Plugin: *cfg.Plugin("p")}, &generation.Plugin{Plugin: *cfg.Plugin("p")}
		h.Identify(cfg, launcher, tried)
		r, err := h.State.Rollout(cfg.Path, "p")
		if err != nil || r == nil {
			t.Fatal(r, err)
		}
		copied := filepath.Join(d.StateDir(), "versions", r.Serving, "p")
		serving.Binary = generation.BinaryOf(h.State, &serving.Plugin, copied)
		h.TryVersion(cfg, serving, tried)
	})
	t.Run("a host that ends does not change the version", func(t *testing.T) {
		h := testbuilder.New(t, d)
		if v, held := version(t, h); v != "1.0.0" || held == nil || held.Aborted != "" {
			t.Errorf("version %s, held %+v", v, held)
		}
		cfg, _ := h.Open(t)
		tried := &generation.Plugin{Plugin: *cfg.Plugin("p")}
		tried.Binary = generation.BinaryOf(h.State, &tried.Plugin, tried.Path)
		if !h.RefuseVersion(cfg, tried, "too slow") {
			t.Error("a later host will not run the earlier version")
		}
		tried.Binary = generation.Binary{Sum: new([32]byte)}
		if h.RefuseVersion(cfg, tried, "another version") {
			t.Error("a version without a rollout is refused")
		}
	})
	t.Run("an aborted version does not run", func(t *testing.T) {
		h := testbuilder.New(t, d)
		if v, held := version(t, h); v != "1.0.0" || held == nil || held.Aborted != "too slow" {
			t.Errorf("version %s, held %+v", v, held)
		}
	})
	d.Write("p", "version=1.0.0")
	t.Run("the earlier program is restored", func(t *testing.T) {
		h := testbuilder.New(t, d)
		if v, held := version(t, h); v != "1.0.0" || held != nil {
			t.Errorf("version %s, held %+v", v, held)
		}
		cfg, _ := h.Open(t)
		if r, err := h.State.Rollout(cfg.Path, "p"); err != nil || r.Tried != "" || r.Why != "" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestCollectVersions checks that only old copies that no rollout needs are removed.
func TestCollectVersions(t *testing.T) {
	d := one(t, "version=1.0.0", "rollout {}")
	h := testbuilder.New(t, d)
	g := h.Load(t)
	h.KeepVersions(g.Config, g.Plugins)
	dir := filepath.Join(d.StateDir(), "versions")
	old := filepath.Join(dir, strings.Repeat("0", 64))
	young := filepath.Join(dir, strings.Repeat("1", 64))
	for _, path := range []string{old, young} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "p"), []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatal(entries, err)
	}
	long := time.Now().Add(-2 * time.Hour)
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); path != young {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, dry := range []bool{true, false} {
		if copies, size, err := generation.CollectVersions(h.Home, h.State, g.Config, dry); err != nil || copies != 1 || size != 5 {
			t.Errorf("dry %t: %d copies of %d bytes, %v", dry, copies, size, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%d copies are left, %v", len(left), err)
	}
	// Without its rollout block, a plugin needs no copy.
	without := *g.Config
	without.Plugins = []config.Plugin{{Name: "p"}}
	if copies, _, err := generation.CollectVersions(h.Home, h.State, &without, false); err != nil || copies != 1 {
		t.Errorf("%d copies, %v", copies, err)
	}
	if records, err := h.State.Rollouts(); err != nil || len(records) != 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// TestMissingCopy checks that a plugin without a usable copy of its version runs the program on the disk, and that a
// program that was replaced under a running host does not start.
func TestMissingCopy(t *testing.T) {
	d := one(t, "version=1.0.0", "rollout {}")
	h := testbuilder.New(t, d)
	g := h.Load(t)
	d.Write("p", "version=2.0.0")
	cfg, launcher := h.Open(t)
	p := h.NewPlugin(*cfg.Plugin("p"), h.Environment(cfg, launcher, g.Plugin), nil)
	p.Binary = g.Plugin("p").Binary
	if _, err := p.Process.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), "is another version, and the copy of the version in use is missing") {
		t.Errorf("%v", err)
	}
}
