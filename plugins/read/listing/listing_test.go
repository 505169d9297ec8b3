package listing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes a tree of files, links among them, and opens it.
func tree(t *testing.T) (dir string, ws *workspace.Workspace, top workspace.Path) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for i := range 120 {
		path := fmt.Sprintf("%s/d%d/e%d/f%d.txt", dir, i%3, i%7, i)
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must(t, os.WriteFile(path, make([]byte, i), 0o666))
	}
	must(t, os.Symlink("..", dir+"/d0/up"))
	ws, err = workspace.Open([]tool.Root{{Path: dir}})
	must(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	top, err = ws.Resolve(dir, ".")
	must(t, err)
	return dir, ws, top
}

// The listing has what the standard library's walk has, with the same facts.
func TestReadAsWalkDir(t *testing.T) {
	dir, ws, top := tree(t)
	var want []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir {
			info, _ := d.Info()
			want = append(want, fmt.Sprint(path, d.IsDir(), info.Size(), info.ModTime().UnixNano()))
		}
		return err
	}))
	l, err := Read(t.Context(), ws, top, Options{Recursive: true, Hidden: true})
	must(t, err)
	var got []string
	for _, e := range l.Entries {
		got = append(got, fmt.Sprint(e.Path, e.Type == "directory", e.Size, e.Modified.UnixNano()))
		if e.Path != filepath.Join(dir, e.Rel) || e.Name != filepath.Base(e.Path) {
			t.Errorf("%+v", e)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || l.Total != len(want) || l.GivenUp {
		t.Errorf("%d entries, total %d, want %d", len(got), l.Total, len(want))
	}
}

func TestReadGivesUp(t *testing.T) {
	_, ws, top := tree(t)
	whole, err := Read(t.Context(), ws, top, Options{Recursive: true})
	must(t, err)
	for _, c := range []struct {
		examine int
		givenUp bool
	}{{whole.Total, false}, {whole.Total - 1, true}, {10, true}} {
		l, err := Read(t.Context(), ws, top, Options{Recursive: true, Examine: c.examine})
		must(t, err)
		if l.GivenUp != c.givenUp || c.givenUp && l.Total > c.examine+1 || !c.givenUp && l.Total != whole.Total {
			t.Errorf("of %d, %d examined: %d found, given up: %v", whole.Total, c.examine, l.Total, l.GivenUp)
		}
	}
}

func TestReadIsCanceled(t *testing.T) {
	_, ws, top := tree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, ws, top, Options{Recursive: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{"plain.txt": "plain.txt", "sp ace": "sp ace", "naïve 你好": "naïve 你好", "a\nb": `"a\nb"`, "\xff": `"\xff"`, "a\u202eb": `"a\u202eb"`} {
		if got := printable(name); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
}

// TestTypes lists one of each type, whose metadata is asked for one by one.
func TestTypes(t *testing.T) {
	dir, ws, top := tree(t)
	must(t, syscall.Mkfifo(dir+"/fifo", 0o600))
	must(t, os.Mkdir(dir+"/aside", 0o700))
	must(t, os.WriteFile(dir+"/aside/file", []byte("12345"), 0o600))
	must(t, os.Symlink("file", dir+"/aside/link"))
	l, err := Read(t.Context(), ws, top, Options{Recursive: true, Pattern: "{fifo,aside,aside/*}"})
	must(t, err)
	var got []string
	for _, e := range l.Entries {
		info, err := os.Lstat(e.Path)
		must(t, err)
		if e.Size != info.Size() || !e.Modified.Equal(info.ModTime()) {
			t.Errorf("%s: %d bytes of %s, want %d of %s", e.Rel, e.Size, e.Modified, info.Size(), info.ModTime())
		}
		got = append(got, e.Rel+" "+e.Type+" "+e.Target)
	}
	if want := []string{"aside directory ", "aside/file file ", "aside/link symlink file", "fifo fifo "}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
