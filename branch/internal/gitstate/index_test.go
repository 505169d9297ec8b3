package gitstate

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/branch/internal/filetree"
)

// TestSameIndex checks the comparison of index files that git itself wrote.
func TestSameIndex(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.org"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	index := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
		at := filepath.Join(t.TempDir(), name)
		if err = errors.Join(err, os.WriteFile(at, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		return at
	}
	for name, text := range map[string]string{"a": "1", "some longer name": "2", "dir/b": "3"} {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "x")
	first := index("first")
	if err := os.Chtimes(filepath.Join(dir, "a"), time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	git("status")
	refreshed := index("refreshed")
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "a")
	changed := index("changed")
	if equal, _ := filetree.SameContent(first, refreshed); equal {
		t.Error("git did not refresh the index, so the test shows nothing")
	}
	if !SameIndex(first, refreshed) {
		t.Error("a refreshed index counts as another")
	}
	if SameIndex(first, changed) || SameIndex(first, filepath.Join(dir, "a")) {
		t.Error("an index with another entry counts as the same")
	}
}

// TestObjectsOfKilledProcesses checks that the repositories of killed processes are removed, and that the repositories
// of running processes stay.
func TestObjectsOfKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	old, used := filepath.Join(dir, gitPrefix+"old"), filepath.Join(dir, gitPrefix+"used")
	for _, err := range []error{os.Mkdir(old, 0o700), os.Mkdir(used, 0o700), os.Chtimes(old, time.Time{}, time.Now().Add(-2*gitAge))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	objects, err := Open(dir, strings.Repeat("0", 40))
	if err != nil {
		t.Fatal(err)
	}
	objects.Close()
	if left := mustNames(t, dir); len(left) != 1 || left[0] != filepath.Base(used) {
		t.Errorf("%q are left, want only that of a running process", left)
	}
}

func mustNames(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filetree.Names(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
