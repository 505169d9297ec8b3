package tape

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a tape with a few files and calls, and returns its path.
func write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.tape")
	var b bytes.Buffer
	w, err := Create(&b, Header{Host: "1.0.0", Workspace: "/w", Began: time.Unix(1, 0).UTC()})
	must(t, err)
	when := time.Unix(1000, 5).UTC()
	must(t, w.AddFile(File{Path: ".", Directory: true, Mode: "755", ModTime: when}, nil))
	must(t, w.AddFile(File{Path: "sub", Directory: true, Mode: "555", ModTime: when}, nil))
	must(t, w.AddFile(File{Path: "sub/a", Mode: "640", ModTime: when}, []byte("content")))
	must(t, w.AddFile(File{Path: "sub/b", Mode: "755", ModTime: when}, []byte("content")))
	must(t, w.AddFile(File{Path: "link", Link: "sub/a"}, nil))
	must(t, w.AddTool(Tool{Plugin: "p", Namespace: "ns", Definition: tool.Definition{Name: "echo", Description: "Echo."}}))
	must(t, w.AddSession(Session{ID: "s", Cwd: Workspace, States: map[string]Bytes{"p": []byte("text"), "q": {0xff, 0}}}))
	must(t, w.AddCall(Call{ID: "2", Session: "s", Tool: "ns:echo", Plugin: "p", Arguments: json.RawMessage(`{"text":"b"}`), Began: time.Unix(3, 0), Result: Result{Output: "b"}}))
	must(t, w.AddCall(Call{ID: "1", Session: "s", Tool: "ns:echo", Plugin: "p", Arguments: json.RawMessage(`{"text":"a"}`), Began: time.Unix(2, 0), Result: Result{Error: tool.Errorf(tool.NotFound, "no a")}}))
	must(t, w.End())
	must(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func TestRoundTrip(t *testing.T) {
	path := write(t)
	got, err := Open(path)
	must(t, err)
	if len(got.Calls) != 2 || got.Calls[0].ID != "1" || got.Calls[1].Result.Output != "b" || got.Calls[0].Result.Error.Kind != tool.NotFound {
		t.Errorf("the calls are %+v", got.Calls)
	}
	if s := got.Sessions[0]; string(s.States["p"]) != "text" || !bytes.Equal(s.States["q"], []byte{0xff, 0}) {
		t.Errorf("the session is %+v", s)
	}
	if got.Tool("ns:echo") == nil || got.Tool("echo") != nil || got.PluginWith([]string{"echo"}) != "p" || got.PluginWith([]string{"other"}) != "" {
		t.Error("the tools are not found by their names")
	}
	if n := strings.Count(string(readAll(t, path)), `"kind":"blob"`); n != 1 {
		t.Errorf("the same content is stored %d times", n)
	}
	dir := t.TempDir()
	must(t, got.Restore(dir))
	for name, mode := range map[string]os.FileMode{"sub/a": 0o640, "sub/b": 0o755, "sub": 0o555} {
		st, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if st.Mode().Perm() != mode || !st.ModTime().Equal(time.Unix(1000, 5)) {
			t.Errorf("%s has the mode %v and the time %v", name, st.Mode(), st.ModTime())
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, "link")); err != nil || target != "sub/a" {
		t.Errorf("the link leads to %q: %v", target, err)
	}
	must(t, os.Chmod(filepath.Join(dir, "sub"), 0o700)) // so that the directory can be removed
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

// TestDamagedTapes checks that Open refuses damaged tapes: a tape that is cut after any byte, with any byte changed, or
// with removed or exchanged lines.
func TestDamagedTapes(t *testing.T) {
	path := write(t)
	whole := readAll(t, path)
	refused := func(what string, b []byte) {
		t.Helper()
		must(t, os.WriteFile(path, b, 0o600))
		_, err := Open(path)
		if damaged := (*FormatError)(nil); !errors.As(err, &damaged) {
			t.Fatalf("%s: the error is %v", what, err)
		}
	}
	for n := range whole {
		refused("cut", whole[:n])
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1
		refused("changed", b)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	for i := range lines {
		rest := append(append([][]byte{}, lines[:i]...), lines[i+1:]...)
		refused("without a line", bytes.Join(rest, nil))
		if i > 0 {
			swapped := append([][]byte{}, lines...)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			refused("with swapped lines", bytes.Join(swapped, nil))
		}
		refused("with a line twice", bytes.Join(append(append([][]byte{}, lines[:i+1]...), lines[i:]...), nil))
	}
	must(t, os.WriteFile(path, whole, 0o600))
	_, err := Open(path)
	must(t, err)
}

// TestHostileTapes checks tapes with correct checksums but harmful content.
func TestHostileTapes(t *testing.T) {
	for name, add := range map[string]func(w *Writer) error{
		"a file outside":    func(w *Writer) error { return w.AddFile(File{Path: "../x"}, []byte("x")) },
		"an absolute path":  func(w *Writer) error { return w.AddFile(File{Path: "/etc/x"}, []byte("x")) },
		"a missing content": func(w *Writer) error { return w.add(kindFile, File{Path: "x", Content: "00"}) },
		"a later format":    func(w *Writer) error { return w.add(kindHeader, Header{Format: 99}) },
	} {
		var b bytes.Buffer
		w, err := Create(&b, Header{})
		must(t, err)
		must(t, add(w))
		must(t, w.End())
		path := filepath.Join(t.TempDir(), "x.tape")
		must(t, os.WriteFile(path, b.Bytes(), 0o600))
		if _, err := Open(path); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	// A link that leads outside must be restored as a link, and nothing may be written through it.
	outside := t.TempDir()
	var b bytes.Buffer
	w, err := Create(&b, Header{})
	must(t, err)
	must(t, w.AddFile(File{Path: "out", Link: outside}, nil))
	must(t, w.AddFile(File{Path: "out/x"}, []byte("x")))
	must(t, w.End())
	path := filepath.Join(t.TempDir(), "x.tape")
	must(t, os.WriteFile(path, b.Bytes(), 0o600))
	hostile, err := Open(path)
	must(t, err)
	if err := hostile.Restore(t.TempDir()); err == nil {
		t.Error("a file is written through a link")
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("outside are %v", entries)
	}
}

func TestCompare(t *testing.T) {
	def := &tool.Definition{Varying: []string{"/took", "/rows/*/id"}, Unordered: []string{"/rows", "output"}}
	failed := func(kind tool.Kind, message string) Result { return Result{Error: tool.Errorf(kind, "%s", message)} }
	for name, c := range map[string]struct {
		want, got Result
		verdict   Verdict
		part      string
	}{
		"same":                  {Result{Output: "a"}, Result{Output: "a"}, Equal, ""},
		"keys in another order": {Result{Data: []byte(`{"a":1,"b":2}`)}, Result{Data: []byte(`{ "b": 2, "a": 1 }`)}, Equal, ""},
		"time":                  {Result{Output: "at 2026-01-02T03:04:05Z"}, Result{Output: "at 2027-11-12T13:14:15.5+01:00"}, Masked, ""},
		"date":                  {Result{Output: "Wed Nov 25 16:24:01 UTC 2026"}, Result{Output: "Thu Dec 3 06:24:01 UTC 2026"}, Masked, ""},
		"duration":              {Result{Output: "ok pkg 0.013s"}, Result{Output: "ok pkg 2m1.5s"}, Masked, ""},
		"temporary path":        {Result{Output: "/tmp/a1/x: no"}, Result{Output: "/tmp/b2/x: no"}, Masked, ""},
		"declared":              {Result{Data: []byte(`{"took":1}`)}, Result{Data: []byte(`{"took":2}`)}, Masked, ""},
		"declared and missing":  {Result{Data: []byte(`{"took":1}`)}, Result{Data: []byte(`{}`)}, Masked, ""},
		"order of rows":         {Result{Data: []byte(`{"rows":[{"id":1,"n":"a"},{"id":2,"n":"b"}]}`)}, Result{Data: []byte(`{"rows":[{"id":3,"n":"b"},{"id":4,"n":"a"}]}`)}, Masked, ""},
		"other row":             {Result{Data: []byte(`{"rows":[{"id":1,"n":"a"},{"id":2,"n":"b"}]}`)}, Result{Data: []byte(`{"rows":[{"id":3,"n":"b"},{"id":4,"n":"c"}]}`)}, Different, "data/rows/0/n, line 1"},
		"order of plain rows":   {Result{Data: []byte(`{"rows":["a","b"]}`)}, Result{Data: []byte(`{"rows":["b","a"]}`)}, Masked, ""},
		"order of lines":        {Result{Output: "a\nb"}, Result{Output: "b\na"}, Masked, ""},
		"other text":            {Result{Output: "a\nb\nc"}, Result{Output: "a\nbb\nc"}, Different, "output, line 2"},
		"fewer lines":           {Result{Output: "a\nb"}, Result{Output: "a"}, Different, "output, line 2"},
		"number":                {Result{Data: []byte(`{"n":1}`)}, Result{Data: []byte(`{"n":2}`)}, Different, "data/n"},
		"large number":          {Result{Data: []byte(`{"n":9007199254740993}`)}, Result{Data: []byte(`{"n":9007199254740992}`)}, Different, "data/n"},
		"missing row":           {Result{Data: []byte(`{"rows":["a","b"]}`)}, Result{Data: []byte(`{"rows":["a"]}`)}, Different, "data/rows"},
		"error and success":     {Result{Output: "a"}, failed(tool.NotFound, "no"), Different, "error"},
		"kind":                  {failed(tool.NotFound, "no"), failed(tool.Timeout, "no"), Different, "error.kind"},
		"message":               {failed(tool.NotFound, "no"), failed(tool.NotFound, "none"), Different, "error.message, line 1"},
		"attachment":            {Result{Attachments: []tool.Attachment{{Content: []byte("a")}}}, Result{Attachments: []tool.Attachment{{Content: []byte("b")}}}, Different, "attachments/0/content"},
		"written file":          {Result{Effects: []Effect{{tool.OpModify, "/a", "1"}}}, Result{Effects: []Effect{{tool.OpModify, "/a", "2"}}}, Different, "effects"},
		"order of files":        {Result{Effects: []Effect{{tool.OpRead, "/a", "1"}, {tool.OpRead, "/b", "1"}}}, Result{Effects: []Effect{{tool.OpRead, "/b", "1"}, {tool.OpRead, "/a", "1"}}}, Equal, ""},
		"directory":             {Result{Cwd: "/a"}, Result{Cwd: "/b"}, Different, "cwd, line 1"},
	} {
		verdict, differences := Compare(def, &c.want, &c.got)
		if verdict != c.verdict || c.part != "" && (len(differences) == 0 || differences[0].Part != c.part) {
			t.Errorf("%s: %s %v, want %s %s", name, verdict, differences, c.verdict, c.part)
		}
	}
}
