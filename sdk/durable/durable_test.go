package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/sdk/durable"
)

// TestUpdate checks that Update keeps the permissions and the symbolic links of a file, and leaves no other files
// behind.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	for _, mode := range []os.FileMode{0o600, 0o644, 0o444} {
		if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if err := durable.Update(file, []byte("new")); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(file)
		if err != nil || st.Mode().Perm() != mode {
			t.Errorf("mode %v, want %v: %v", st.Mode(), mode, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := durable.Update(link, []byte("through")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); string(b) != "through" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if target, err := os.Readlink(link); target != "file" {
		t.Errorf("the link is %q: %v", target, err)
	}
	if err := durable.Update(filepath.Join(dir, "made"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(dir, "made")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	if err := durable.Update(filepath.Join(dir, "none", "x"), nil); err == nil {
		t.Error("a file in a missing directory was written")
	}
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 3 {
		t.Errorf("%v %v", all, err)
	}
}

// TestReplaceOfLink checks that a link at the path is replaced, so that nobody who can create a link chooses which file
// is changed. The file has the given permissions.
func TestReplaceOfLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	for mode, replace := range map[os.FileMode]func(string, []byte) error{
		0o600: durable.Replace, 0o644: func(path string, b []byte) error { return durable.ReplaceMode(path, b, 0o644) },
	} {
		if err := errors.Join(os.WriteFile(target, []byte("target"), 0o600), os.RemoveAll(link), os.Symlink(target, link), replace(link, []byte("new"))); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(target); err != nil || string(b) != "target" {
			t.Errorf("%o: the target of the link has %q, %v", mode, b, err)
		}
		if st, err := os.Lstat(link); err != nil || st.Mode() != mode {
			t.Errorf("%v, want %v: %v", st.Mode(), mode, err)
		}
	}
}

// TestReplaceIsAtomic checks that a reader that opened the file before sees the whole old content: the new content goes
// to another file, which takes the name when it is complete.
func TestReplaceIsAtomic(t *testing.T) {
	for name, replace := range map[string]func(string, []byte) error{"Replace": durable.Replace, "ReplaceUnsynced": durable.ReplaceUnsynced, "Update": durable.Update} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte("the old content"), 0o600); err != nil {
			t.Fatal(err)
		}
		before, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close()
		if err := replace(path, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(before); err != nil || string(b) != "the old content" {
			t.Errorf("%s: an earlier reader sees %q, %v", name, b, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "new" {
			t.Errorf("%s: the file has %q, %v", name, b, err)
		}
	}
}
