package library_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/plugins/snippet/library"
)

func open(t testing.TB, dir string, limits library.Limits) *library.Library {
	t.Helper()
	l := library.Open(dir, limits)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func save(t testing.TB, l *library.Library, name, code string) *library.Snippet {
	t.Helper()
	s, _, err := l.Save(t.Context(), library.Change{Name: name, Code: code})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t testing.TB, l *library.Library, name string) string {
	t.Helper()
	s, _, err := l.Load(t.Context(), library.Ref{Name: name}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s.Code
}

const writes = 20

// TestProcesses checks that several processes can save under the same names at the same time. The library is created
// during the test.
func TestProcesses(t *testing.T) {
	if dir := os.Getenv("LIBRARY_TEST_DIR"); dir != "" {
		l := open(t, dir, library.Limits{Versions: 1000})
		for i := range writes {
			save(t, l, fmt.Sprint("name", i%3), fmt.Sprint(os.Getpid(), " ", i))
			if _, _, err := l.List(t.Context(), library.Filter{Words: []string{"name"}, Limit: 9}); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	dir := t.TempDir()
	const processes = 3
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcesses$")
			c.Env = append(os.Environ(), "LIBRARY_TEST_DIR="+dir)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	l := open(t, dir, library.Limits{})
	versions := 0
	for i := range 3 {
		s, kept, err := l.Load(t.Context(), library.Ref{Name: fmt.Sprint("name", i)}, 0)
		if err != nil || s.Version != len(kept) {
			t.Fatal(s, err)
		}
		versions += len(kept)
	}
	if versions != processes*writes {
		t.Errorf("%d versions of %d", versions, processes*writes)
	}
}

func TestConcurrentUse(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		l := open(t, dir, library.Limits{Versions: 1000})
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 5 {
					if _, _, err := l.Save(t.Context(), library.Change{Name: "n", Code: fmt.Sprint(i, j)}); err != nil {
						t.Error(err)
					}
					if _, _, err := l.Load(t.Context(), library.Ref{Name: "n"}, 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if s := save(t, l, "n", "last"); s.Version != 41 {
			t.Errorf("version %d", s.Version)
		}
	}
}

func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"no database": func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("garbage ", 1000)), 0o600) },
		"overwritten": func(p string) error {
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte(strings.Repeat("\xff", 20_000)), 100)
			return errors.Join(err, f.Close())
		},
		"cut off": func(p string) error { return os.Truncate(p, 5000) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "snippets.db")
			l := open(t, dir, library.Limits{})
			save(t, l, "a", "code")
			if err := errors.Join(l.Close(), damage(path)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, _, err := l.Load(t.Context(), library.Ref{Name: "a"}, 0)
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "damaged: restore a backup, or start with an empty library by moving the file") {
					t.Errorf("%v", err)
				}
			}
			// The message recommends moving the file. This must work while the plugin continues to run.
			if err := os.Rename(path, path+".old"); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(path + "-wal")
			_ = os.Remove(path + "-shm")
			save(t, l, "b", "anew")
			if got := load(t, l, "b"); got != "anew" {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestRemoved saves snippets after the directory of the database was removed. Another process must find the saved
// snippets.
func TestRemoved(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, library.Limits{})
	save(t, l, "a", "code")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	save(t, l, "b", "code")
	if got := load(t, open(t, dir, library.Limits{}), "b"); got != "code" {
		t.Errorf("%q", got)
	}
	var none *library.NotFoundError
	if _, _, err := l.Load(t.Context(), library.Ref{Name: "a"}, 0); !errors.As(err, &none) || fmt.Sprint(none.Names) != "[b]" {
		t.Errorf("%v", err)
	}
}

func TestLaterLayout(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, library.Limits{})
	save(t, l, "a", "code")
	_ = l.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "snippets.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`PRAGMA user_version = 99`); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	if _, _, err := l.List(t.Context(), library.Filter{Limit: 1}); err == nil || !strings.Contains(err.Error(), "made by a later version: it has layout 99") {
		t.Errorf("%v", err)
	}
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, filepath.Join(file, "state"), library.Limits{})
	if _, _, err := l.Save(t.Context(), library.Change{Name: "a", Code: "x"}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

func TestManyNames(t *testing.T) {
	l := open(t, t.TempDir(), library.Limits{Snippets: 2})
	save(t, l, "a", "1")
	save(t, l, "b", "1")
	var full *library.FullError
	if _, _, err := l.Save(t.Context(), library.Change{Name: "c", Code: "1"}); !errors.As(err, &full) || !strings.Contains(full.What, "2 snippets") {
		t.Errorf("%v", err)
	}
	save(t, l, "b", "2")
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := open(t, t.TempDir(), library.Limits{})
	if _, _, err := l.Save(ctx, library.Change{Name: "a", Code: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	save(t, l, "a", "x")
}
