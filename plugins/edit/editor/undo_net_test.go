package editor_test

import (
	"path/filepath"
	"testing"
)

// TestUndoOfAFileThatCameAndWent checks the undo of changes that created and removed the same file.
func TestUndoOfAFileThatCameAndWent(t *testing.T) {
	h, dir := session(t, map[string]string{"a.txt": "one\n"})
	b := filepath.Join(dir, "new/b.txt")
	does(t, h, "write", args{"file_path": "new/b.txt", "content": "b\n"})
	does(t, h, "edit", args{"file_path": "a.txt", "old_string": "one", "new_string": "1"})
	does(t, h, "edit", args{"diff": "--- a/new/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"})
	has(t, b, "-")
	does(t, h, "undo", args{"action": "preview", "steps": 3})
	d := data[undone](t, does(t, h, "undo", args{"steps": 3}))
	has(t, b, "-")
	has(t, filepath.Join(dir, "a.txt"), "one\n")
	if d.UndoCount != 0 || d.RedoCount != 3 || len(d.Files) != 1 {
		t.Errorf("%+v", d)
	}
	does(t, h, "redo", args{"steps": 3})
	has(t, filepath.Join(dir, "a.txt"), "1\n")
	has(t, b, "-")
	does(t, h, "undo", nil)
	has(t, b, "b\n")
	// The next undo must change no file.
	does(t, h, "redo", nil)
	d = data[undone](t, does(t, h, "undo", args{"steps": 2, "file_path": "new/b.txt"}))
	if has(t, b, "-"); d.UndoCount != 0 || d.RedoCount != 2 || len(d.Files) != 0 {
		t.Errorf("%+v", d)
	}
}
