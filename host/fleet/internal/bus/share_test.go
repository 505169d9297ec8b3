package bus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/fleet/internal/share"
	"toolhost.dev/host/fleet/internal/testnats"
)

// TestSharedFiles checks that a node is accepted only if it sees the file that the first node wrote into a shared
// workspace, at the same path.
func TestSharedFiles(t *testing.T) {
	b := connect(t, testnats.Server(t, nil), "one", 0)
	path, other := t.TempDir(), t.TempDir()
	check := func(node, path, want string) {
		t.Helper()
		err := share.Check(t.Context(), b.Config, node, "east", path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s at %s: %v, want %q", node, path, err, want)
		}
	}
	check("one", path, "")
	check("one", path, "")
	check("two", path, "")
	check("two", other, "Use the same path on every node")
	files, err := filepath.Glob(filepath.Join(path, ".toolhost", "fleet-*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("the text of another fleet"), 0o600); err != nil { // as in a copy of other files
		t.Fatal(err)
	}
	check("two", path, "Check the mount")
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	check("two", path, "Check the mount")
}
