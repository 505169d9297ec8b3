package finder

import (
	"os"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

func TestGlob(t *testing.T) {
	h := newHost(t, ".git/HEAD=x", ".gitignore=*.log\n", "a.go=", "b.go=", "src/c.go=", "src/deep/d.ts=", "x.log=", ".env=", "src/.hid/e.go=", "link.go -> a.go")
	now := time.Now().Add(-time.Hour)
	for i, name := range []string{"b.go", "src/c.go", "a.go", "src/deep/d.ts", "x.log", ".env"} {
		must(t, os.Chtimes(h.path(name), now, now.Add(-time.Duration(i)*time.Minute)))
	}
	for _, tc := range []struct {
		a    args
		want string
	}{
		{args{"pattern": "*.go"}, "link.go b.go a.go"},
		{args{"pattern": "**/*.go"}, "link.go b.go src/c.go a.go"},
		{args{"pattern": "**/*.{go,ts}"}, "link.go b.go src/c.go a.go src/deep/d.ts"},
		{args{"pattern": "./*.go"}, "link.go b.go a.go"},
		{args{"pattern": "src/*"}, "src/c.go"},
		{args{"pattern": "*.go", "path": "src"}, "src/c.go"},
		{args{"pattern": h.path("src") + "/**/*.ts"}, "src/deep/d.ts"},
		{args{"pattern": "../*.go", "path": "src"}, "link.go b.go a.go"},
		{args{"pattern": "a.go"}, "a.go"},
		{args{"pattern": "*.log", "no_ignore": true}, "x.log"},
		{args{"pattern": ".env"}, ".env"},
		{args{"pattern": "src/.hid/*"}, "src/.hid/e.go"},
		{args{"pattern": "**/e.go", "hidden": true}, "src/.hid/e.go"},
		{args{"pattern": "**/deep/"}, "src/deep"},
		{args{"pattern": "*.go", "head_limit": 1, "offset": 1}, "b.go"},
	} {
		text, _, d := h.glob(tc.a)
		if got := strings.ReplaceAll(text, "\n", " "); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.a, got, tc.want)
		}
		if len(d.Files) != len(strings.Fields(tc.want)) {
			t.Errorf("%v: %+v", tc.a, d.Files)
		}
	}
	_, notes, d := h.glob(args{"pattern": "**/*.go", "head_limit": 2})
	if d.Total != 4 || !d.Truncated || !strings.Contains(notes, "1-2 of 4 files shown, the newest first; continue with offset=2") {
		t.Errorf("%s %+v", notes, d)
	}
	if f := d.Files[0]; f.Type != "symlink" || f.Name != "link.go" || f.Path != h.path("link.go") {
		t.Errorf("%+v", f)
	}
	if _, notes, d = h.glob(args{"pattern": "*.go", "offset": 9}); len(d.Files) != 0 || !strings.Contains(notes, "offset 9 is past the end of 3 files") {
		t.Errorf("%s %+v", notes, d)
	}
}

func TestGlobWithoutResult(t *testing.T) {
	h := newHost(t, ".git/HEAD=x", ".gitignore=x.rs\n", "src/x.rs=", "src/a.go=")
	_, notes, d := h.glob(args{"pattern": "*.rs"})
	for _, want := range []string{"No files match *.rs in .; 1 file searched", "use **/*.rs", "1 ignored, 2 hidden", "no_ignore=true or hidden=true to find these too"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q lacks %q", notes, want)
		}
	}
	if d.Total != 0 || d.Files == nil {
		t.Errorf("%+v", d)
	}
	if _, notes, _ = h.glob(args{"pattern": "nosuch/**/*.rs"}); !strings.Contains(notes, "No files match nosuch/**/*.rs") {
		t.Error(notes)
	}
}

func TestGlobErrors(t *testing.T) {
	h := newHost(t, "a=", "dir/b=")
	for _, tc := range []struct {
		a    args
		kind tool.Kind
		word string
	}{
		{args{"pattern": "[a"}, tool.InvalidArguments, "has no matching ]"}, {args{"pattern": "{a"}, tool.InvalidArguments, "has no matching }"}, {args{"pattern": ""}, tool.InvalidArguments, "**/*.go"},
		{args{"pattern": "a\x00*"}, tool.InvalidArguments, "NUL"}, {args{"pattern": ".."}, tool.InvalidArguments, "matches only the directory itself"}, {args{"pattern": "*", "path": "nosuch"}, tool.NotFound, "does not exist: nosuch"},
		{args{"pattern": "*", "path": "a"}, tool.InvalidArguments, "not a directory"}, {args{"pattern": "/etc/*"}, tool.Security, "outside"}, {args{"pattern": "../*"}, tool.Security, "outside"}, {args{"pattern": "nosuch/*", "path": "gone"}, tool.NotFound, "does not exist: gone"},
	} {
		h.refuses("glob", tc.a, tc.kind, tc.word)
	}
}
