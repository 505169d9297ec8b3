package tool_test

import (
	"path/filepath"
	"testing"

	"toolhost.dev/sdk/tool"
)

func TestRootContains(t *testing.T) {
	for _, c := range []struct {
		root, path string
		rel        string // "" if the path is outside of the root
	}{
		{"/", "/", "."},
		{"/", "/etc", "etc"},
		{"/", "/etc/passwd", "etc/passwd"},
		{"/", "/..", "."},
		{"/", "etc", ""},
		{"/work", "/work", "."},
		{"/work", "/work/", "."},
		{"/work", "/work/a", "a"},
		{"/work", "/work/a/b/", "a/b"},
		{"/work", "/", ""},
		{"/work", "/wor", ""},
		{"/work", "/other", ""},

		// These directories are beside the root, although their names begin with the root's name.
		{"/work", "/work-evil", ""},
		{"/work", "/work-evil/a", ""},
		{"/work", "/workshop", ""},
		{"/work/a", "/work/a.b", ""},

		// The root has a trailing slash.
		{"/work/", "/work", "."},
		{"/work/", "/work/a", "a"},
		{"/work/", "/work-evil", ""},
		{"/work//", "/work/a", "a"},
		{"//", "/a", "a"},

		// The paths are not clean.
		{"/work", "/work/../etc/passwd", ""},
		{"/work", "/work/..", ""},
		{"/work", "/work/a/../../work/b", "b"},
		{"/work", "/other/../work/a", "a"},
		{"/work", "/work/./a", "a"},
		{"/work", "/work/.", "."},
		{"/work", "//work//a", "a"},
		{"/work/../etc", "/etc/passwd", "passwd"},
		{"/work/../etc", "/work/a", ""},
		{"/work/.", "/work/a", "a"},

		// These names look unclean but are clean.
		{"/work", "/work/.git", ".git"},
		{"/work", "/work/..a", "..a"},
		{"/work", "/work/a...", "a..."},
		{"/.work", "/.work/.a/b", ".a/b"},

		// The root or the path is relative or empty.
		{"/work", "work/a", ""},
		{"/work", "a", ""},
		{"/work", ".", ""},
		{"/work", "", ""},
		{"work", "/work/a", ""},
		{"work", "work/a", ""},
		{".", "/", ""},
		{"", "/", ""},
		{"", "/work", ""},
		{"", "", ""},
	} {
		root := tool.Root{Path: c.root}
		rel, ok := root.Rel(c.path)
		if rel != c.rel || ok != (c.rel != "") {
			t.Errorf("Root %q: Rel(%q) = %q, %t; want %q", c.root, c.path, rel, ok, c.rel)
		}
		if got := root.Contains(c.path); got != ok || tool.Within(c.root, c.path) != ok {
			t.Errorf("Root %q: Contains(%q) = %t, but Rel reports %t", c.root, c.path, got, ok)
		}
	}
}

// FuzzRootContains compares Rel with filepath.Rel.
func FuzzRootContains(f *testing.F) {
	f.Add("/work", "/work/../etc")
	f.Add("/work/.", "/work/...")
	f.Add("//", "/.a//b")
	f.Fuzz(func(t *testing.T, dir, path string) {
		want, err := filepath.Rel(dir, path)
		inside := err == nil && filepath.IsLocal(want) && filepath.IsAbs(dir) && filepath.IsAbs(path)
		if !inside {
			want = ""
		}
		if got, ok := (tool.Root{Path: dir}).Rel(path); got != want || ok != inside {
			t.Errorf("Root %q: Rel(%q) = %q, %t; want %q, %t", dir, path, got, ok, want, inside)
		}
	})
}
