package editor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPatchEnvelope checks patches in the form of apply_patch.
func TestPatchEnvelope(t *testing.T) {
	const classes = "class A:\n    def f():\n        x = 1\n\nclass B:\n    def f():\n        x = 1\n    def g():\n        x = 1\n"
	for _, c := range []struct {
		name, before, patch, want, fails string // the field "want" is the final content of a.txt
	}{
		{"update", "one\ntwo\n", "*** Update File: a.txt\n@@\n one\n-two\n+2\n", "one\n2\n", ""},
		{"blanks around headers", "one\ntwo\n", "  *** Update File: a.txt \n@@\n-two\n+2\n", "one\n2\n", ""},
		{"blanks around a target", "one\n", "*** Add File: b.txt\n+b\n *** Update File: a.txt\n *** Move to: c.txt\n@@\n-one\n+1\n", "-", ""},
		{"markers as context", "*** End Patch\n*** Update File: x\ntwo\n", "*** Update File: a.txt\n@@\n *** End Patch\n *** Update File: x\n-two\n+2\n", "*** End Patch\n*** Update File: x\n2\n", ""},
		{"other blanks", "one  \n\ttwo\n", "*** Update File: a.txt\n@@\n one\n-  two\n+  2\n", "one  \n\t2\n", ""},
		{"line endings stay", "one\r\ntwo\r\n", "*** Update File: a.txt\n@@ one\n-two\n+2\n", "one\r\n2\r\n", ""},
		{"a line above", classes, "*** Update File: a.txt\n@@ class B:\n-        x = 1\n+        x = 2\n", strings.Replace(classes, "class B:\n    def f():\n        x = 1", "class B:\n    def f():\n        x = 2", 1), ""},
		{"two lines above", classes, "*** Update File: a.txt\n@@ class B:\n@@ def g():\n-        x = 1\n+        x = 2\n", strings.TrimSuffix(classes, "1\n") + "2\n", ""},
		{"ambiguous", classes, "*** Update File: a.txt\n@@\n-        x = 1\n+        x = 2\n", classes, "3 "},
		{"no such line above", classes, "*** Update File: a.txt\n@@ class C:\n-        x = 1\n+        x = 2\n", classes, "no line \"class C:\""},
		{"at the end", "a\nb\na\n", "*** Update File: a.txt\n@@\n-a\n+c\n*** End of File\n", "a\nb\nc\n", ""},
		{"append", "a\nb", "*** Update File: a.txt\n@@\n+c\n", "a\nb\nc", ""},
		{"insert below a line", classes, "*** Update File: a.txt\n@@ class B:\n+    y = 0\n", strings.Replace(classes, "class B:\n", "class B:\n    y = 0\n", 1), ""},
		{"fill an empty file", "", "*** Update File: a.txt\n@@\n+c\n", "c\n", ""},
		{"two hunks in order", "a\nx\nb\nx\n", "*** Update File: a.txt\n@@ a\n-x\n+1\n@@ b\n-x\n+2\n", "a\n1\nb\n2\n", ""},
		{"delete", "a\n", "*** Delete File: a.txt\n", "-", ""},
		{"move", "a\n", "*** Update File: a.txt\n*** Move to: b.txt\n@@\n-a\n+b\n", "-", ""},
		{"add over a file", "a\n", "*** Add File: a.txt\n+b\n", "a\n", "exists already"},
		{"one of two fails", "a\n", "*** Update File: a.txt\n@@\n-a\n+b\n*** Update File: none.txt\n@@\n-a\n+b\n", "a\n", "none.txt"},
		{"out of the workspace", "a\n", "*** Add File: ../x\n+b\n", "a\n", "must not contain"},
		{"a placeholder", "a\nb\nc\n", "*** Update File: a.txt\n@@\n-a\n-b\n-c\n+a\n+# ... rest unchanged\n", "a\nb\nc\n", "placeholder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, dir := session(t, map[string]string{"a.txt": c.before})
			res := h.Call("edit", args{"diff": " *** Begin Patch \n" + c.patch + "\t*** End Patch \n\n"})
			if res.Success() != (c.fails == "") || res.Error != nil && !strings.Contains(res.Error.Message, c.fails) {
				t.Errorf("got %v, want %q", res.Error, c.fails)
			}
			b, err := os.ReadFile(filepath.Join(dir, "a.txt"))
			if c.want == "-" && err == nil || c.want != "-" && string(b) != c.want {
				t.Errorf("the file is %q, %v, want %q", b, err, c.want)
			}
			if c.fails != "" {
				return
			}
			if res := h.Call("undo", args{}); !res.Success() {
				t.Errorf("undo: %v", res.Error)
			} else if got := get(t, filepath.Join(dir, "a.txt")); got != c.before {
				t.Errorf("undo restored %q", got)
			}
		})
	}
}

// TestInsertAtLine checks a hunk without context lines whose header names the line for the insertion.
func TestInsertAtLine(t *testing.T) {
	for line, want := range map[string]string{"0": "x\na\nb\n", "1": "a\nx\nb\n", "2": "a\nb\nx\n"} {
		h, dir := session(t, map[string]string{"a.txt": "a\nb\n"})
		res := h.Call("edit", args{"file_path": "a.txt", "diff": "@@ -" + line + ",0 +1,1 @@\n+x\n"})
		if got := get(t, filepath.Join(dir, "a.txt")); got != want {
			t.Errorf("%s: %q, %v", line, got, res.Error)
		}
	}
}

// TestPatchOfUnreadFile checks a patch for a file that the session did not read. The patch is accepted if it quotes the
// lines that it changes.
func TestPatchOfUnreadFile(t *testing.T) {
	for patch, fails := range map[string]string{
		"*** Begin Patch\n*** Update File: u.txt\n@@\n-a\n+b\n*** End Patch\n": "",
		"*** Begin Patch\n*** Delete File: u.txt\n*** End Patch\n":             "",
		"*** Begin Patch\n*** Update File: u.txt\n@@\n+b\n*** End Patch\n":     "not been read",
		"--- a/u.txt\n+++ b/u.txt\n@@ -1 +1 @@\n-a\n+b\n":                      "not been read",
	} {
		h, dir := session(t, nil)
		put(t, filepath.Join(dir, "u.txt"), "a\n")
		res := h.Call("edit", args{"diff": patch})
		if res.Success() != (fails == "") || res.Error != nil && !strings.Contains(res.Error.Message, fails) {
			t.Errorf("%q: got %v, want %q", patch, res.Error, fails)
		}
	}
}
