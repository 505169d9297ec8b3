package branch

import (
	"os"
	"path/filepath"
	"testing"
)

// A diff can be shown after the workspace was moved or removed.
func TestDiffWithoutBase(t *testing.T) {
	v := view{base: filepath.Join(t.TempDir(), "moved"), layer: t.TempDir()}
	if err := os.WriteFile(filepath.Join(v.layer, "a"), []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "# new file a (4 bytes)\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+new\n"
	if got := shortDiff(view{base: v.base}, v, []Change{{Path: "a", Op: OpCreate, Is: "file", Size: 4}}, 1000); got != want {
		t.Errorf("the diff is\n%s", got)
	}
}
