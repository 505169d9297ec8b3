package paths

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sandbox/stamp"
)

// tree is a directory for tests.
type tree struct {
	*testing.T
	dir string
}

func newTree(t *testing.T, files ...string) *tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &tree{t, dir}
	w.add(files...)
	return w
}

func (w *tree) at(name string) string { return filepath.Join(w.dir, name) }

func (w *tree) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *tree) add(files ...string) {
	w.Helper()
	for _, f := range files {
		w.must(os.MkdirAll(filepath.Dir(w.at(f)), 0o755))
		w.must(os.WriteFile(w.at(f), nil, 0o644))
	}
}

// sweep returns the relative paths of the matches. Paths of hidden matches begin with "-".
func (w *tree) sweep(f *Finder) string {
	w.Helper()
	matches, _, err := f.Sweep()
	w.must(err)
	var out []string
	for _, m := range matches {
		rel, err := filepath.Rel(w.dir, m.Path)
		w.must(err)
		if m.Hidden {
			rel = "-" + rel
		}
		out = append(out, rel)
	}
	return strings.Join(out, " ")
}

// TestSweep checks the matches of different rules.
func TestSweep(t *testing.T) {
	w := newTree(t, "ws/.env", "ws/a/.env", "ws/a/b.pem", "ws/secrets/x/key", "ws/deploy/.env", "ws/deploy/x", "ws/.vscode/.env", "ws/a/.mcp.json", "ws/node_modules/p/.mcp.json",
		"ws/.git/objects/.env", "ws/{x}", "ro/.env", "ro/.mcp.json", "out/.env")
	w.must(os.Symlink("a", w.at("ws/link")))
	w.must(os.Symlink("../ro/.mcp.json", w.at("ws/b.pem")))
	w.must(os.Symlink("../out/.env", w.at("ws/c.pem")))
	roots := []Root{{Path: w.at("ws"), Writable: true}, {Path: w.at("ro")}, {Path: w.at("ws/a")}}
	for _, c := range []struct {
		rules Rules
		want  string
	}{
		{Rules{}, ""},
		{Rules{Hide: []string{"**/.env"}}, "-ro/.env -ws/.env -ws/.vscode/.env -ws/a/.env -ws/deploy/.env"},
		{Rules{Hide: []string{"**/*.pem"}}, "-ro/.mcp.json -ws/a/b.pem"},
		{Rules{Hide: []string{w.at("ws/secrets/**")}}, "-ws/secrets"},
		{Rules{Hide: []string{w.at("ws/*/{.env,key}")}}, "-ws/.vscode/.env -ws/a/.env -ws/deploy/.env"},
		{Rules{Hide: []string{"**/link"}}, "-ws/a"},
		{Rules{Hide: []string{w.at(`ws/\{x\}`)}}, "-ws/{x}"},
		{Rules{Protect: []string{w.at("ws/deploy/**"), "**/.mcp.json"}}, "ws/a/.mcp.json ws/deploy ws/node_modules/p/.mcp.json"},
		{Rules{Protect: []string{w.at("ws/deploy/**")}, Hide: []string{"**/.env"}}, "-ro/.env -ws/.env -ws/.vscode/.env -ws/a/.env ws/deploy -ws/deploy/.env"},
		{Rules{Names: []string{".vscode", ".mcp.json"}}, "ws/.vscode ws/a/.mcp.json"},
	} {
		if got := w.sweep(New(roots, c.rules)); got != c.want {
			t.Errorf("%+v: %s, wanted %s", c.rules, got, c.want)
		}
	}
}

// TestChanges checks that a sweep finds the changes since the last sweep.
func TestChanges(t *testing.T) {
	w := newTree(t, "ws/.env", "ws/secrets/key", "ws/a/b/x", "ws/deploy/x")
	f := New([]Root{{Path: w.at("ws"), Writable: true}}, Rules{Hide: []string{"**/.env", w.at("ws/secrets/**")}, Protect: []string{w.at("ws/deploy/**")}})
	want := func(want string) {
		t.Helper()
		if got := w.sweep(f); got != want {
			t.Errorf("%s, wanted %s", got, want)
		}
	}
	want("-ws/.env ws/deploy -ws/secrets")
	for _, n := range f.nodes { // pretend that the directories were read long after their last change
		n.stamp.Taken = n.stamp.Taken.Add(stamp.Settled + time.Second)
	}
	if !f.Unchanged() {
		t.Error("the root counts as changed")
	}
	w.must(os.Link(w.at("ws/.env"), w.at("ws/link")))
	if f.Unchanged() {
		t.Error("a new link in the root is not noticed")
	}
	w.must(os.Remove(w.at("ws/link")))
	want("-ws/.env ws/deploy -ws/secrets")
	_, before, _ := f.Sweep()
	_, after, _ := f.Sweep()
	if before != after {
		t.Error("the generation changed without a change of the matches")
	}
	w.add("ws/a/b/.env", "ws/new/deep/.env")
	want("-ws/.env -ws/a/b/.env ws/deploy -ws/new/deep/.env -ws/secrets")
	w.must(os.Rename(w.at("ws/a"), w.at("ws/c")))
	w.must(os.RemoveAll(w.at("ws/new")))
	want("-ws/.env -ws/c/b/.env ws/deploy -ws/secrets")
	// Create hard links, also to files in matching directories. The search must find these links, although creating a
	// link does not change the directory of the original file.
	for from, to := range map[string]string{"ws/.env": "ws/l1", "ws/secrets/key": "ws/c/l2", "ws/deploy/x": "ws/l3"} {
		w.must(os.Link(w.at(from), w.at(to)))
	}
	want("-ws/.env -ws/c/b/.env -ws/c/l2 ws/deploy -ws/l1 ws/l3 -ws/secrets")
	w.must(os.Remove(w.at("ws/l1")))
	want("-ws/.env -ws/c/b/.env -ws/c/l2 ws/deploy ws/l3 -ws/secrets")
	// Change the target of a matching symbolic link.
	w.add("ws/t1", "ws/t2")
	w.must(os.Symlink("../t", w.at("ws/c/.env")))
	w.must(os.Symlink("t1", w.at("ws/t")))
	want("-ws/.env -ws/c/b/.env -ws/c/l2 ws/deploy ws/l3 -ws/secrets -ws/t1")
	w.must(os.Remove(w.at("ws/t")))
	w.must(os.Symlink("t2", w.at("ws/t")))
	want("-ws/.env -ws/c/b/.env -ws/c/l2 ws/deploy ws/l3 -ws/secrets -ws/t2")
}

// TestTooMany checks that a sweep returns an error if there are more matches than possible mounts. The error must name
// the directories with the most matches.
func TestTooMany(t *testing.T) {
	w := newTree(t, "ws/a/1.pem")
	for i := range MaxMatches {
		w.add(fmt.Sprintf("ws/b/%d.pem", i))
	}
	f := New([]Root{{Path: w.at("ws"), Writable: true}}, Rules{Hide: []string{"**/*.pem"}})
	_, _, err := f.Sweep()
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d denied or protected paths exist, and at most 4096 are possible. Most are: 4096 in %s, 1 in %s. Name directories", MaxMatches+1, w.at("ws/b"), w.at("ws/a"))) {
		t.Fatal(err)
	}
	if _, _, ok := f.Recent(time.Hour); ok {
		t.Error("a failed sweep counts")
	}
	w.must(os.Remove(w.at("ws/a/1.pem")))
	if _, _, err := f.Sweep(); err != nil {
		t.Error(err)
	}
}

// BenchmarkSweep measures a search of 1 700 directories in which nothing changed.
func BenchmarkSweep(b *testing.B) {
	dir := b.TempDir()
	for i := range 1700 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint(i%40), fmt.Sprint(i)), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(2 * stamp.Settled) // wait, because the state of a directory is not trusted shortly after a change
	f := New([]Root{{Path: dir, Writable: true}}, Rules{Hide: []string{"**/.env"}})
	for b.Loop() {
		if _, _, err := f.Sweep(); err != nil {
			b.Fatal(err)
		}
	}
}
