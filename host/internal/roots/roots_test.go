package roots

import (
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/host/internal/config"
)

// TestEpoch checks that the sets of all generations find a new root once a call of one generation has made it.
func TestEpoch(t *testing.T) {
	workspace, root := t.TempDir(), filepath.Join(t.TempDir(), "root")
	cfg := new(config.Config)
	cfg.Sandbox.Roots = []config.Root{{Path: root}}
	var epoch Epoch
	none := func(string, string) string { return "" }
	all := []*Sets{New(cfg, &epoch, none), New(cfg, &epoch, none)}
	expect := func(n int) {
		t.Helper()
		for _, s := range all {
			if found := s.Of("", workspace, false); len(found) != n {
				t.Errorf("%v, want %d roots", found, n)
			}
		}
	}
	expect(1)
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	expect(1)
	epoch.Forget()
	expect(2)
}
