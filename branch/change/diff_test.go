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
	below, rest := entriesOf(View{Base: base}, View{Base: base, Upper: layer}, &changes[1], maxListed)
	if len(below) != maxListed || rest.more != maxListed || rest.lost != 0 {
		t.Errorf("%d entries are listed and %+v are counted, want %d each", len(below), rest, maxListed)
	}
}

// TestDiffOfReplacedDirectories checks that a diff names every file that vanishes with its directory, whether the layer
// has a directory, a file, a link or nothing in its place.
func TestDiffOfReplacedDirectories(t *testing.T) {
	layer, base := t.TempDir(), t.TempDir()
	files(t, base, map[string]string{
		"d/n.txt": "old\n", "d/same": "same\n", "d/changed": "1\n", "d/sub/deep": "deep\n", "d/turned/x": "x\n", "d/was": "was\n",
		"file/a": "a\n", "link/b": "b\n", "gone/c/c": "c\n", "f": "text\n",
	})
	files(t, layer, map[string]string{"d/only": "1\n", "d/same": "same\n", "d/changed": "2\n", "d/turned": "-> /etc", "d/was/new": "new\n", "file": "now\n", "link": "-> d", "f/in": "in\n"})
	changes := []Change{
		{Path: "d", Op: OpReplace, Was: "directory", Is: "directory", Entries: 6}, {Path: "f", Op: OpReplace, Was: "file", Is: "directory", Entries: 1},
		{Path: "file", Op: OpReplace, Was: "directory", Is: "file", Entries: 1}, {Path: "gone", Op: OpDelete, Was: "directory", Entries: 2},
		{Path: "link", Op: OpReplace, Was: "directory", Is: "link", Entries: 1},
	}
	before, after := View{Base: base}, View{Base: base, Upper: layer}
	var full strings.Builder
	if err := Diff(&full, before, after, changes); err != nil {
		t.Fatal(err)
	}
	inside := []string{
		"# deleted file d/n.txt", "# deleted directory d/sub\n", "# deleted file d/sub/deep", "# deleted file d/turned/x", "# replaced link d/turned (was a directory)", "# replaced directory d/was (was a file)",
		"-1\n+2\n", "# new file d/only", "# new file d/was/new", "# replaced file file (was a directory with 1 entry)", "# replaced link link (was a directory with 1 entry)", "# deleted directory gone with 2 entries", "# new file f/in",
	}
	outside := []string{"# deleted file file/a", "# deleted file link/b", "# deleted directory gone/c\n", "# deleted file gone/c/c", "-text\n"}
	for text, wants := range map[string][]string{full.String(): append(outside, inside...), ShortDiff(before, after, changes, 8<<10): inside} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("the diff lacks %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "d/same") {
			t.Errorf("the diff has a file that is as before:\n%s", text)
		}
	}
}

// TestDiffOfManyDeleted checks that a diff counts the deleted entries that it does not list.
func TestDiffOfManyDeleted(t *testing.T) {
	layer, base := t.TempDir(), t.TempDir()
	many := make(map[string]string)
	for i := range maxListed + 2 {
		many[fmt.Sprintf("d/%04d", i)] = "x\n"
	}
	files(t, base, many)
	files(t, layer, map[string]string{"d/only": "1\n"})
	changes := []Change{{Path: "d", Op: OpReplace, Was: "directory", Is: "directory", Entries: 1}}
	got := ShortDiff(View{Base: base}, View{Base: base, Upper: layer}, changes, 8<<10)
	if want := "# deleted file d/0999\n# 3 more entries of d are not shown; 2 of them are deleted or replaced\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the diff ends with %q, want %q", got[max(0, len(got)-200):], want)
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
