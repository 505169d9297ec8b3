package editor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"

	"toolhost.dev/plugins/edit/editor"
	"toolhost.dev/plugins/edit/validate"
)

// TestLargestFile checks the operator's limit on the size of a file that edit or write changes (E5).
func TestLargestFile(t *testing.T) {
	h := tooltest.New(t, editor.Plugin(), t.TempDir())
	if d := h.Configure(tool.Configuration{StateDir: t.TempDir(), Config: []byte(`{"max_file_mb":1}`)}); len(d) > 0 {
		t.Fatal(d)
	}
	fits := strings.Repeat("x", 1<<20-1)
	does(t, h, "write", args{"file_path": "f", "content": fits})
	refuses(t, h, "write", args{"file_path": "f", "content": "yy", "mode": "append"}, tool.InvalidArguments, validate.WrongType, "1 MiB", "max_file_mb")
	refuses(t, h, "write", args{"file_path": "g", "content": fits + "yy"}, tool.InvalidArguments, validate.WrongType, "max_file_mb")
	put(t, h.Path("large"), fits+"old\n")
	know(t, h, h.Path("large"))
	refuses(t, h, "edit", args{"file_path": "large", "old_string": "old", "new_string": ""}, tool.InvalidArguments, validate.WrongType, "max_file_mb")
}

// TestDiffIsBounded checks that an edit of a very long line has a shortened diff that is marked as shortened (U13).
func TestDiffIsBounded(t *testing.T) {
	h, _ := session(t, map[string]string{"min.js": "first\n" + strings.Repeat("var abc=1;", 500_000) + "last();\n"})
	for _, call := range []func() *tool.Result{
		func() *tool.Result {
			return does(t, h, "edit", args{"file_path": "min.js", "old_string": "last()", "new_string": "end()"})
		},
		func() *tool.Result { return does(t, h, "undo", args{}) },
	} {
		res := call()
		var data struct{ Diff string }
		if err := json.Unmarshal(res.Data, &data); err != nil || len(res.Data) > 64<<10 || !strings.Contains(data.Diff, "[line cut here: ") || !strings.Contains(data.Diff, "@@ -1,2 +1,2 @@") {
			t.Errorf("%v, %d bytes: %.300s", err, len(res.Data), data.Diff)
		}
		if len(res.Output) > 16<<10 || !strings.Contains(res.Output, "[line cut here: ") {
			t.Errorf("%d bytes: %.300s", len(res.Output), res.Output)
		}
	}
}

// TestUndoLengths checks that undo reports the sizes of the restored and the previous content (F4).
func TestUndoLengths(t *testing.T) {
	h := tooltest.New(t, editor.Plugin(), t.TempDir())
	if d := h.Configure(tool.Configuration{StateDir: t.TempDir()}); len(d) > 0 {
		t.Fatal(d)
	}
	does(t, h, "write", args{"file_path": "f", "content": "four\n"})
	does(t, h, "write", args{"file_path": "f", "content": "eleven...\n"})
	var data struct {
		Files []struct {
			Restored *int `json:"restored_length"`
			Previous *int `json:"previous_length"`
		}
	}
	for _, want := range [][2]int{{5, 10}, {0, 5}} {
		res := does(t, h, "undo", args{})
		if err := json.Unmarshal(res.Data, &data); err != nil || len(data.Files) != 1 || data.Files[0].Restored == nil || *data.Files[0].Restored != want[0] || *data.Files[0].Previous != want[1] {
			t.Errorf("%v %s, want %v", err, res.Data, want)
		}
	}
}
