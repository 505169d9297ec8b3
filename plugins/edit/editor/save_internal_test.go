package editor

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/commit"
	"toolhost.dev/plugins/edit/history"
	"toolhost.dev/plugins/edit/validate"
)

// known is a test implementation of States. It reports that the session has read the current version of every file.
type known struct{}

func (known) FileState(_ context.Context, path string) (tool.FileState, bool, error) {
	b, err := os.ReadFile(path)
	return tool.FileState{Path: path, Hash: sha256.Sum256(b), Size: int64(len(b))}, err == nil, nil
}

// TestSaveAllOrNothing makes the last of several writes fail. It checks that all earlier changes, creations and
// removals are reverted.
func TestSaveAllOrNothing(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"changed": "one\n", "removed": "two\n", "last": "three\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	ws, err := workspace.Open([]tool.Root{{Path: dir, Writable: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	open := func(name string, create bool) *validate.Target {
		t.Helper()
		target, err := validate.File(t.Context(), ws, known{}, dir, name, create, false)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	changes := []*change{
		{target: open("changed", false), name: "changed", after: []byte("1\n")},
		{target: open("created", true), name: "created", after: []byte("new\n")},
		{target: open("removed", false), name: "removed", remove: true},
		{target: open("last", false), name: "last", after: []byte("3\n")},
	}
	files["last"] = "changed by somebody else\n"
	if err := os.WriteFile(filepath.Join(dir, "last"), []byte(files["last"]), 0o640); err != nil {
		t.Fatal(err)
	}
	e := &editor{Committer: commit.Committer{History: history.Open("", 0)}}
	call := sdk.NewCall(&tool.Call{Tool: "edit", SessionID: "s", Roots: []tool.Root{{Path: dir, Writable: true}}}, nil)
	err = e.save(t.Context(), call, changes...)
	if e := tool.AsError(err); err == nil || e.Kind != tool.Conflict || e.Code != validate.ModifiedSinceRead || !strings.Contains(e.Message, "were restored, so no file is changed") {
		t.Errorf("the error is %v", err)
	}
	for name, text := range files {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(b) != text {
			t.Errorf("%s is %q (%v), want %q", name, b, err, text)
		}
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("%s has the mode %v, %v", name, st.Mode(), err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(files) {
		t.Errorf("there is more than before: %v, %v", entries, err)
	}
}
