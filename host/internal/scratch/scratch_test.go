package scratch

import (
	"os"
	"path/filepath"
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

func TestMake(t *testing.T) {
	base := filepath.Join(t.TempDir(), "scratch")
	a, b := Dir(base, "a"), Dir(base, "b")
	if a == b || Dir(base, "a") != a || !Empty(a) {
		t.Errorf("%s, %s", a, b)
	}
	must(t, Make(a))
	must(t, Make(a))
	for path, want := range map[string]os.FileMode{filepath.Dir(a): 0o700, a: 0o777} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	must(t, os.WriteFile(filepath.Join(a, "f"), make([]byte, 100_000), 0o600))
	if Empty(a) || !Exceeds(a, 50_000) || Exceeds(a, 1<<20) {
		t.Error("the content is not measured")
	}
}

func TestClean(t *testing.T) {
	base := t.TempDir()
	old, used := Dir(base, "old"), Dir(base, "used")
	for _, dir := range []string{old, used} {
		must(t, Make(dir))
		must(t, os.MkdirAll(filepath.Join(dir, "d", "read-only"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "d", "read-only", "f"), nil, 0o400))
		must(t, os.Chmod(filepath.Join(dir, "d", "read-only"), 0o500))
		past := time.Now().Add(-2 * maxIdle)
		must(t, os.Chtimes(filepath.Dir(dir), past, past))
	}
	must(t, Make(used))
	must(t, Clean(base))
	if _, err := os.Stat(filepath.Dir(old)); !os.IsNotExist(err) {
		t.Errorf("the unused directory remains: %v", err)
	}
	if Empty(used) {
		t.Error("the directory in use was removed")
	}
	must(t, os.Chmod(filepath.Join(used, "d", "read-only"), 0o700)) // for the cleanup of the test
}

func TestPaths(t *testing.T) {
	top, err := os.MkdirTemp(Path, "TestPaths")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(top)) })
	ws, source, name := filepath.Join(top, "ws"), t.TempDir(), filepath.Base(top)
	must(t, os.Mkdir(ws, 0o700))
	file, err := os.CreateTemp(Path, "TestPaths")
	must(t, err)
	t.Cleanup(func() { must(t, os.Remove(file.Name())) })
	must(t, file.Close())
	must(t, os.Mkdir(filepath.Join(source, "made"), 0o700))
	shared := tool.Root{Path: Path, Source: source, Writable: true}
	inside, elsewhere := []tool.Root{{Path: ws}, shared}, []tool.Root{{Path: "/work"}, shared}
	for _, c := range []struct {
		roots       []tool.Root
		path, host  string
		read, write bool // whether the path is foreign
	}{
		{roots: elsewhere, path: "/tmp", host: source},
		{roots: elsewhere, path: "/tmp/made/x", host: source + "/made/x"},
		{roots: elsewhere, path: "/tmp/new", host: source + "/new"},
		{roots: elsewhere, path: "/tmpx", host: "/tmpx"},
		{roots: elsewhere, path: file.Name(), host: source + "/" + filepath.Base(file.Name()), read: true},
		{roots: elsewhere, path: ws, host: source + "/" + name + "/ws", read: true, write: true},
		{roots: inside, path: ws + "/f", host: ws + "/f", read: true, write: true}, // the innermost root decides first
		{roots: inside, path: top + "/f", host: source + "/" + name + "/f", read: true, write: true},
		{roots: inside, path: "/tmp/new", host: source + "/new"},
		{roots: []tool.Root{{Path: "/work"}, {Path: source, Source: source}}, path: "/tmp/new", host: "/tmp/new"},
		{roots: []tool.Root{{Path: "/work"}}, path: "/tmp/new", host: "/tmp/new"},
	} {
		if got := OnHost(c.roots, c.path); got != c.host {
			t.Errorf("OnHost(%s) = %s, want %s", c.path, got, c.host)
		}
		if read, write := Foreign(c.roots, c.path, false), Foreign(c.roots, c.path, true); read != c.read || write != c.write {
			t.Errorf("Foreign(%s) = %t, %t", c.path, read, write)
		}
	}
	if rest, tmp := Split(inside); len(rest) != 1 || tmp != shared || len(inside) != 2 {
		t.Errorf("%v, %v", rest, tmp)
	}
}

// TestPast checks that a path of before the session stays one under its later names, and that a path without a valid
// record counts as one.
func TestPast(t *testing.T) {
	base, ws, other := t.TempDir(), t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(ws, "old", "built"), 0o700))
	must(t, os.WriteFile(filepath.Join(ws, "old", "f"), nil, 0o600))
	roots := []tool.Root{{Path: ws, Writable: true}, {Path: other}, {Path: Path, Source: "/x", Writable: true}}
	past := PastOf(Dir(base, "s"))
	expect := func(when string, want map[string]bool) {
		t.Helper()
		existed := past.Existed(roots)
		for path, want := range want {
			if !filepath.IsAbs(path) {
				path = filepath.Join(ws, path)
			}
			if existed(path) != want {
				t.Errorf("%s: %s existed: %t", when, path, !want)
			}
		}
	}
	expect("without a record", map[string]bool{"old": true, "new": true, other + "/x": false, "/tmp/x": false})
	skip := func(rel string) bool { return filepath.Base(rel) == "built" }
	must(t, past.Record(roots, skip))
	must(t, os.WriteFile(filepath.Join(ws, "new"), nil, 0o600))
	must(t, past.Record(roots, skip)) // keeps the first record
	expect("after a change", map[string]bool{ws: true, "old": true, "old/f": true, "old/built": false, "new": false, "old/g": false})

	for _, m := range [][2]string{{"new", "new2"}, {"old", "moved"}, {"moved/f", "g"}, {"g", "h/g"}} {
		must(t, past.Move(roots, filepath.Join(ws, m[0]), filepath.Join(ws, m[1])))
	}
	expect("after moves", map[string]bool{"old/f": true, "moved": true, "moved/f": true, "g": true, "h/g": true, "h": false, "new2": false, "moved/x": false})

	past = PastOf(Dir(base, "t"))
	expect("another session", map[string]bool{"new": true})
	must(t, past.Record(roots, skip))
	long := time.Now().Add(-2 * maxAge)
	must(t, os.Chtimes(past.file(roots[0]), long, long))
	expect("an old record", map[string]bool{"newer": true})
	must(t, past.Record(roots, skip))
	expect("a new record", map[string]bool{"newer": false, "new": true})
	must(t, os.WriteFile(past.file(roots[0]), []byte{0}, 0o600))
	expect("too many paths", map[string]bool{"newer": true})
	if past = nil; past.Existed(roots)(ws) {
		t.Error("a nil record knows a path")
	}
}

// TestBranchPaths checks the paths of files in branches and copies.
func TestBranchPaths(t *testing.T) {
	outer, inner := tool.Root{Path: "/w", View: "/proc/self/fd/3"}, tool.Root{Path: "/w/sub"}
	roots := []tool.Root{outer, inner, {Path: "/copy", CopyOf: "/original"}}
	for path, want := range map[string]string{"/w/f": "/proc/self/fd/3/f", "/w": "/proc/self/fd/3/.", "/w/sub/f": "/w/sub/f", "/x": "/x"} {
		if got := OnHost(roots, path); got != want {
			t.Errorf("OnHost(%s) = %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{"/copy/f": "/original/f", "/copy": "/original", "/w/f": "/w/f"} {
		if got := Original(roots, path); got != want {
			t.Errorf("Original(%s) = %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]string{"/original/f": "/copy/f", "/w/f": ""} {
		if got, ok := Copied(roots, path); got != want || ok != (want != "") {
			t.Errorf("Copied(%s) = %s, %t", path, got, ok)
		}
	}
}
