package branch

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init() // for the example and the tests of Run
	switch os.Getenv("TOOLHOST_TEST_ROLE") {
	case "apply", "revert", "checkpoint", "undo", "preview", "rewrite", "mounts":
		os.Exit(child())
	}
	if err := mountable(); err != nil && os.Getenv("CI") != "true" {
		fmt.Fprintln(os.Stderr, "the examples are left out, because this machine cannot mount branches:", err)
		_ = flag.Set("test.skip", "^Example")
	}
	os.Exit(m.Run())
}

// mountable returns the reason why this machine cannot mount branches of temporary directories, or nil.
func mountable() error {
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m := Open(filepath.Join(dir, "state"))
	launcher, err := m.Launcher()
	if err == nil {
		work := filepath.Join(dir, "work")
		err = os.Mkdir(work, 0o700)
		if err == nil {
			_, err = m.Store.Probe(launcher, work, Backend{})
		}
	}
	return err
}

// child applies or reverts a branch, or performs another step of a test, in a process that the test kills.
func child() int {
	s := &Store{Dir: os.Getenv("TOOLHOST_TEST_STORE")}
	limit, _ := strconv.ParseUint(os.Getenv("TOOLHOST_TEST_FILES"), 10, 64)
	if limit > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if run := systemRoles[os.Getenv("TOOLHOST_TEST_ROLE")]; run != nil {
		return run(s, os.Getenv("TOOLHOST_TEST_BASE"))
	}
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
			_, err = s.Undo(b, 1, CheckpointRules{})
		case "preview":
			_, err = s.Preview("", b.Base, PreviewPrefix+"1", b, true, Backend{})
		case "rewrite":
			err = rewriteTo(b, os.Getenv("TOOLHOST_TEST_VIEW"), 1)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// systemRoles contains the roles of a child that only some systems have.
var systemRoles = make(map[string]func(s *Store, base string) int)

// childFor returns a command that runs this program with the function "child". The role selects the task of the child.
func childFor(s *Store, base, role string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "TOOLHOST_TEST_ROLE="+role, "TOOLHOST_TEST_STORE="+s.Dir, "TOOLHOST_TEST_BASE="+base)
	return c
}

// killAtStep runs a child whose process is killed at the given step. It returns false if the child ended before this
// step.
func killAtStep(t *testing.T, s *Store, base, role string, step int) bool {
	t.Helper()
	c := childFor(s, base, role)
	c.Env = append(c.Env, fmt.Sprintf("TOOLHOST_TEST_KILL_AT=%d", step))
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

// snapshot returns a description of each file in a tree: its type, mode, link target, content and attributes.
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
		text := fmt.Sprintf("%o %v", st.Mode, filetree.Attributes(path))
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

// files creates files with the given contents. A name with a final slash becomes a directory, and the content "->
// target" makes a symbolic link.
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

// begun returns a store and a branch with every kind of change. It also returns snapshots of the base as it must be
// after an apply, and as it is before the apply.
func begun(t *testing.T) (s *Store, b *Branch, after, before map[string]string) {
	t.Helper()
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	files(t, base, map[string]string{
		"same": "s", "edit": "old", "gone": "g", "link": "-> same", "dir/gone": "x", "dir/kept": "k", "tree/a": "1", "tree/b/c": "2", "turn": "file", "turned/x": "dir", "mode": "m", "deep/a/b/f": "f",
	})
	s = &Store{Dir: filepath.Join(dir, "store")}
	b, err := s.Make("", base, "b", Backend{})
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
	// The branch replaces the whole directory.
	files(t, b.Layer(), map[string]string{"tree/a": "other"})
	if err := errors.Join(unix.Setxattr(filepath.Join(b.Layer(), "tree"), filetree.OpaqueMark, []byte("y"), 0), os.RemoveAll(filepath.Join(want, "tree"))); err != nil {
		t.Fatal(err)
	}
	files(t, want, map[string]string{"tree/a": "other"})
	return s, b, snapshot(t, want), before
}

// TestKilledAtEveryStep kills a process at each step of an apply, and of the revert after it. The next process must
// complete the operation, and nothing of the base may be lost.
func TestKilledAtEveryStep(t *testing.T) {
	t.Run("all changes", func(t *testing.T) { killAtEveryStep(t, func(*Branch) {}) })
	t.Run("some changes", func(t *testing.T) {
		killAtEveryStep(t, func(b *Branch) {
			if err := unix.Mkfifo(filepath.Join(b.Layer(), "pipe"), 0o600); err != nil { // a named pipe is never applied
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
		if step%4 != 0 && !done { // with a finished apply, the loop below tests all steps of the revert
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

// TestRevertIntoNewChanges reverts an apply after the branch got new changes. A revert must be refused while a new
// change has the same path as an applied one.
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

// TestRevertIntoNewChangesIsKilled kills a process at each step of a revert of a branch with new changes. The next
// process must complete the revert, and the branch must have its old and its new changes.
func TestRevertIntoNewChangesIsKilled(t *testing.T) {
	for step, done := 1, false; !done; step++ {
		s, b, _, before := begun(t)
		if _, err := s.Apply(b, Selection{}); err != nil {
			t.Fatal(err)
		}
		files(t, b.Layer(), map[string]string{"deep/later": "l"})
		if done = !killAtStep(t, s, b.Base, "revert", step); !done {
			resume(t, s, b)
		}
		differ(t, fmt.Sprintf("killed at step %d of the revert", step), snapshot(t, b.Base), before)
		now := snapshot(t, b.Layer())
		for _, path := range []string{"deep/later", "deep/a/b/f", "edit", "new", "newdir/a/b", "gone", "dir/gone", "link", "turn/now", "turned", "tree/a", "mode"} {
			if now[path] == "" {
				t.Errorf("killed at step %d of the revert: the branch has lost %s", step, path)
			}
		}
		if step > 500 {
			t.Fatal("the revert does not end")
		}
	}
}

// TestKilledPreview kills a process at each step of making the preview of a branch that nobody has confirmed. What
// remains must not be a branch that can be applied to the workspace.
func TestKilledPreview(t *testing.T) {
	for _, how := range []Backend{{}, {Copy: true}} {
		s, b, _, before := begun(t)
		if how.Copy {
			s, b = copied(t, map[string]string{"a": "1"})
			before = snapshot(t, b.Base)
			files(t, b.Tree(), map[string]string{"a": "2"})
		}
		b.Unasked = true
		if err := b.save(); err != nil {
			t.Fatal(err)
		}
		step := 1
		for ; killAtStep(t, s, b.Base, "preview", step); step++ {
			all, err := s.List()
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range all {
				if _, err := s.Apply(found, Selection{}); err == nil {
					t.Errorf("copy %t, killed at step %d: %s was applied", how.Copy, step, found.Name)
				}
				if found.IsPreview() {
					if err := s.Discard(found); err != nil {
						t.Fatal(err)
					}
				}
			}
			differ(t, "not applied", snapshot(t, b.Base), before)
		}
		p, err := s.Find("", b.Base, PreviewPrefix+"1")
		if err != nil || !p.Held || p.Of != "b" || step == 1 {
			t.Errorf("copy %t: after %d kills, the preview is %+v (%v)", how.Copy, step-1, p, err)
		}
	}
}

// resume completes the operation of a killed process, as the next use of the branch does.
func resume(t *testing.T, s *Store, b *Branch) {
	t.Helper()
	release, err := s.exclusive(b)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// TestConflicts makes each pair of changes to the same path, one in the branch and one in the base. The apply must
// report a conflict unless the changes agree, and a conflict must not change the base.
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
				b, err := s.Make("", base, "b", Backend{})
				if err != nil {
					t.Fatal(err)
				}
				// Create a copied file with the overlay's mark, as the kernel does when a process changes a file.
				files(t, b.Layer(), map[string]string{"f": "x"})
				if err := unix.Setxattr(filepath.Join(b.Layer(), "f"), filetree.OriginMark, nil, 0); err != nil {
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
				// If the base file was deleted, a new file at its path is no conflict, because the new file has no mark
				// of an overlaid file.
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

// TestNothingIsLost changes the base between an apply's search for conflicts and its exchange of files. The apply must
// be refused and must not change anything.
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
			// The next apply must report the change of the workspace as a conflict.
			var conflict *ConflictError
			if _, err := s.Apply(b, Selection{}); name != "link in place of a directory" && !errors.As(err, &conflict) {
				t.Errorf("the second apply returned %v", err)
			}
		})
	}
}

// rewriteTo goes back to a checkpoint of a branch that is mounted at a path, as a host does.
func rewriteTo(b *Branch, at string, number int) error {
	r, _, err := b.beginRestore(number, true, CheckpointRules{})
	if err != nil {
		return err
	}
	return errors.Join(b.saves().Rewrite(at, r), b.saves().End(r))
}
