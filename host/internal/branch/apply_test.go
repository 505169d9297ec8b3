package branch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	switch os.Getenv("TOOLHOST_TEST_ROLE") {
	case "apply", "revert", "checkpoint", "undo":
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child applies or reverts a branch in a process that the test kills.
func child() int {
	s := &Store{Dir: os.Getenv("TOOLHOST_TEST_STORE")}
	b, err := s.Find("", os.Getenv("TOOLHOST_TEST_BASE"), "b")
	if err == nil {
		switch os.Getenv("TOOLHOST_TEST_ROLE") {
		case "apply":
			_, err = s.Apply(b, Selection{})
		case "revert":
			_, err = s.Revert(b)
		case "checkpoint":
			err = s.Before(b, "s", "second", "", CheckpointRules{Keep: 3})
		case "undo":
			_, _, err = s.Undo(b, 1, CheckpointRules{})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// killAtStep runs a child that is killed at a step. It reports whether the child was killed.
func killAtStep(t *testing.T, s *Store, base, role string, step int) bool {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "TOOLHOST_TEST_ROLE="+role, "TOOLHOST_TEST_STORE="+s.Dir, "TOOLHOST_TEST_BASE="+base, fmt.Sprintf("TOOLHOST_TEST_KILL_AT=%d", step))
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%s, killed at step %d: %v\n%s", role, step, err, out)
	}
	return false
}

// snapshot describes a tree: types, modes, link targets, contents and attributes.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		text := fmt.Sprintf("%o %v", st.Mode, attributesOf(path))
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			to, _ := os.Readlink(path)
			text += " -> " + to
		case unix.S_IFREG:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(content))
		}
		out[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func differ(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	var lines []string
	for path := range want {
		if got[path] != want[path] {
			lines = append(lines, fmt.Sprintf("%q is %q, want %q", path, got[path], want[path]))
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			lines = append(lines, fmt.Sprintf("%q should not exist: %s", path, got[path]))
		}
	}
	slices.Sort(lines)
	t.Fatalf("%s:\n%s", what, strings.Join(lines, "\n"))
}

// files creates files. A name that ends with a slash is a directory, and "-> target" is a link.
func files(t *testing.T, dir string, content map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(content)) {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch to, link := strings.CutPrefix(content[name], "-> "); {
		case strings.HasSuffix(name, "/"):
			err = errors.Join(err, os.MkdirAll(path, 0o755))
		case link:
			err = errors.Join(err, os.Symlink(to, path))
		default:
			err = errors.Join(err, os.WriteFile(path, []byte(content[name]), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func whiteout(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), unix.Mknod(path, unix.S_IFCHR, 0)); err != nil {
		t.Fatal(err)
	}
}

// begun returns a base, a branch with every kind of change, the base after the apply, and the base before it.
func begun(t *testing.T) (s *Store, b *Branch, after, before map[string]string) {
	t.Helper()
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	files(t, base, map[string]string{
		"same": "s", "edit": "old", "gone": "g", "link": "-> same", "dir/gone": "x", "dir/kept": "k", "tree/a": "1", "tree/b/c": "2", "turn": "file", "turned/x": "dir", "mode": "m", "deep/a/b/f": "f",
	})
	s = &Store{Dir: filepath.Join(dir, "store")}
	b, err := s.Make("", base, "b")
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "want")
	if out, err := exec.Command("cp", "-a", base, want).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before = snapshot(t, base)
	for _, at := range []string{b.Layer(), want} {
		for _, gone := range []string{"gone", "dir/gone", "link", "turn", "turned"} {
			if at == want {
				_ = os.RemoveAll(filepath.Join(at, gone))
			}
		}
		files(t, at, map[string]string{
			"edit": "new", "new": "n", "newdir/a/b": "x", "newdir/l": "-> ../same", "link": "-> edit", "turn/now": "dir", "turned": "file", "deep/a/b/f": "ff", "deep/a/b/new\nline": "odd", "tree/": "", "\xff": "not text", "newdir/empty/": "",
		})
		if err := errors.Join(os.WriteFile(filepath.Join(at, "mode"), []byte("m"), 0o600), os.Chmod(filepath.Join(at, "mode"), 0o400), os.Chmod(filepath.Join(at, "newdir"), 0o555), unix.Setxattr(filepath.Join(at, "new"), "user.a", []byte("1"), 0), os.Chmod(filepath.Join(at, "deep"), 0o711)); err != nil {
			t.Fatal(err)
		}
	}
	whiteout(t, filepath.Join(b.Layer(), "gone"))
	whiteout(t, filepath.Join(b.Layer(), "dir/gone"))
	// The whole directory was replaced in the branch.
	files(t, b.Layer(), map[string]string{"tree/a": "other"})
	if err := errors.Join(unix.Setxattr(filepath.Join(b.Layer(), "tree"), opaqueMark, []byte("y"), 0), os.RemoveAll(filepath.Join(want, "tree"))); err != nil {
		t.Fatal(err)
	}
	files(t, want, map[string]string{"tree/a": "other"})
	return s, b, snapshot(t, want), before
}

// TestKilledAtEveryStep kills a process at each step of an apply, and of the revert after it. The next process completes
// what was begun, and nothing of the base is lost.
func TestKilledAtEveryStep(t *testing.T) {
	t.Run("all changes", func(t *testing.T) { killAtEveryStep(t, func(*Branch) {}) })
	t.Run("some changes", func(t *testing.T) {
		killAtEveryStep(t, func(b *Branch) {
			if err := unix.Mkfifo(filepath.Join(b.Layer(), "pipe"), 0o600); err != nil { // it is never applied
				t.Fatal(err)
			}
		})
	})
}

func killAtEveryStep(t *testing.T, prepare func(*Branch)) {
	for step, done := 1, false; !done; step++ {
		s, b, after, before := begun(t)
		prepare(b)
		done = !killAtStep(t, s, b.Base, "apply", step)
		if !done {
			resume(t, s, b)
		}
		differ(t, fmt.Sprintf("killed at step %d of the apply", step), snapshot(t, b.Base), after)
		if step%4 != 0 && !done { // each step of the revert is tried below, too
			continue
		}
		for at, reverted := 1, false; !reverted; at++ {
			reverted = !killAtStep(t, s, b.Base, "revert", at)
			if !reverted {
				resume(t, s, b)
				differ(t, fmt.Sprintf("killed at step %d of the revert", at), snapshot(t, b.Base), before)
			}
			differ(t, "reverted", snapshot(t, b.Base), before)
			if _, err := s.Apply(b, Selection{}); err != nil {
				t.Fatal(err)
			}
			differ(t, "applied again", snapshot(t, b.Base), after)
			if !done {
				break
			}
		}
		if step > 500 {
			t.Fatal("the apply does not end")
		}
	}
}

// TestRevertIntoNewChanges reverts an apply after the branch got new changes.
func TestRevertIntoNewChanges(t *testing.T) {
	s, b, after, before := begun(t)
	layer := snapshot(t, b.Layer())
	if _, err := s.Apply(b, Selection{}); err != nil {
		t.Fatal(err)
	}
	files(t, b.Layer(), map[string]string{"deep/later": "l", "newdir/later": "l"})
	if _, err := s.Revert(b); err == nil || !strings.Contains(err.Error(), "newdir: the branch has a new change of it") {
		t.Errorf("the revert of a path with a new change returned %v", err)
	}
	differ(t, "the refused revert", snapshot(t, b.Base), after)
	if err := os.RemoveAll(filepath.Join(b.Layer(), "newdir")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revert(b); err != nil {
		t.Fatal(err)
	}
	differ(t, "the base", snapshot(t, b.Base), before)
	now := snapshot(t, b.Layer())
	if now["deep/later"] == "" || now["edit"] != layer["edit"] || now["tree"] != layer["tree"] || now["dir/gone"] != layer["dir/gone"] {
		t.Errorf("the layer is %v, want %v", now, layer)
	}
}

// resume completes what a killed process began, as the next user of the branch does.
func resume(t *testing.T, s *Store, b *Branch) {
	t.Helper()
	release, err := s.exclusive(b)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// TestConflicts tries each pair of changes of the same path in the branch and in the base.
func TestConflicts(t *testing.T) {
	ops := map[string]func(dir string) error{
		"write":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("written "+dir), 0o644) },
		"chmod":  func(dir string) error { return os.Chmod(filepath.Join(dir, "f"), 0o600) },
		"delete": func(dir string) error { return os.Remove(filepath.Join(dir, "f")) },
		"mkdir": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "f")), os.Mkdir(filepath.Join(dir, "f"), 0o755), os.WriteFile(filepath.Join(dir, "f", "x"), []byte(dir), 0o644))
		},
		"link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "f")), os.Symlink(dir, filepath.Join(dir, "f")))
		},
		"rename": func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "t"), []byte("renamed "+dir), 0o644), os.Rename(filepath.Join(dir, "t"), filepath.Join(dir, "f")))
		},
	}
	for ours, mine := range ops {
		for other, theirs := range ops {
			t.Run(ours+"/"+other, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				base := filepath.Join(dir, "base")
				files(t, base, map[string]string{"f": "x", "other": "o"})
				s := &Store{Dir: filepath.Join(dir, "store")}
				b, err := s.Make("", base, "b")
				if err != nil {
					t.Fatal(err)
				}
				// A copy with the mark of the overlay, as the kernel makes it.
				files(t, b.Layer(), map[string]string{"f": "x"})
				if err := unix.Setxattr(filepath.Join(b.Layer(), "f"), originMark, nil, 0); err != nil {
					t.Fatal(err)
				}
				if err := mine(b.Layer()); err != nil {
					t.Fatal(err)
				}
				if ours == "delete" {
					whiteout(t, filepath.Join(b.Layer(), "f"))
				}
				if err := theirs(base); err != nil {
					t.Fatal(err)
				}
				before := snapshot(t, base)
				_, err = s.Apply(b, Selection{})
				var conflict *ConflictError
				equal := ours == other && (ours == "delete" || ours == "chmod")
				// A new file in place of one that was deleted outside has no mark of where it came from.
				created := other == "delete" && ours != "write" && ours != "chmod" && ours != "delete"
				switch {
				case equal || created:
					if err != nil {
						t.Fatal(err)
					}
				case !errors.As(err, &conflict):
					t.Fatalf("no conflict, but %v", err)
				default:
					differ(t, "after a conflict", snapshot(t, base), before)
				}
			})
		}
	}
}

// TestNothingIsLost checks what an apply does not know: a change of the base between the search for conflicts and the
// exchange.
func TestNothingIsLost(t *testing.T) {
	for name, change := range map[string]func(base string) error{
		"edited":  func(base string) error { return os.WriteFile(filepath.Join(base, "mode"), []byte("somebody"), 0o644) },
		"created": func(base string) error { return os.WriteFile(filepath.Join(base, "new"), []byte("somebody"), 0o644) },
		"in a directory": func(base string) error {
			return os.WriteFile(filepath.Join(base, "tree", "b", "c"), []byte("somebody"), 0o644)
		},
		"link in place of a directory": func(base string) error {
			return errors.Join(os.Rename(filepath.Join(base, "deep"), filepath.Join(base, "moved")), os.Symlink("moved", filepath.Join(base, "deep")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b, _, _ := begun(t)
			layer := snapshot(t, b.Layer())
			var before map[string]string
			_, err := s.Apply(b, Selection{Before: func() error {
				time.Sleep(10 * time.Millisecond)
				err := change(b.Base)
				before = snapshot(t, b.Base)
				return err
			}})
			if err == nil || !strings.Contains(err.Error(), "nothing was applied") {
				t.Fatalf("the apply returned %v", err)
			}
			differ(t, "the base", snapshot(t, b.Base), before)
			differ(t, "the layer", snapshot(t, b.Layer()), layer)
			// The next apply knows that the workspace has a change of its own.
			var conflict *ConflictError
			if _, err := s.Apply(b, Selection{}); name != "link in place of a directory" && !errors.As(err, &conflict) {
				t.Errorf("the second apply returned %v", err)
			}
		})
	}
}

// TestSameIndex compares indexes that git itself wrote.
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
	files(t, dir, map[string]string{"a": "1", "some longer name": "2", "dir/b": "3"})
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "x")
	first := index("first")
	if err := os.Chtimes(filepath.Join(dir, "a"), time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	git("status")
	refreshed := index("refreshed")
	files(t, dir, map[string]string{"a": "other"})
	git("add", "a")
	changed := index("changed")
	if equal, _ := sameContent(first, refreshed); equal {
		t.Error("git did not refresh the index, so the test shows nothing")
	}
	if !sameIndex(first, refreshed) {
		t.Error("a refreshed index counts as another")
	}
	if sameIndex(first, changed) || sameIndex(first, filepath.Join(dir, "a")) {
		t.Error("an index with another entry counts as the same")
	}
}
