package statedb_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/sdk/statedb"
)

var layout = []string{`CREATE TABLE a (n INTEGER NOT NULL) STRICT; INSERT INTO a VALUES (1);`, `CREATE TABLE b (n INTEGER NOT NULL) STRICT;`}

func open(t *testing.T, path string, layout []string) *sql.DB {
	t.Helper()
	db, err := statedb.Open(t.Context(), path, layout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func count(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSteps checks that each step is applied only once, even if several processes open the same file several times.
func TestSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "a ?#%41 name.db")
	if n := count(t, open(t, path, layout[:1]), "a"); n != 1 {
		t.Errorf("%d rows", n)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			db, err := statedb.Open(context.Background(), path, layout)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := db.Exec(`INSERT INTO b VALUES (1)`); err != nil {
				t.Error(err)
			}
			_ = db.Close()
		})
	}
	wg.Wait()
	db := open(t, path, layout)
	if a, b := count(t, db, "a"), count(t, db, "b"); a != 1 || b != 8 {
		t.Errorf("%d and %d rows", a, b)
	}
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): fs.ModeDir | 0o700} {
		if st, err := os.Stat(name); err != nil || st.Mode() != want {
			t.Errorf("%s: %v %v", name, st.Mode(), err)
		}
	}
	if _, err := statedb.Open(t.Context(), path, layout[:1]); err == nil || !strings.Contains(err.Error(), "made by a later version: it has layout 2, and the newest supported layout is 1") {
		t.Error(err)
	}
}

// TestStepFails checks that a failed step does not change the database.
func TestStepFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if _, err := statedb.Open(t.Context(), path, []string{layout[0], `CREATE nonsense`}); err == nil {
		t.Error("it is opened")
	}
	if n := count(t, open(t, path, layout), "a"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestInMemory(t *testing.T) {
	first, second := open(t, "", layout), open(t, "", layout)
	if _, err := first.Exec(`INSERT INTO b VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	if a, b := count(t, first, "b"), count(t, second, "b"); a != 1 || b != 0 {
		t.Errorf("%d and %d rows", a, b)
	}
}

func TestUnusable(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := statedb.Open(t.Context(), filepath.Join(dir, "file"), layout); err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Error(err)
	}
	if _, err := statedb.Open(t.Context(), filepath.Join(dir, "file", "x.db"), layout); err == nil || !errors.Is(err, os.ErrExist) && !strings.Contains(err.Error(), "not a directory") {
		t.Error(err)
	}
}

// TestOpenNewAtOnce opens new databases in several connections at the same time. SQLite refuses some of them at once
// while another one begins to use the write-ahead log.
func TestOpenNewAtOnce(t *testing.T) {
	t.Parallel()
	for range 40 {
		path := filepath.Join(t.TempDir(), "new.db")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				db, err := statedb.Open(t.Context(), path, layout)
				if err != nil {
					t.Error(err)
					return
				}
				_ = db.Close()
			})
		}
		all.Wait()
	}
}
