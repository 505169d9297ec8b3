package editor_test

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"

	"toolhost.dev/plugins/edit/editor"
)

// session creates a workspace with files and a session that has already read them.
func session(t *testing.T, files map[string]string) (*tooltest.Host, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := tooltest.New(t, editor.Plugin(), dir)
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, path, content)
		know(t, h, filepath.Join(dir, name))
	}
	return h, dir
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func know(t *testing.T, h *tooltest.Host, path string) {
	t.Helper()
	b := []byte(get(t, path))
	h.Know(tool.FileState{Path: path, Hash: sha256.Sum256(b), Size: int64(len(b))})
}

func get(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func data[T any](t *testing.T, res *tool.Result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(res.Data, &v); err != nil {
		t.Fatalf("data %q: %v", res.Data, err)
	}
	return v
}

type args = map[string]any

func TestEditKeepsEverythingElse(t *testing.T) {
	for _, c := range []struct {
		name, before, old, new, after string
		all                           bool
	}{
		{"one line", "a\nb\nc\n", "b", "B", "a\nB\nc\n", false},
		{"several lines", "a\nb\nc\n", "a\nb\n", "x\n", "x\nc\n", false},
		{"no final newline stays so", "a\nb", "b", "c", "a\nc", false},
		{"carriage returns stay", "a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n", false},
		{"mixed endings outside stay", "a\r\nb\nc\r\nd\r\n", "c", "C\nC", "a\r\nb\nC\r\nC\r\nd\r\n", false},
		{"the end of a line is not eaten", "a\r\nb\r\n", "a", "x", "x\r\nb\r\n", false},
		{"a line ending can be removed", "a\r\nb\r\n", "a\n", "a", "ab\r\n", false},
		{"all", "x y x y x", "x", "z", "z y z y z", true},
		{"overlaps are replaced once", "aaaa", "aa", "b", "bb", true},
		{"literal replacement", "price", "price", `$1 \1 $& %s`, `$1 \1 $& %s`, false},
		{"byte order mark", "\ufeffa\n", "a", "b", "\ufeffb\n", false},
		{"deletion", "a\nb\nc\n", "b\n", "", "a\nc\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, dir := session(t, map[string]string{"f.txt": c.before})
			res := h.Call("edit", args{"file_path": "f.txt", "old_string": c.old, "new_string": c.new, "replace_all": c.all})
			if !res.Success() {
				t.Fatal(res.Error)
			}
			if got := get(t, filepath.Join(dir, "f.txt")); got != c.after {
				t.Errorf("the file is %q, want %q", got, c.after)
			}
		})
	}
}

func TestEditTellsWhatItDid(t *testing.T) {
	h, dir := session(t, map[string]string{"f.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"})
	res := h.Call("edit", args{"file_path": "f.txt", "old_string": "5\n", "new_string": "five\nand a half\n"})
	d := data[struct {
		Path, Strategy, Diff, Snippet string
		StartLine                     int `json:"start_line"`
		EndLine                       int `json:"end_line"`
		Replacements                  int
		Similarity                    float64
	}](t, res)
	if d.Path != filepath.Join(dir, "f.txt") || d.Strategy != "exact" || d.StartLine != 5 || d.EndLine != 6 || d.Replacements != 1 || d.Similarity != 1 {
		t.Errorf("%+v", d)
	}
	if want := "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and a half\n 6\n 7\n 8\n"; !strings.HasSuffix(d.Diff, want) {
		t.Errorf("the diff is\n%s", d.Diff)
	}
	if want := "2| 2\n3| 3\n4| 4\n5| five\n6| and a half\n7| 6\n8| 7\n9| 8"; d.Snippet != want {
		t.Errorf("the snippet is\n%s", d.Snippet)
	}
	if len(res.Effects) != 1 || res.Effects[0].Operation != tool.OpModify || *res.Effects[0].HashBefore != sha256.Sum256([]byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n")) {
		t.Errorf("%+v", res.Effects)
	}
	// After a write, the session counts the written content as read.
	if res := h.Call("edit", args{"file_path": "f.txt", "old_string": "five", "new_string": "5"}); !res.Success() {
		t.Error(res.Error)
	}
}

// TestLinesTold checks the reported lines and the snippet, for all line endings and for a change of the last line.
func TestLinesTold(t *testing.T) {
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		for _, final := range []string{end, ""} {
			for _, c := range []struct {
				edits   []map[string]string
				lines   [2]int
				snippet string
			}{
				{[]map[string]string{{"old_string": "c", "new_string": "C"}}, [2]int{3, 3}, "1| a\n2| b\n3| C\n4| d\n5| e"},
				{[]map[string]string{{"old_string": "e", "new_string": "E"}}, [2]int{5, 5}, "2| b\n3| c\n4| d\n5| E"},
				{[]map[string]string{{"old_string": "e", "new_string": "E\nF"}}, [2]int{5, 6}, "2| b\n3| c\n4| d\n5| E\n6| F"},
				{[]map[string]string{{"old_string": "\nd\ne", "new_string": ""}}, [2]int{3, 3}, "1| a\n2| b\n3| c"},
				{[]map[string]string{{"old_string": "e\n", "new_string": ""}}, [2]int{4, 4}, "1| a\n2| b\n3| c\n4| d"},
				{[]map[string]string{{"old_string": "b", "new_string": "B\nB"}, {"old_string": "d", "new_string": "D"}}, [2]int{2, 5}, "1| a\n2| B\n3| B\n4| c\n5| D\n6| e"},
				{[]map[string]string{{"old_string": "e", "new_string": "E"}, {"old_string": "\nd\nE", "new_string": ""}}, [2]int{3, 3}, "1| a\n2| b\n3| c"},
			} {
				h, _ := session(t, map[string]string{"f.txt": strings.Join([]string{"a", "b", "c", "d", "e"}, end) + final})
				d := data[struct {
					Snippet string
					Start   int `json:"start_line"`
					End     int `json:"end_line"`
				}](t, h.Call("edit", args{"file_path": "f.txt", "edits": c.edits}))
				if [2]int{d.Start, d.End} != c.lines || d.Snippet != c.snippet {
					t.Errorf("%s, %q at the end, %v: lines %d–%d, want %v\n%s\nwant\n%s", name, final, c.edits, d.Start, d.End, c.lines, d.Snippet, c.snippet)
				}
			}
		}
	}
}

// TestLayers checks that each layer of the validation refuses an edit. It also checks the order of the layers.
func TestLayers(t *testing.T) {
	h, dir := session(t, map[string]string{"f.txt": "a\nb\na\n", "changed.txt": "old\n", "note.ipynb": "{}\n"})
	put(t, filepath.Join(dir, "unread.txt"), "x\n")
	put(t, filepath.Join(dir, "changed.txt"), "new\n")
	put(t, filepath.Join(dir, "binary"), "\x00\x01\x02")
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool    string
		in      args
		code    int
		kind    tool.Kind
		message string
	}{
		{"edit", args{"file_path": "f.txt", "old_string": "a", "new_string": "a"}, 1, tool.InvalidArguments, "nothing to change"},
		{"edit", args{"file_path": "/etc/passwd", "old_string": "a", "new_string": "b"}, 2, tool.Security, "/etc/passwd"},
		{"write", args{"file_path": "../x", "content": "b"}, 2, tool.Security, "../x"},
		{"edit", args{"file_path": "f.txt", "old_string": "", "new_string": "b"}, 3, tool.Conflict, "File exists already"},
		{"edit", args{"file_path": "f.tx", "old_string": "a", "new_string": "b"}, 4, tool.NotFound, `File does not exist: f.tx. Did you mean "f.txt"?`},
		{"edit", args{"file_path": "binary", "old_string": "a", "new_string": "b"}, 5, tool.InvalidArguments, "binary"},
		{"edit", args{"file_path": "dir", "old_string": "a", "new_string": "b"}, 5, tool.InvalidArguments, "dir"},
		{"edit", args{"file_path": "note.ipynb", "old_string": "{", "new_string": "["}, 5, tool.InvalidArguments, "notebook"},
		{"edit", args{"file_path": "unread.txt", "old_string": "x", "new_string": "y"}, 6, tool.Conflict, "File has not been read yet. Read it first before writing to it."},
		{"write", args{"file_path": "unread.txt", "content": "y"}, 6, tool.Conflict, "File has not been read yet. Read it first before writing to it."},
		{"edit", args{"file_path": "changed.txt", "old_string": "new", "new_string": "y"}, 7, tool.Conflict, "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."},
		{"write", args{"file_path": "changed.txt", "content": "y", "mode": "append"}, 7, tool.Conflict, "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."},
		{"edit", args{"file_path": "f.txt", "old_string": "nowhere", "new_string": "y"}, 8, tool.NotFound, "was not found in f.txt"},
		{"edit", args{"file_path": "f.txt", "old_string": "a", "new_string": "y"}, 9, tool.InvalidArguments, "occurs 2 times in f.txt, on lines 1, 3"},
	} {
		res := h.Call(c.tool, c.in)
		if res.Success() || res.Error.Code != c.code || res.Error.Kind != c.kind || !strings.Contains(res.Error.Message, c.message) {
			t.Errorf("%s %v: got %+v, want layer %d, %s, %q", c.tool, c.in, res.Error, c.code, c.kind, c.message)
		}
	}
	for name, want := range map[string]string{"f.txt": "a\nb\na\n", "changed.txt": "new\n", "unread.txt": "x\n"} {
		if got := get(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s was changed to %q", name, got)
		}
	}
}

func TestNewerTimeOfSameBytesIsNoConflict(t *testing.T) {
	h, dir := session(t, map[string]string{"f.txt": "a\n"})
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "f.txt"), later, later); err != nil {
		t.Fatal(err)
	}
	if res := h.Call("edit", args{"file_path": "f.txt", "old_string": "a", "new_string": "b"}); !res.Success() {
		t.Error(res.Error)
	}
}

func TestReadOnlyRoot(t *testing.T) {
	h, dir := session(t, map[string]string{"f.txt": "a\n"})
	h.Roots[0].Writable = false
	res := h.Call("edit", args{"file_path": "f.txt", "old_string": "a", "new_string": "b"})
	if res.Success() || res.Error.Code != 2 || res.Error.Kind != tool.PermissionDenied {
		t.Errorf("%+v", res.Error)
	}
	if got := get(t, filepath.Join(dir, "f.txt")); got != "a\n" {
		t.Errorf("the file is %q", got)
	}
}

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  string // content before the call; empty if the file does not exist
		in      args
		after   string
		created bool
		written int
		lines   int
	}{
		{"creates", "", args{"content": "a\nb\n"}, "a\nb\n", true, 4, 2},
		{"ends the last line", "", args{"content": "a"}, "a\n", true, 2, 1},
		{"or not", "", args{"content": "a", "final_newline": false}, "a", true, 1, 1},
		{"an empty file stays empty", "", args{"content": ""}, "", true, 0, 0},
		{"overwrites", "x\ny\nz\n", args{"content": "a\n"}, "a\n", false, 2, 1},
		{"keeps the file's line ending", "x\r\ny\r\n", args{"content": "a\nb\n"}, "a\r\nb\r\n", false, 6, 2},
		{"line feeds in a file with line feeds", "x\ny\n", args{"content": "a\r\nb\r\n"}, "a\nb\n", false, 4, 2},
		{"crlf on demand", "", args{"content": "a\nb\n", "line_endings": "crlf"}, "a\r\nb\r\n", true, 6, 2},
		{"keep takes it as it is", "x\n", args{"content": "a\r\nb\n", "line_endings": "keep"}, "a\r\nb\n", false, 5, 2},
		{"appends", "x\n", args{"content": "y", "mode": "append"}, "x\ny\n", false, 2, 2},
		{"appends a line of its own", "x", args{"content": "y", "mode": "append"}, "x\ny\n", false, 3, 2},
		{"appends to nothing", "", args{"content": "y", "mode": "append"}, "y\n", true, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			if c.before != "" {
				files["f.txt"] = c.before
			}
			h, dir := session(t, files)
			c.in["file_path"] = "f.txt"
			res := h.Call("write", c.in)
			if !res.Success() {
				t.Fatal(res.Error)
			}
			if got := get(t, filepath.Join(dir, "f.txt")); got != c.after {
				t.Errorf("the file is %q, want %q", got, c.after)
			}
			d := data[struct {
				Created      bool
				Overwritten  bool
				BytesWritten int `json:"bytes_written"`
				LineCount    int `json:"line_count"`
				Diff         string
			}](t, res)
			if d.Created != c.created || d.BytesWritten != c.written || d.LineCount != c.lines || d.Overwritten != (!c.created && c.in["mode"] != "append") {
				t.Errorf("%+v", d)
			}
			if c.after != "" && d.Diff == "" {
				t.Error("there is no diff")
			}
		})
	}
}

func TestWriteMakesDirectoriesAndKeepsTheMode(t *testing.T) {
	h, dir := session(t, map[string]string{"run.sh": "#!/bin/sh\n"})
	if res := h.Call("write", args{"file_path": "a/b/c.txt", "content": "deep"}); !res.Success() {
		t.Fatal(res.Error)
	}
	if got := get(t, filepath.Join(dir, "a/b/c.txt")); got != "deep\n" {
		t.Errorf("the file is %q", got)
	}
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o750); err != nil {
		t.Fatal(err)
	}
	if res := h.Call("write", args{"file_path": "run.sh", "content": "#!/bin/bash\n"}); !res.Success() {
		t.Fatal(res.Error)
	}
	st, err := os.Stat(filepath.Join(dir, "run.sh"))
	if err != nil || st.Mode().Perm() != 0o750 {
		t.Errorf("the mode is %v, %v", st.Mode(), err)
	}
	res := h.Call("write", args{"file_path": "run.sh", "content": "#!/bin/bash\n"})
	if !res.Success() || !strings.Contains(res.Output, "already has exactly this content") {
		t.Errorf("%+v", res)
	}
}
