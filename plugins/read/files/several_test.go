package files

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

func write(t *testing.T, h *tooltest.Host, name, content string) {
	t.Helper()
	must(t, os.WriteFile(h.Path(name), []byte(content), 0o600))
}

func unpack(t *testing.T, res *tool.Result, data any) {
	t.Helper()
	if len(res.Data) > 0 {
		must(t, json.Unmarshal(res.Data, data))
	}
}

// TestSeveralFiles checks a call that reads several files, of which some are missing or too long (F1).
func TestSeveralFiles(t *testing.T) {
	h := newHost(t)
	write(t, h, "a.txt", "one\n")
	write(t, h, "b.txt", "two")
	res := h.Call("read", args{"file_path": "a.txt", "more_files": []string{"missing", "b.txt"}})
	var data severalData
	unpack(t, res, &data)
	if res.Error != nil || res.Output != "--- a.txt ---\none\n\n--- missing ---\n[error: File does not exist: missing\nList . to see what is there.]\n\n--- b.txt ---\ntwo\n" {
		t.Errorf("%v %q", res.Error, res.Output)
	}
	if len(res.Effects) != 2 || len(data.Files) != 2 || data.TotalLines != 1 || data.Files[1].Path != h.Path("b.txt") {
		t.Errorf("%d effects, %+v", len(res.Effects), data)
	}
	if res := h.Call("read", args{"file_path": "no", "more_files": []string{"missing"}}); res.Error == nil || res.Error.Kind != tool.NotFound {
		t.Errorf("no file exists: %v", res.Error)
	}
	write(t, h, "long.txt", strings.Repeat(strings.Repeat("x", 99)+"\n", 2000))
	res = h.Call("read", args{"file_path": "long.txt", "more_files": []string{"long.txt", "long.txt", "long.txt", "long.txt", "long.txt"}})
	if res.Error != nil || len(res.Output) > 2*maxSeveral || strings.Count(res.Output, "not read, because") != 2 {
		t.Errorf("%v, %d bytes", res.Error, len(res.Output))
	}
}

// TestTail checks calls that read the end of a file (U12, F1).
func TestTail(t *testing.T) {
	h := newHost(t)
	write(t, h, "a.txt", "1\n2\n3\n4")
	large := strings.Repeat("a line of the log\n", maxInMemory/18+1) + "last but one\nlast\n"
	write(t, h, "large.log", large)
	for _, c := range []struct {
		a    args
		want string
		line int
	}{
		{args{"file_path": "a.txt", "offset": -2}, "3\n4", 3}, {args{"file_path": "a.txt", "tail": 1}, "4", 4}, {args{"file_path": "a.txt", "tail": 9}, "1\n2\n3\n4", 1},
		{args{"file_path": "a.txt", "offset": -3, "limit": 1}, "2", 2}, {args{"file_path": "large.log", "tail": 2}, "last but one\nlast\n", strings.Count(large, "\n") - 1},
	} {
		res := h.Call("read", c.a)
		var data readData
		unpack(t, res, &data)
		if text, _, _ := strings.Cut(res.Output, "\n\n[note"); res.Error != nil || strings.TrimSuffix(text, "\n") != strings.TrimSuffix(c.want, "\n") || data.StartLine != c.line {
			t.Errorf("%v: %v %q from %d", c.a, res.Error, res.Output, data.StartLine)
		}
	}
}

// TestLowerBound checks that the result marks the number of lines as a lower bound if not all lines were counted (U13).
func TestLowerBound(t *testing.T) {
	h := newHost(t)
	write(t, h, "huge.log", strings.Repeat("line\n", 4000))
	must(t, os.Truncate(h.Path("huge.log"), 1<<30))
	res := h.Call("read", args{"file_path": "huge.log", "limit": 2})
	var data readData
	unpack(t, res, &data)
	if res.Error != nil || !data.AtLeast || !strings.Contains(res.Output, "more than 4001") {
		t.Errorf("%v %+v\n%s", res.Error, data, res.Output)
	}
	write(t, h, "small.log", "line\n")
	res = h.Call("read", args{"file_path": "small.log"})
	if unpack(t, res, &data); strings.Contains(string(res.Data), "at_least") {
		t.Errorf("%s", res.Data)
	}
}

// TestPages checks that a range of pages is refused. The message must recommend pdftotext (U12).
func TestPages(t *testing.T) {
	h := newHost(t)
	write(t, h, "a.pdf", "%PDF-1.4")
	h.Refuses("read", args{"file_path": "a.pdf", "pages": "1-5"}, tool.InvalidArguments, "pdftotext -f")
}

// TestLargestFile checks the operator's limit on the size of files that the tool reads (E5).
func TestLargestFile(t *testing.T) {
	h := newHost(t)
	if diags := h.Configure(tool.Configuration{Config: []byte(`{"max_file_mb":1}`)}); len(diags) > 0 {
		t.Fatal(diags)
	}
	write(t, h, "fits", strings.Repeat("x", 1<<20))
	write(t, h, "large", strings.Repeat("x", 1<<20+1))
	if res := h.Call("read", args{"file_path": "fits"}); res.Error != nil {
		t.Error(res.Error)
	}
	h.Refuses("read", args{"file_path": "large"}, tool.InvalidArguments, "1 MiB", "max_file_mb")
	h.Refuses("read", args{"file_path": "large", "encoding": "base64"}, tool.InvalidArguments, "max_file_mb")
}
