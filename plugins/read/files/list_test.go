package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

func names(d listData, top string) []string {
	var out []string
	for _, f := range d.Files {
		rel, _ := filepath.Rel(top, f.Path)
		out = append(out, rel)
	}
	return out
}

func TestList(t *testing.T) {
	h := newHost(t, "b.go=package b", "a.txt=", "src/x.go=x", "src/deep/y.go=", "src/deep/z.md=", ".env=A=1", ".git/config=", ".git/objects/ab=", "link -> src", "zdir/")
	for _, c := range []struct {
		args args
		want []string
	}{
		{args{}, []string{".git", "src", "zdir", ".env", "a.txt", "b.go", "link"}},
		{args{"hidden": false}, []string{"src", "zdir", "a.txt", "b.go", "link"}},
		{args{"path": "src"}, []string{"src/deep", "src/x.go"}},
		{args{"path": "link"}, []string{"src/deep", "src/x.go"}},
		{args{"path": h.Path("src")}, []string{"src/deep", "src/x.go"}},
		{args{"path": ".git"}, []string{".git/objects", ".git/config"}},
		{args{"path": ".git", "recursive": true}, []string{".git/objects", ".git/objects/ab", ".git/config"}},
		{args{"recursive": true}, []string{".git", "src", "src/deep", "src/deep/y.go", "src/deep/z.md", "src/x.go", "zdir", ".env", "a.txt", "b.go", "link"}},
		{args{"pattern": "*.go"}, []string{"b.go"}},
		{args{"pattern": "*.go", "recursive": true}, []string{"src/deep/y.go", "src/x.go", "b.go"}},
		{args{"pattern": "**/*.{go,md}"}, []string{"src/deep/y.go", "src/deep/z.md", "src/x.go", "b.go"}},
		{args{"pattern": "src/*.go"}, []string{"src/x.go"}},
		{args{"pattern": "s*"}, []string{"src"}},
		{args{"path": "zdir"}, nil},
	} {
		_, data, _ := tooltest.Do[listData](h, "list", c.args)
		if got := names(data, h.Cwd); !slices.Equal(got, c.want) || data.Total != len(c.want) || data.Truncated || data.Files == nil {
			t.Errorf("%v: got %v, total %d; want %v", c.args, got, data.Total, c.want)
		}
	}
}

func TestListEntries(t *testing.T) {
	h := newHost(t, "file=12345", "dir/", "link -> file", "gone -> nowhere", "out -> /etc/passwd", "odd\nname=")
	must(t, syscall.Mkfifo(h.Path("fifo"), 0o666))
	when := time.Date(2024, 5, 6, 7, 8, 9, 0, time.FixedZone("", 3600))
	must(t, os.Chtimes(h.Path("file"), when, when))
	output, data, _ := tooltest.Do[listData](h, "list", args{})
	got := make(map[string]listFile)
	for _, f := range data.Files {
		got[f.Name] = f
		if _, err := time.Parse(time.RFC3339, f.Modified); err != nil {
			t.Error(err)
		}
	}
	if want := (listFile{"file", h.Path("file"), "file", 5, "2024-05-06T06:08:09Z"}); got["file"] != want {
		t.Errorf("got %+v, want %+v", got["file"], want)
	}
	for name, typ := range map[string]string{"dir": "directory", "link": "symlink", "gone": "symlink", "out": "symlink", "fifo": "fifo", "odd\nname": "file"} {
		if got[name].Type != typ || got[name].Path != h.Path(name) {
			t.Errorf("%q: %+v", name, got[name])
		}
	}
	for _, line := range []string{"dir/", "file  5 bytes  2024-05-06 06:08", "link -> file", "out -> /etc/passwd", "fifo  (fifo)"} {
		if !slices.Contains(strings.Split(output, "\n"), line) {
			t.Errorf("the output lacks the line %q:\n%s", line, output)
		}
	}
	if !strings.Contains(output, "\n\"odd\\nname\"  0 bytes") {
		t.Errorf("a line feed in a name is not quoted:\n%s", output)
	}
}

func TestListNotes(t *testing.T) {
	h := newHost(t, "d/", "many/x=", ".hidden=", ".git/config=")
	for i := range 30 {
		h.Files(fmt.Sprintf("many/%02d", i) + "=" + "")
	}
	output, data, _ := tooltest.Do[listData](h, "list", args{"path": "many", "limit": 3})
	if data.Total != 31 || len(data.Files) != 3 || !data.Truncated || !strings.HasSuffix(output, "\n\n[note: 3 of 31 entries; narrow it down with pattern or a subdirectory]") {
		t.Errorf("%q %+v", output, data)
	}
	for _, c := range []struct {
		args args
		want string
	}{
		{args{"path": "d"}, "[note: the directory is empty]"},
		{args{"pattern": "*.zig"}, "[note: nothing matches *.zig]"},
		{args{"hidden": false, "pattern": "d"}, "d/\n\n[note: 2 hidden entries left out; hidden=true lists them]"},
		{args{"recursive": true, "pattern": "d"}, "d/\n\n[note: not gone into: .git (version control)]"},
	} {
		if output, _, _ := tooltest.Do[listData](h, "list", c.args); output != c.want {
			t.Errorf("%v: %q, want %q", c.args, output, c.want)
		}
	}
	// More than a context can bear is cut in the text, not in the data.
	for i := range 1500 {
		h.Files(fmt.Sprintf("wide/%04d%s", i, strings.Repeat("x", 100)) + "=" + "")
	}
	output, data, _ = tooltest.Do[listData](h, "list", args{"path": "wide", "limit": 2000})
	if len(output) > 53<<10 || len(data.Files) != 1500 || !strings.Contains(output, " of 1500 entries") {
		t.Errorf("%d bytes, %d files, …%q", len(output), len(data.Files), output[len(output)-100:])
	}
}

func TestListRefusals(t *testing.T) {
	h := newHost(t, "file=", "src/", "out -> /etc")
	h.Refuses("list", args{"path": "file"}, tool.InvalidArguments, "not a directory")
	h.Refuses("list", args{"path": "scr"}, tool.NotFound, "File does not exist: scr", "src")
	h.Refuses("list", args{"path": "out"}, tool.Security)
	h.Refuses("list", args{"path": ".."}, tool.Security)
	h.Refuses("list", args{"pattern": "[a"}, tool.InvalidArguments, "[a")
	h.Refuses("list", args{"limit": 0}, tool.InvalidArguments)
}

// A tree that is nested without end, or has a loop of links, ends.
func TestListDeepTree(t *testing.T) {
	h := newHost(t)
	must(t, os.MkdirAll(h.Path(strings.Repeat("d/", 100)), 0o777))
	must(t, os.Symlink("..", h.Path("d/up")))
	output, data, _ := tooltest.Do[listData](h, "list", args{"recursive": true})
	if data.Total != 65 || !strings.Contains(output, "nested too deep") {
		t.Errorf("%d entries, %q", data.Total, output[len(output)-100:])
	}
}

func TestListCanceled(t *testing.T) {
	h := newHost(t, "a=")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res := h.CallContext(ctx, "list", args{})
	if res.Error == nil || res.Error.Kind != tool.Canceled {
		t.Errorf("got %+v", res.Error)
	}
}
