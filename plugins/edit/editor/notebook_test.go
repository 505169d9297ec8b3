package editor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

const someNotebook = `{
 "cells": [
  {
   "cell_type": "code",
   "execution_count": 1,
   "id": "a",
   "metadata": {},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "1\n"
     ]
    }
   ],
   "source": [
    "print(1)\n",
    "x"
   ]
  }
 ],
 "nbformat": 4,
 "nbformat_minor": 5
}
`

// TestNotebookEdit checks that a changed notebook keeps its mode and can be restored.
func TestNotebookEdit(t *testing.T) {
	h, dir := session(t, map[string]string{"n.ipynb": someNotebook})
	path := filepath.Join(dir, "n.ipynb")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	res := h.Call("notebook_edit", args{"notebook_path": "n.ipynb", "cell_id": "a", "new_source": "print(2)\nx"})
	if !res.Success() {
		t.Fatal(res.Error)
	}
	const diff = "--- a/n.ipynb, cell 0\n+++ b/n.ipynb, cell 0\n@@ -1,2 +1,2 @@\n-print(1)\n+print(2)\n x\n\\ No newline at end of file\n"
	if want := "Replaced cell 0 (code, id \"a\") of n.ipynb, which has 1 cell now. Its outputs were removed.\n" + diff; res.Output != want {
		t.Errorf("%q", res.Output)
	}
	d := data[struct {
		Path, Diff     string
		EditMode       string `json:"edit_mode"`
		CellNumber     *int   `json:"cell_number"`
		CellID         string `json:"cell_id"`
		CellType       string `json:"cell_type"`
		OutputsCleared bool   `json:"outputs_cleared"`
		Cells          int
	}](t, res)
	if d.Path != path || d.Diff != diff || d.EditMode != "replace" || d.CellNumber == nil || d.CellID != "a" || d.CellType != "code" || !d.OutputsCleared || d.Cells != 1 {
		t.Errorf("%s", res.Data)
	}
	if len(res.Effects) != 1 || res.Effects[0].Operation != tool.OpModify {
		t.Errorf("%+v", res.Effects)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v %v", st, err)
	}
	want := strings.NewReplacer(`"execution_count": 1`, `"execution_count": null`, someNotebook[strings.Index(someNotebook, "[\n    {"):strings.Index(someNotebook, ",\n   \"source\"")], "[]", "print(1)", "print(2)").Replace(someNotebook)
	if got := get(t, path); got != want {
		t.Errorf("%s", got)
	}
	// After a change, the session counts the changed notebook as read.
	if res := h.Call("notebook_edit", args{"notebook_path": "n.ipynb", "edit_mode": "delete", "cell_number": 0}); !res.Success() || !strings.Contains(get(t, path), `"cells": [],`) {
		t.Errorf("%v: %s", res.Error, get(t, path))
	}
	if res := h.Call("undo", args{"steps": 2}); !res.Success() || get(t, path) != someNotebook {
		t.Errorf("%v: %s", res.Error, get(t, path))
	}
}

func TestNotebookEditRefused(t *testing.T) {
	same := strings.Replace(strings.Replace(someNotebook, `: 1,`, `: null,`, 1), someNotebook[strings.Index(someNotebook, "[\n    {"):strings.Index(someNotebook, ",\n   \"source\"")], "[]", 1)
	h, dir := session(t, map[string]string{"n.ipynb": someNotebook, "same.ipynb": same, "f.txt": "text", "bad.ipynb": "text", "changed.ipynb": someNotebook})
	put(t, filepath.Join(dir, "unread.ipynb"), someNotebook)
	put(t, filepath.Join(dir, "changed.ipynb"), someNotebook+"\n")
	for _, c := range []struct {
		args args
		code int
		kind tool.Kind
		want string
	}{
		{args{"notebook_path": "n.ipynb"}, 0, tool.InvalidArguments, "new_source is missing; neither cell_id nor cell_number is given"},
		{args{"notebook_path": "n.ipynb", "new_source": "x", "cell_id": "a", "cell_number": 0, "edit_mode": "insert"}, 0, tool.InvalidArguments, "both given"},
		{args{"notebook_path": "same.ipynb", "new_source": "print(1)\nx", "cell_id": "a"}, 1, tool.InvalidArguments, "nothing to change"},
		{args{"notebook_path": "none.ipynb", "new_source": "x", "edit_mode": "insert"}, 4, tool.NotFound, "does not exist"},
		{args{"notebook_path": "f.txt", "new_source": "x", "edit_mode": "insert"}, 5, tool.InvalidArguments, "Change it with edit"},
		{args{"notebook_path": "bad.ipynb", "new_source": "x", "edit_mode": "insert"}, 5, tool.InvalidArguments, "not valid JSON"},
		{args{"notebook_path": "unread.ipynb", "new_source": "x", "edit_mode": "insert"}, 6, tool.Conflict, "not been read"},
		{args{"notebook_path": "changed.ipynb", "new_source": "x", "edit_mode": "insert"}, 7, tool.Conflict, "modified since read"},
		{args{"notebook_path": "n.ipynb", "new_source": "x", "cell_id": "b"}, 8, tool.NotFound, `no cell with the id "b"`},
	} {
		before := map[string]string{}
		for _, name := range []string{"n.ipynb", "same.ipynb", "f.txt", "bad.ipynb", "unread.ipynb", "changed.ipynb"} {
			before[name] = get(t, filepath.Join(dir, name))
		}
		res := h.Call("notebook_edit", c.args)
		if res.Success() || res.Error.Code != c.code || res.Error.Kind != c.kind || !strings.Contains(res.Error.Message, c.want) {
			t.Errorf("%v: %+v", c.args, res.Error)
		}
		for name, content := range before {
			if get(t, filepath.Join(dir, name)) != content {
				t.Errorf("%v: %s changed", c.args, name)
			}
		}
	}
	// The other tools must recommend notebook_edit.
	for name, in := range map[string]args{"edit": {"file_path": "n.ipynb", "old_string": "print", "new_string": "p"}, "write": {"file_path": "n.ipynb", "content": "{}"}} {
		if res := h.Call(name, in); res.Success() || !strings.Contains(res.Error.Message, "Change its cells with notebook_edit.") {
			t.Errorf("%s: %+v", name, res.Error)
		}
	}
}
