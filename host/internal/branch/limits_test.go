package branch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestClean checks what is removed and what is kept: changes that are not applied, branches in use, and files without a
// record.
func TestClean(t *testing.T) {
	s, b, _, _ := begun(t) // has changes that are not applied
	old := time.Now().Add(-48 * time.Hour)
	age := func(path string) {
		t.Helper()
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"applied", "young", "used", PreviewPrefix + "old"} {
		made, err := s.Make("", b.Base, name)
		if err != nil {
			t.Fatal(err)
		}
		if made.Created = old; name == "young" {
			made.Created = time.Now()
		}
		if made.IsPreview() {
			files(t, made.Layer(), map[string]string{"f": "x"})
		}
		if err := made.save(); err != nil {
			t.Fatal(err)
		}
		if name != "young" {
			age(filepath.Join(made.dir, recordFile))
		}
		if name == "used" {
			lock, err := made.lock()
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
		}
	}
	b.Created = old
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	age(filepath.Join(b.dir, recordFile))
	for _, name := range []string{"empty@1/upper/d", "files@1/upper/d", "recent@1/upper", ".new-1/upper"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "files@1/upper/d/f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty@1", "files@1", ".new-1"} {
		age(filepath.Join(s.Dir, name))
	}
	if err := s.Clean(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	var left []string
	all, err := s.List()
	for _, o := range all {
		left = append(left, o.Name)
	}
	if want := []string{"b", "used", "young"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q are left, want %q (%v)", left, want, err)
	}
	for name, want := range map[string]bool{"empty@1": false, "files@1": true, "recent@1": true, ".new-1": false, dustbinDir: false} {
		if _, err := os.Stat(filepath.Join(s.Dir, name)); errors.Is(err, os.ErrNotExist) == want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if orphans, err := s.Orphans(); err != nil || len(orphans) != 2 {
		t.Errorf("%+v %v", orphans, err)
	}
}
