package change

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDiffWithoutBase checks that a diff can be shown after the workspace was moved or removed.
func TestDiffWithoutBase(t *testing.T) {
	v := View{Base: filepath.Join(t.TempDir(), "moved"), Upper: t.TempDir()}
	if err := os.WriteFile(filepath.Join(v.Upper, "a"), []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "# new file a (4 bytes)\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+new\n"
	if got := ShortDiff(View{Base: v.Base}, v, []Change{{Path: "a", Op: OpCreate, Is: "file", Size: 4}}, 1000); got != want {
		t.Errorf("the diff is\n%s", got)
	}
}

// TestDiffOfNewDirectories checks that the diff of a new directory shows its files, links and special modes to the
// person who decides. It also checks that a directory with many files does not hide other changes.
func TestDiffOfNewDirectories(t *testing.T) {
	layer, base := t.TempDir(), t.TempDir()
	files(t, base, map[string]string{"z": "old\n", "turned/x": "dir"})
	many := map[string]string{"a/run.sh": "#!/bin/sh\n", "a/link": "-> /etc", "a/deep/rights": "", "turned": "-> /root", "z": "new\n"}
	for i := range 2 * maxListed {
		many[fmt.Sprintf("b/%04d", i)] = "x\n"
	}
	files(t, layer, many)
	if err := errors.Join(os.Chmod(filepath.Join(layer, "a/deep/rights"), 0o755|os.ModeSetuid), unix.Mkfifo(filepath.Join(layer, "a/pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	changes := []Change{
		{Path: "a", Op: OpCreate, Is: "directory"}, {Path: "b", Op: OpCreate, Is: "directory"}, {Path: "turned", Op: OpReplace, Was: "directory", Is: "link"},
		{Path: "z", Op: OpModify, Was: "file", Is: "file"},
	}
	got := ShortDiff(View{Base: base}, View{Base: base, Upper: layer}, changes, 8<<10)
	for _, want := range []string{
		"+++ b/a/run.sh\n@@ -0,0 +1 @@\n+#!/bin/sh\n", "# new link a/link\n--- /dev/null\n+++ b/a/link\n@@ -0,0 +1 @@\n+/etc\n", "a/deep/rights (0 bytes) [runs with the rights of its owner",
		"# new other a/pipe [never applied", "-old\n+new\n", "more changes are not shown",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the diff lacks %q:\n%s", want, got)
		}
	}
	if text := diffOf(View{Base: base}, View{Base: base, Upper: layer}, &changes[2]); !strings.Contains(text, "+/root\n") {
		t.Errorf("the diff of a link in place of a directory lacks its target:\n%s", text)
	}
	below, more := (View{Base: base, Upper: layer}).below(&changes[1], maxListed)
	if len(below) != maxListed || more != maxListed {
		t.Errorf("%d entries are listed and %d are counted, want %d each", len(below), more, maxListed)
	}
}

// files creates files with the given contents. The content "-> target" makes a symbolic link.
func files(t *testing.T, dir string, content map[string]string) {
	t.Helper()
	for name, text := range content {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if to, link := strings.CutPrefix(text, "-> "); link {
			err = errors.Join(err, os.Symlink(to, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
