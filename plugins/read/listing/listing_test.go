package listing

import (
	"context"
	"errors"
	"fmt"
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

// directory creates a directory with an entry of each type. It opens a workspace for the directory.
func directory(t *testing.T) (dir string, ws *workspace.Workspace, top workspace.Path) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(dir+"/.hidden", []byte("12345"), 0o600))
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	must(t, os.MkdirAll(dir+"/zdir/in", 0o700))
	must(t, os.Symlink("file", dir+"/link"))
	must(t, syscall.Mkfifo(dir+"/fifo", 0o600))
	ws, err = workspace.Open([]tool.Root{{Path: dir}})
	must(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	top, err = ws.Resolve(dir, ".")
	must(t, err)
	return dir, ws, top
}

// TestRead compares the metadata of entries with the metadata that the operating system reports.
func TestRead(t *testing.T) {
	dir, ws, top := directory(t)
	l, err := Read(t.Context(), ws, top)
	must(t, err)
	var got []string
	for _, e := range l.Entries {
		info, err := os.Lstat(filepath.Join(dir, e.Name))
		must(t, err)
		if e.Size != info.Size() || !e.Modified.Equal(info.ModTime()) {
			t.Errorf("%s: %d bytes of %s, want %d of %s", e.Name, e.Size, e.Modified, info.Size(), info.ModTime())
		}
		got = append(got, e.Name+" "+e.Type()+" "+e.Target)
	}
	if want := []string{"zdir directory ", ".hidden file ", "fifo fifo ", "file file ", "link symlink file"}; !slices.Equal(got, want) || l.GivenUp {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReadGivesUp(t *testing.T) {
	_, ws, top := directory(t)
	for most, want := range map[int]string{5: "5 false", 4: "4 true", 1: "1 true"} {
		l, err := read(t.Context(), ws, top, most)
		must(t, err)
		if got := fmt.Sprint(len(l.Entries), " ", l.GivenUp); got != want {
			t.Errorf("at most %d: %s, want %s", most, got, want)
		}
	}
}

func TestReadIsCanceled(t *testing.T) {
	_, ws, top := directory(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, ws, top); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
