package editor_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"

	"toolhost.dev/plugins/edit/editor"
	"toolhost.dev/plugins/edit/history"
)

type undone struct {
	Action  string
	Changes []struct {
		ID     int64
		Title  string
		Undone bool
		Files  []struct{ Path, Operation string }
	}
	Files     []struct{ Path, Operation string }
	Diff      string
	UndoCount int `json:"undo_count"`
	RedoCount int `json:"redo_count"`
	Dropped   int
}

// This helper calls a tool. The test fails if the call fails.
func does(t testing.TB, h *tooltest.Host, name string, in args) *tool.Result {
	t.Helper()
	res := h.Call(name, in)
	if !res.Success() {
		t.Fatalf("%s %v: %v", name, in, res.Error)
	}
	return res
}

// This helper calls a tool and expects the given kind of error. The message must contain all words.
func refuses(t testing.TB, h *tooltest.Host, name string, in args, kind tool.Kind, code int, words ...string) {
	t.Helper()
	res := h.Call(name, in)
	if res.Success() || res.Error.Kind != kind || res.Error.Code != code {
		t.Fatalf("%s %v: %+v, want %s with the code %d", name, in, res.Error, kind, code)
	}
	for _, w := range words {
		if !strings.Contains(res.Error.Message, w) {
			t.Errorf("%s %v: the message lacks %q: %s", name, in, w, res.Error.Message)
		}
	}
}

func has(t testing.TB, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	switch {
	case want == "-" && err == nil:
		t.Errorf("%s is there: %.40q", path, b)
	case want != "-" && (err != nil || string(b) != want):
		t.Errorf("%s has %.80q, %v; want %.80q", path, b, err, want)
	}
}

func TestUndoAndRedo(t *testing.T) {
	h, dir := session(t, map[string]string{"a.txt": "one\r\ntwo\n\xff"})
	a := filepath.Join(dir, "a.txt")
	if err := os.Chmod(a, 0o640|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	does(t, h, "edit", args{"file_path": "a.txt", "old_string": "two", "new_string": "2"})
	does(t, h, "write", args{"file_path": "a.txt", "content": "all new"})
	does(t, h, "write", args{"file_path": "new/deep/b.txt", "content": "b"})
	b := filepath.Join(dir, "new/deep/b.txt")

	// A preview must write nothing.
	d := data[undone](t, does(t, h, "undo", args{"action": "preview"}))
	if has(t, b, "b\n"); !strings.Contains(d.Diff, "--- a/new/deep/b.txt\n+++ /dev/null\n") || !strings.Contains(d.Diff, "\n-b\n") || d.Action != "preview" || d.UndoCount != 3 {
		t.Errorf("%+v", d)
	}
	// The last change is undone first. The undo removes the created file and the directories that were created for
	// the file.
	d = data[undone](t, does(t, h, "undo", nil))
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("the directories made for the file are left")
	}
	if len(d.Files) != 1 || d.Files[0].Path != b || d.Files[0].Operation != "delete" || d.UndoCount != 2 || d.RedoCount != 1 {
		t.Errorf("%+v", d)
	}
	does(t, h, "undo", args{"file_path": "a.txt"})
	has(t, a, "one\r\n2\n\xff")
	does(t, h, "undo", nil)
	has(t, a, "one\r\ntwo\n\xff")
	if info, err := os.Stat(a); err != nil || info.Mode() != 0o640|fs.ModeSetgid {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	refuses(t, h, "undo", nil, tool.NotFound, 0, "nothing to undo in this session", "3 changes can be redone")
	refuses(t, h, "undo", args{"file_path": "a.txt"}, tool.NotFound, 0, "nothing to undo of a.txt")

	// After an undo, the session counts the current content of the file as read.
	if res := does(t, h, "redo", args{"action": "preview"}); !strings.Contains(res.Output, "-two\n+2\n") {
		t.Errorf("%s", res.Output)
	}
	does(t, h, "redo", args{"steps": 2})
	has(t, a, "all new\n")
	does(t, h, "redo", nil)
	has(t, b, "b\n")
	refuses(t, h, "redo", nil, tool.NotFound, 0, "nothing to redo")
	does(t, h, "edit", args{"file_path": "a.txt", "old_string": "all", "new_string": "some"})
	does(t, h, "undo", args{"steps": 4})
	has(t, a, "one\r\ntwo\n\xff")
	has(t, b, "-")
	does(t, h, "redo", args{"steps": 4})
	has(t, a, "some new\n")
	has(t, b, "b\n")
	does(t, h, "undo", args{"file_path": "a.txt", "steps": 3})
	has(t, a, "one\r\ntwo\n\xff")
	has(t, b, "b\n")
	does(t, h, "edit", args{"file_path": "a.txt", "old_string": "one", "new_string": "1"})
	refuses(t, h, "redo", nil, tool.NotFound, 0, "nothing to redo") // the new change has replaced the undone change
	refuses(t, h, "undo", args{"steps": 3}, tool.NotFound, 0, "Only 2 changes can be undone")
}

// TestUndoRefusesWhatChangedSince checks that undo does not overwrite changes that other programs made later.
func TestUndoRefusesWhatChangedSince(t *testing.T) {
	for name, c := range map[string]struct {
		meddle func(path string) error
		words  string
	}{
		"changed":             {func(p string) error { return os.WriteFile(p, []byte("theirs"), 0o666) }, "f.txt has been changed since change 1 (edit f.txt)"},
		"removed":             {os.Remove, "f.txt has been removed since"},
		"a directory instead": {func(p string) error { _ = os.Remove(p); return os.Mkdir(p, 0o777) }, "directory"},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := session(t, map[string]string{"f.txt": "a\n"})
			path := filepath.Join(dir, "f.txt")
			does(t, h, "edit", args{"file_path": "f.txt", "old_string": "a", "new_string": "b"})
			if err := c.meddle(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			kind, code := tool.Conflict, 7
			if name == "a directory instead" {
				kind, code = tool.InvalidArguments, 0
			}
			for _, in := range []args{nil, {"action": "preview"}, {"file_path": "f.txt"}} {
				refuses(t, h, "undo", in, kind, code, c.words)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Errorf("the file is %q now", after)
			}
		})
	}
	// If the bytes are the same, a new modification time or a new mode does not count as a change.
	h, dir := session(t, map[string]string{"f.txt": "a\n"})
	path := filepath.Join(dir, "f.txt")
	does(t, h, "edit", args{"file_path": "f.txt", "old_string": "a", "new_string": "b"})
	put(t, path, "b\n")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	does(t, h, "undo", nil)
	has(t, path, "a\n")
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("a mode that the change did not touch is %v now", info.Mode())
	}
	put(t, path, "theirs\n")
	refuses(t, h, "redo", nil, tool.Conflict, 7, "redo", "Nothing was written")
	// Another program has written to the file between two changes. The later change can be undone alone. The two
	// changes cannot be undone together.
	know(t, h, path)
	does(t, h, "write", args{"file_path": "f.txt", "content": "1"})
	put(t, path, "between\n")
	know(t, h, path)
	does(t, h, "write", args{"file_path": "f.txt", "content": "2"})
	refuses(t, h, "undo", args{"steps": 2}, tool.Conflict, 7, "between the changes", "fewer steps")
	has(t, path, "2\n")
	does(t, h, "undo", nil)
	has(t, path, "between\n")
}

func TestUndoList(t *testing.T) {
	h, dir := session(t, nil)
	for i := range 60 {
		does(t, h, "write", args{"file_path": "f.txt", "content": fmt.Sprint(i)})
	}
	does(t, h, "write", args{"file_path": "g.txt", "content": "g"})
	does(t, h, "undo", nil)
	res := does(t, h, "undo", args{"action": "list"})
	d := data[undone](t, res)
	if d.UndoCount != 60 || d.RedoCount != 1 || len(d.Changes) != 61 || !d.Changes[0].Undone || d.Changes[0].Title != "write g.txt" || d.Changes[1].ID != 60 ||
		d.Changes[60].Files[0].Operation != "create" || d.Changes[60].Files[0].Path != filepath.Join(dir, "f.txt") {
		t.Errorf("%+v", d)
	}
	if lines := strings.Split(res.Output, "\n"); !strings.HasPrefix(lines[0], "60 changes can be undone and 1 redone") || !strings.HasSuffix(lines[1], "write g.txt  (undone)") || lines[51] != "… and 11 older" {
		t.Errorf("%q", lines)
	}
	for _, verb := range []string{"undo", "redo"} { // the word is no file
		if d := data[undone](t, does(t, h, verb, args{"file_path": "list"})); d.Action != "list" || d.UndoCount+d.RedoCount == 0 {
			t.Errorf("%s list: %+v", verb, d)
		}
	}
	if d := data[undone](t, does(t, h, "undo", args{"action": "list", "file_path": "g.txt"})); d.UndoCount != 0 || d.RedoCount != 1 {
		t.Errorf("%+v", d)
	}
	if res := does(t, h, "undo", args{"action": "clear", "file_path": "g.txt"}); !strings.Contains(res.Output, "Deleted the history of 1 change of g.txt") {
		t.Error(res.Output)
	}
	if res := does(t, h, "undo", args{"action": "clear"}); !strings.Contains(res.Output, "Deleted the history of 60 changes in this session") {
		t.Error(res.Output)
	}
	refuses(t, h, "undo", nil, tool.NotFound, 0, "nothing to undo")
	has(t, filepath.Join(dir, "f.txt"), "59\n")
}

// TestUndoHistoryLasts checks that the history remains after a restart of the plugin. It also checks the size limit
// and the reported number of dropped changes.
func TestUndoHistoryLasts(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	start := func() *tooltest.Host {
		h := tooltest.New(t, editor.Plugin(), dir)
		if d := h.Configure(tool.Configuration{StateDir: state, Config: []byte(`{"history_mb":1}`)}); len(d) > 0 {
			t.Fatal(d)
		}
		return h
	}
	h := start()
	size := 300 << 10
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("%015d\n", i), size/16) }
	for i := range 6 {
		does(t, h, "write", args{"file_path": "f.txt", "content": text(i)})
	}
	h = start()
	d := data[undone](t, does(t, h, "undo", args{"action": "list"}))
	if d.UndoCount != 3 || d.Dropped != 3 { // the limit of 1 MiB has space for three changes of 300 KB
		t.Errorf("%d can be undone, %d were dropped", d.UndoCount, d.Dropped)
	}
	refuses(t, h, "undo", args{"steps": 4}, tool.NotFound, 0, "Only 3 changes", "The history is limited to 1 MiB and has dropped 3 older changes", "1 MiB")
	does(t, h, "undo", args{"steps": 3})
	has(t, filepath.Join(dir, "f.txt"), text(2))
	h = start()
	does(t, h, "redo", args{"steps": 3})
	has(t, filepath.Join(dir, "f.txt"), text(5))
	// A change that is too large for the history is still made. The result reports that the change cannot be undone.
	put(t, filepath.Join(dir, "big.txt"), strings.Repeat("x", 2<<20))
	know(t, h, filepath.Join(h.Cwd, "big.txt"))
	if res := does(t, h, "write", args{"file_path": "big.txt", "content": "y"}); !strings.Contains(res.Output, "This change cannot be undone: the change is larger than the history's limit of 1 MiB.") {
		t.Error(res.Output[:200])
	}
	info, err := os.Stat(filepath.Join(state, "history.db"))
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() > 3<<20 {
		t.Errorf("%v, %v", info, err)
	}
	// A damaged history does not prevent writing.
	if err := os.WriteFile(filepath.Join(state, "history.db"), []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ext := range []string{"-wal", "-shm"} {
		_ = os.Remove(filepath.Join(state, "history.db"+ext))
	}
	h = start()
	if res := does(t, h, "write", args{"file_path": "other.txt", "content": "y"}); !strings.Contains(res.Output, "This change cannot be undone: the history of changes") || !strings.Contains(res.Output, "To start with an empty history, remove this file") {
		t.Error(res.Output)
	}
	if res := h.Call("undo", nil); res.Success() || !strings.Contains(res.Error.Message, "To start with an empty history, remove this file") {
		t.Errorf("%+v", res)
	}
}

// TestUndoKeepsToTheRoots checks that undo respects the current roots and rules.
func TestUndoKeepsToTheRoots(t *testing.T) {
	h, dir := session(t, map[string]string{"f.txt": "a\n", "sub/g.txt": "a\n"})
	for _, name := range []string{"f.txt", "sub/g.txt"} {
		does(t, h, "edit", args{"file_path": name, "old_string": "a", "new_string": "b"})
	}
	whole := h.Roots
	// Changes of files outside of the current roots are hidden from the call.
	h.Roots, h.Cwd = []tool.Root{{Path: dir + "/sub", Writable: true}}, dir+"/sub"
	if d := data[undone](t, does(t, h, "undo", args{"action": "list"})); d.UndoCount != 1 {
		t.Errorf("%+v", d)
	}
	h.Roots = []tool.Root{{Path: dir + "/sub"}}
	refuses(t, h, "undo", nil, tool.PermissionDenied, 2, "read-only")
	refuses(t, h, "undo", args{"file_path": "g.txt"}, tool.PermissionDenied, 2, "read-only")
	h.Roots, h.Cwd = whole, dir
	// The host denies the permission to write.
	var asked []string
	h.Answer = func(a tool.Ask) tool.Answer {
		asked = a.Permission.Patterns
		return tool.Answer{Outcome: tool.Declined, Message: "it is denied by a rule"}
	}
	refuses(t, h, "undo", nil, tool.PermissionDenied, 2, "denied by a rule")
	if len(asked) != 1 || asked[0] != dir+"/sub/g.txt" {
		t.Errorf("asked for %q", asked)
	}
	h.Answer = nil
	// The directory is replaced by a symbolic link.
	if err := os.Rename(dir+"/sub", dir+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("moved", dir+"/sub"); err != nil {
		t.Fatal(err)
	}
	refuses(t, h, "undo", nil, tool.Conflict, 7, "through a symbolic link")
	has(t, dir+"/moved/g.txt", "b\n")
}

func TestUndoOfAFileWithTwoNames(t *testing.T) {
	h, dir := session(t, map[string]string{"f.txt": "a\n"})
	if err := os.Link(dir+"/f.txt", dir+"/twin"); err != nil {
		t.Fatal(err)
	}
	does(t, h, "edit", args{"file_path": "f.txt", "old_string": "a", "new_string": "b"})
	if res := does(t, h, "undo", nil); !strings.Contains(res.Output, "2 hard links") {
		t.Error(res.Output)
	}
	has(t, dir+"/twin", "a\n")
}

// TestUndoAfterAKill checks an undo after a process was killed during a change. The undo must first complete or revert
// the unfinished change. Then it must undo the last complete change.
func TestUndoAfterAKill(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	h := tooltest.New(t, editor.Plugin(), dir)
	if d := h.Configure(tool.Configuration{StateDir: state}); len(d) > 0 {
		t.Fatal(d)
	}
	does(t, h, "write", args{"file_path": "a.txt", "content": "a"})
	does(t, h, "write", args{"file_path": "b.txt", "content": "b"})
	killed := history.Open(state, 0) // this process is killed after Begin and the write of its file
	defer killed.Close()
	for name, c := range map[string]struct{ now, after string }{"b.txt": {"B\n", "B\n"}, "c.txt": {"-", "c\n"}} {
		before := history.Version{}
		if name == "b.txt" {
			before = history.Content([]byte("b\n"), 0o644)
		}
		change := &history.Change{Session: "test", Tool: "write", Title: "write " + name, Files: []history.File{{Path: h.Path(name), Before: before, After: history.Content([]byte(c.after), 0o644)}}}
		if err := killed.Begin(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if c.now != "-" {
			put(t, h.Path(name), c.now)
		}
	}
	if d := data[undone](t, does(t, h, "undo", args{"action": "list"})); d.UndoCount != 3 || d.Changes[0].Title != "write b.txt" {
		t.Errorf("%+v", d)
	}
	does(t, h, "undo", nil)
	has(t, h.Path("b.txt"), "b\n")
	does(t, h, "undo", args{"steps": 2})
	has(t, h.Path("a.txt"), "-")
}
