package editor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestDiffNamesAFileTwice checks a diff that contains the same file twice. The second part must apply to the result
// of the first part.
func TestDiffNamesAFileTwice(t *testing.T) {
	for _, c := range []struct {
		name, diff, want, fails string // the field "want" is the final content of a.txt
	}{
		{"changed and changed", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n 1\n-two\n+2\n", "1\n2\n", ""},
		{"changed and deleted", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-two\n", "", ""},
		{"deleted and changed", "--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n", "one\ntwo\n", "deletes this file and changes it afterwards"},
		{"created twice", "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+x\n--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+y\n", "one\ntwo\n", "File exists already"},
		{"renamed onto one that is created", "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+x\ndiff --git a/a.txt b/n.txt\nrename from a.txt\nrename to n.txt\n", "one\ntwo\n", "File exists already"},
		{"no change in the end", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-1\n+one\n", "one\ntwo\n", "nothing to change"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, dir := session(t, map[string]string{"a.txt": "one\ntwo\n"})
			res := h.Call("edit", args{"diff": c.diff})
			if res.Success() != (c.fails == "") || res.Error != nil && !strings.Contains(res.Error.Message, c.fails) {
				t.Errorf("got %v, want %q", res.Error, c.fails)
			}
			b, err := os.ReadFile(filepath.Join(dir, "a.txt"))
			if string(b) != c.want || (err == nil) == (c.want == "") {
				t.Errorf("the file is %q, %v", b, err)
			}
			if c.fails != "" {
				if _, err := os.Stat(filepath.Join(dir, "n.txt")); err == nil {
					t.Error("a file was made")
				}
			}
		})
	}
}

// TestDiffRenameIsTwoEffects checks that a rename notifies the host of the removed file and of the created file.
func TestDiffRenameIsTwoEffects(t *testing.T) {
	h, dir := session(t, map[string]string{"a.txt": "one\n"})
	res := h.Call("edit", args{"diff": "diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n"})
	if !res.Success() || !strings.HasPrefix(res.Output, "Renamed a.txt to b.txt.") {
		t.Fatalf("%v %q", res.Error, res.Output)
	}
	ops := make(map[string]tool.Operation)
	for _, e := range res.Effects {
		ops[filepath.Base(e.File.Path)] = e.Operation
	}
	if len(ops) != 2 || ops["a.txt"] != tool.OpDelete || ops["b.txt"] != tool.OpCreate {
		t.Errorf("%v", ops)
	}
	if got := get(t, filepath.Join(dir, "b.txt")); got != "one\n" {
		t.Errorf("the file is %q", got)
	}
}

// TestDiffChangesMode checks changes of a file's mode with and without a change of its text. It also undoes these
// changes.
func TestDiffChangesMode(t *testing.T) {
	const head = "diff --git a/a.sh b/a.sh\nold mode 100644\nnew mode 100755\n"
	for name, c := range map[string]struct{ diff, file, says, text string }{
		"alone":     {head, "a.sh", "Changed the mode of a.sh to 0750.", "one\n"},
		"with text": {head + "--- a/a.sh\n+++ b/a.sh\n@@ -1 +1 @@\n-one\n+1\n", "a.sh", "lines 1-1. Its mode is 0750.", "1\n"},
		"renamed":   {"diff --git a/a.sh b/b.sh\nold mode 100644\nnew mode 100755\nrename from a.sh\nrename to b.sh\n", "b.sh", "Renamed a.sh to b.sh.", "one\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := session(t, map[string]string{"a.sh": "one\n"})
			mode := func(name string) os.FileMode {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				return info.Mode()
			}
			if err := os.Chmod(filepath.Join(dir, "a.sh"), 0o640); err != nil {
				t.Fatal(err)
			}
			res := h.Call("edit", args{"diff": c.diff})
			if !res.Success() || !strings.Contains(res.Output, c.says) {
				t.Fatalf("%v %q", res.Error, res.Output)
			}
			if got := get(t, filepath.Join(dir, c.file)); got != c.text || mode(c.file) != 0o750 {
				t.Errorf("%q %v", got, mode(c.file))
			}
			if res := h.Call("undo", args{}); !res.Success() || get(t, filepath.Join(dir, "a.sh")) != "one\n" || mode("a.sh") != 0o640 {
				t.Errorf("undo: %v %v", res.Error, mode("a.sh"))
			}
			res = h.Call("edit", args{"diff": strings.Replace(strings.Replace(head, "644", "755", 1), "mode 100755\n", "mode 100644\n", 1) + "new mode 100644\n"})
			if res.Success() || !strings.Contains(res.Error.Message, "nothing to change") {
				t.Errorf("a mode that it has: %v %q", res.Error, res.Output)
			}
		})
	}
}
