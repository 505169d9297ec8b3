package finder

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// list calls the tool list and expects success.
func (h *host) list(a args) (output string, d listData, names []string) {
	h.t.Helper()
	res := h.call("list", a)
	if res.Error != nil {
		h.t.Fatalf("list %v: %v", a, res.Error)
	}
	must(h.t, json.Unmarshal(res.Data, &d))
	for _, f := range d.Files {
		rel, err := filepath.Rel(h.cwd, f.Path)
		must(h.t, err)
		names = append(names, rel)
	}
	return res.Output, d, names
}

func TestList(t *testing.T) {
	h := newHost(t, ".gitignore=*.log\nbuilt/\n", "b.go=package b", "a.txt=", "src/x.go=x", "src/deep/y.go=", "src/deep/z.md=", ".env=A=1", ".git/config=", ".git/objects/ab=", "link -> src",
		"zdir/", ".x.=", "x.log=", "src/y.log=", "built/c.go=", "src/.h/i.go=")
	hosts := h.inWays()
	for _, c := range []struct {
		args args
		want []string
	}{
		// The listing of a single directory contains all of its entries.
		{args{}, []string{".git", "built", "src", "zdir", ".env", ".gitignore", ".x.", "a.txt", "b.go", "link", "x.log"}},
		{args{"hidden": false}, []string{"built", "src", "zdir", ".x.", "a.txt", "b.go", "link", "x.log"}},
		{args{"path": "src"}, []string{"src/.h", "src/deep", "src/x.go", "src/y.log"}},
		{args{"path": h.path("src/deep")}, []string{"src/deep/y.go", "src/deep/z.md"}},
		{args{"path": ".git"}, []string{".git/objects", ".git/config"}},
		{args{"pattern": "*.go"}, []string{"b.go"}},
		{args{"pattern": "s*"}, []string{"src"}},
		{args{"path": "zdir"}, nil},
		{args{"path": "built"}, []string{"built/c.go"}},
		// The listing of a tree contains the entries that glob finds in the tree.
		{args{"path": ".git", "recursive": true}, []string{".git/objects", ".git/objects/ab", ".git/config"}},
		{args{"recursive": true}, []string{".git", "src", "src/.h", "src/.h/i.go", "src/deep", "src/deep/y.go", "src/deep/z.md", "src/x.go", "zdir", ".env", ".gitignore", ".x.", "a.txt", "b.go", "link"}},
		{args{"recursive": true, "hidden": false}, []string{"src", "src/deep", "src/deep/y.go", "src/deep/z.md", "src/x.go", "zdir", ".x.", "a.txt", "b.go", "link"}},
		{args{"recursive": true, "no_ignore": true, "pattern": "*.{log,go}"}, []string{"built/c.go", "src/.h/i.go", "src/deep/y.go", "src/x.go", "src/y.log", "b.go", "x.log"}},
		{args{"pattern": "*.go", "recursive": true, "hidden": false}, []string{"src/deep/y.go", "src/x.go", "b.go"}},
		{args{"pattern": "**/*.{go,md}", "hidden": false}, []string{"src/deep/y.go", "src/deep/z.md", "src/x.go", "b.go"}},
		{args{"pattern": "src/*.go"}, []string{"src/x.go"}},
		{args{"pattern": "src/*", "hidden": false}, []string{"src/deep", "src/x.go"}},
		{args{"path": "src", "pattern": "deep/*"}, []string{"src/deep/y.go", "src/deep/z.md"}},
	} {
		for way, h := range hosts {
			_, data, got := h.list(c.args)
			if !slices.Equal(got, c.want) || data.Total != len(c.want) || data.Truncated || data.Files == nil {
				t.Errorf("%s: %v: got %v, total %d; want %v", way, c.args, got, data.Total, c.want)
			}
		}
	}
	_, data, got := h.list(args{"path": "link"})
	if len(got) != 4 || filepath.Base(data.Files[0].Path) != ".h" {
		t.Errorf("a link to a directory: %v", data)
	}
}

func TestListEntries(t *testing.T) {
	h := newHost(t, "file=12345", "dir/in=", "link -> file", "gone -> nowhere", "out -> /etc/passwd", "odd\nname=")
	must(t, syscall.Mkfifo(h.path("fifo"), 0o666))
	when := time.Date(2024, 5, 6, 7, 8, 9, 0, time.FixedZone("", 3600))
	must(t, os.Chtimes(h.path("file"), when, when))
	must(t, os.Chtimes(h.path("dir"), when.Add(time.Hour), when.Add(time.Hour)))
	for way, h := range h.inWays() {
		for _, a := range []args{{}, {"recursive": true}, {"recursive": true, "sort": "modified"}} {
			output, data, names := h.list(a)
			got := make(map[string]listFile)
			for _, f := range data.Files {
				got[f.Name] = f
				info, err := os.Lstat(f.Path)
				must(t, err)
				if f.Size != info.Size() || f.Modified != info.ModTime().UTC().Format(time.RFC3339) {
					t.Errorf("%s %v: %+v, want %d bytes of %s", way, a, f, info.Size(), info.ModTime())
				}
			}
			if want := (listFile{"file", h.path("file"), "file", 5, "2024-05-06T06:08:09Z"}); got["file"] != want {
				t.Errorf("%s %v: got %+v, want %+v", way, a, got["file"], want)
			}
			for name, typ := range map[string]string{"dir": "directory", "link": "symlink", "gone": "symlink", "out": "symlink", "fifo": "fifo", "odd\nname": "file"} {
				if got[name].Type != typ || got[name].Path != h.path(name) {
					t.Errorf("%s %v: %q: %+v", way, a, name, got[name])
				}
			}
			for _, line := range []string{"dir/", "file  5 bytes  2024-05-06 06:08", "link -> file", "out -> /etc/passwd", "fifo  (fifo)", `"odd\nname"  0 bytes  ` + got["odd\nname"].Modified[:10] + " " + got["odd\nname"].Modified[11:16]} {
				if !slices.Contains(strings.Split(output, "\n"), line) {
					t.Errorf("%s %v: the output lacks the line %q:\n%s", way, a, line, output)
				}
			}
			if n := len(names); a["sort"] != nil && (names[n-1] != "file" || names[n-2] != "dir") {
				t.Errorf("%s: not the newest first: %v", way, names)
			}
		}
	}
}

func TestListNotes(t *testing.T) {
	h := newHost(t, "d/", "many/x=", ".hidden=", ".git/config=", ".gitignore=*.log\n", "x.log=")
	for i := range 30 {
		h.add(fmt.Sprintf("many/%02d=", i))
	}
	for way, h := range h.inWays("disk", "events") {
		output, data, _ := h.list(args{"path": "many", "limit": 3})
		if data.Total != 31 || len(data.Files) != 3 || !data.Truncated || !strings.HasSuffix(output, "\n\n[note: 3 of 31 entries are shown; narrow the listing with pattern or a subdirectory]") {
			t.Errorf("%q %+v", output, data)
		}
		for _, c := range []struct {
			args args
			want string
		}{
			{args{"path": "d"}, "[note: the directory is empty]"},
			{args{"pattern": "*.zig"}, "[note: nothing matches *.zig]"},
			{args{"hidden": false, "pattern": "d"}, "d/\n\n[note: 3 hidden entries not listed; set hidden=true to list them]"},
			{args{"recursive": true, "pattern": "d"}, "d/\n\n[note: 1 entry not listed because of ignore files; set no_ignore=true to list them]\n[note: contents not listed: .git (version control)]"},
		} {
			if output, _, _ := h.list(c.args); output != c.want {
				t.Errorf("%s: %v: %q, want %q", way, c.args, output, c.want)
			}
		}
	}
	// If there are many entries, only the first are returned.
	for i := range 700 {
		h.add(fmt.Sprintf("most/%d/%03d=", i%7, i))
	}
	for way, h := range h.inWays("disk", "events") {
		_, data, got := h.list(args{"path": "most", "recursive": true, "limit": 3})
		if want := []string{"most/0", "most/0/000", "most/0/007"}; data.Total != 707 || !data.Truncated || !slices.Equal(got, want) {
			t.Errorf("%s: %v of %d, want %v", way, got, data.Total, want)
		}
	}
	// A long listing is shortened in the text but complete in the data.
	for i := range 1500 {
		h.add(fmt.Sprintf("wide/%04d%s=", i, strings.Repeat("x", 100)))
	}
	output, data, _ := h.list(args{"path": "wide", "limit": 2000})
	if len(output) > 53<<10 || len(data.Files) != 1500 || !strings.Contains(output, " of 1500 entries") {
		t.Errorf("%d bytes, %d files, …%q", len(output), len(data.Files), output[len(output)-100:])
	}
}

func TestListRefusals(t *testing.T) {
	h := newHost(t, "file=", "src/", "out -> /etc")
	h.refuses("list", args{"path": "file"}, tool.InvalidArguments, "not a directory")
	h.refuses("list", args{"path": "scr"}, tool.NotFound, "Path does not exist: scr", "src")
	h.refuses("list", args{"path": "out"}, tool.Security)
	h.refuses("list", args{"path": ".."}, tool.Security)
	h.refuses("list", args{"pattern": "[a"}, tool.InvalidArguments, "[a")
	h.refuses("list", args{"limit": 0}, tool.InvalidArguments)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, recursive := range []bool{false, true} {
		a, bad := h.schemas["list"].Check(map[string]json.RawMessage{"recursive": sdk.Data(recursive)})
		if len(bad) > 0 {
			t.Fatal(bad)
		}
		res := h.plugin.Call(ctx, &tool.Call{ID: "1", Tool: "list", Arguments: sdk.Data(a), Cwd: h.cwd, Roots: h.roots}, silent{})
		if res.Error == nil || res.Error.Kind != tool.Canceled {
			t.Errorf("canceled: %v", res.Error)
		}
	}
}

// TestListAsGlob checks that list returns the same files of a tree as glob. It also checks that listing a deeply
// nested tree ends.
func TestListAsGlob(t *testing.T) {
	h := newHost(t, ".git/HEAD=x", ".gitignore=*.log\n/out\n!keep.log\n", "a/.ignore=b.txt\n", "a/b.txt=", "a/c/keep.log=", "a/c/x.log=", "out/x=", "a/out/y=", ".h/z=")
	must(t, os.MkdirAll(h.path(strings.Repeat("d/", 100)), 0o777))
	must(t, os.Symlink("..", h.path("d/up")))
	for way, h := range h.inWays() {
		for _, o := range []args{{}, {"no_ignore": true}} {
			_, _, d := h.glob(args{"pattern": "**/*", "head_limit": 0, "no_ignore": o["no_ignore"] == true})
			var want []string
			for _, f := range d.Files {
				want = append(want, f.Path)
			}
			_, data, _ := h.list(args{"recursive": true, "hidden": false, "no_ignore": o["no_ignore"] == true})
			var got []string
			for _, f := range data.Files {
				if f.Type != "directory" {
					got = append(got, f.Path)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) || len(got) < 3 {
				t.Errorf("%s %v: %v\nwant %v", way, o, got, want)
			}
		}
		if res := h.call("list", args{"recursive": true}); way != "disk" && res.Metadata["index"] != index.Ready {
			t.Errorf("%s: the index is %v", way, res.Metadata["index"])
		}
	}
}
