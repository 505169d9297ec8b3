package branch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/branch/checkpoint"
	"toolhost.dev/branch/internal/filetree"
)

// TestDiscardCompletesApply kills an apply at each step and then discards the branch. The branch's directory contains
// files of the base that the apply displaced. Therefore the discard must complete the apply first.
func TestDiscardCompletesApply(t *testing.T) {
	completed := 0
	for step, done := 1, false; !done; step++ {
		s, b, after, before := begun(t)
		if done = !killAtStep(t, s, b.Base, "apply", step); done {
			break
		}
		if err := s.Discard(b); err != nil {
			t.Fatalf("killed at step %d: %v", step, err)
		}
		if now := snapshot(t, b.Base); !maps.Equal(now, before) {
			differ(t, "the base after the discard", now, after)
			completed++
		}
	}
	if completed < 5 {
		t.Errorf("only %d applies were completed, so this test shows nothing", completed)
	}
}

// TestChangeAfterKilledRevert kills a revert at each step and then changes a file of the base. After another process
// has completed the revert, an apply must not overwrite this change without a conflict.
func TestChangeAfterKilledRevert(t *testing.T) {
	for step, done := 1, false; !done; step++ {
		s, b, _, _ := begun(t)
		if _, err := s.Apply(b, Selection{}); err != nil {
			t.Fatal(err)
		}
		if done = !killAtStep(t, s, b.Base, "revert", step); done && step < 10 {
			t.Fatalf("the revert has only %d steps", step)
		}
		edit := filepath.Join(b.Base, "edit")
		if err := errors.Join(os.WriteFile(edit+".new", []byte("of the workspace"), 0o600), os.Rename(edit+".new", edit)); err != nil {
			t.Fatal(err)
		}
		resume(t, s, b)
		_, err := s.Apply(b, Selection{})
		if text, _ := os.ReadFile(edit); string(text) != "of the workspace" {
			t.Errorf("killed at step %d of the revert: the apply returned %v, and the file is %q", step, err, text)
		}
	}
}

// TestDiscardWithoutBase checks that a branch is not discarded if it has an interrupted apply that cannot be completed.
func TestDiscardWithoutBase(t *testing.T) {
	s, b, _, _ := begun(t)
	if !killAtStep(t, s, b.Base, "apply", 8) {
		t.Fatal("the apply was not killed")
	}
	if err := os.Rename(b.Base, b.Base+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := s.Discard(b); err == nil || !strings.Contains(err.Error(), b.Base) {
		t.Errorf("the discard returned %v", err)
	}
	if _, err := s.Find("", b.Base, b.Name); err != nil {
		t.Error(err)
	}
}

// TestCheckpointCompletesApply kills an apply at each step and then makes a checkpoint. The checkpoint must not contain
// the base files that the apply displaced.
func TestCheckpointCompletesApply(t *testing.T) {
	for step, done := 1, false; !done; step++ {
		s, b, after, _ := begun(t)
		if done = !killAtStep(t, s, b.Base, "apply", step); done {
			break
		}
		c, err := s.Checkpoint(b, "", CheckpointRules{})
		if err != nil {
			t.Fatalf("killed at step %d: %v", step, err)
		}
		if step > 3 && c.Files > 0 {
			differ(t, "the base", snapshot(t, b.Base), after)
			t.Fatalf("killed at step %d: the checkpoint has %d files", step, c.Files)
		}
	}
}

// TestLockOfNewBranch waits for the lock of a branch while another user discards the branch and makes it again. The
// waiting call must get the lock of the new branch.
func TestLockOfNewBranch(t *testing.T) {
	s, b, _, _ := begun(t)
	held, err := b.lock()
	if err != nil {
		t.Fatal(err)
	}
	waiting := *b
	locked := make(chan *os.File)
	go func() {
		f, err := waiting.lock()
		if err != nil {
			t.Error(err)
		}
		locked <- f
	}()
	time.Sleep(forkTime / 4) // until the goroutine waits for the lock
	if err := s.drop(b); err != nil {
		t.Fatal(err)
	}
	fresh, err := s.Make("", b.Base, b.Name, Backend{})
	if err != nil {
		t.Fatal(err)
	}
	_ = held.Close()
	f := <-locked
	defer f.Close()
	if again, err := fresh.lock(); err == nil {
		_ = again.Close()
		t.Error("two users have the lock of one branch")
	}
}

// hide makes a file unreadable for everybody, root included. The returned function makes it readable again.
func hide(t *testing.T, path string) (restore func()) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+".away"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(os.Remove(path), os.Rename(path+".away", path)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnreadableRecordIsNoOrphan checks that Clean removes nothing of a branch whose record temporarily cannot be read.
func TestUnreadableRecordIsNoOrphan(t *testing.T) {
	for name, how := range map[string]Backend{"overlay": {}, "copy": {Copy: true}} {
		t.Run(name, func(t *testing.T) {
			s, begun, _, _ := begun(t)
			b, err := s.Make("", begun.Base, "other", how)
			if err != nil {
				t.Fatal(err)
			}
			files(t, b.Tree(), map[string]string{"new": "x"})
			if how.Copy {
				files(t, b.Tree(), map[string]string{"new": "x"})
			} else if _, err := s.Checkpoint(b, "", CheckpointRules{}); err != nil {
				t.Fatal(err)
			}
			restore := hide(t, filepath.Join(b.dir, recordFile))
			old := time.Now().Add(-48 * time.Hour)
			if err := os.Chtimes(b.dir, old, old); err != nil {
				t.Fatal(err)
			}
			if err := s.Clean(0); err == nil {
				t.Error("Clean does not report a record that it cannot read")
			}
			restore()
			if _, err := s.Find("", b.Base, b.Name); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUnreadableCheckpoint checks that no new checkpoint is made while the last one cannot be read. Otherwise the new
// checkpoint would replace it.
func TestUnreadableCheckpoint(t *testing.T) {
	s, b, _, _ := begun(t)
	for _, call := range []string{"one", "two"} {
		files(t, b.Layer(), map[string]string{"edit": call})
		if err := s.Before(b, "s", call, "", CheckpointRules{}); err != nil {
			t.Fatal(err)
		}
	}
	want := snapshot(t, b.Layer())
	restore := hide(t, filepath.Join(b.dir, checkpoint.Dir, "2", "checkpoint.json"))
	files(t, b.Layer(), map[string]string{"edit": "three"})
	if err := s.Before(b, "s", "three", "", CheckpointRules{}); err == nil {
		t.Error("a checkpoint was made although the last one cannot be read")
	}
	restore()
	if _, err := s.Restore(b, 2, CheckpointRules{}); err != nil {
		t.Fatal(err)
	}
	differ(t, "the layer", snapshot(t, b.Layer()), want)
}

// TestUnreadableProgress makes the progress record of an apply unreadable, so that nobody knows which changes were
// applied. The branch must not be usable until the record can be read, and no change may be applied a second time.
func TestUnreadableProgress(t *testing.T) {
	s, b, _, before := begun(t)
	for _, do := range []func(*Branch) error{
		func(b *Branch) error { _, err := s.Apply(b, Selection{}); return err },
		func(b *Branch) error { _, err := s.Revert(b); return err },
	} {
		if err := do(b); err != nil {
			t.Fatal(err)
		}
	}
	restore := hide(t, filepath.Join(b.dir, appliedDir, "1", "progress.json"))
	if release, err := s.exclusive(b); err == nil {
		release()
		t.Error("the branch is used although its journal cannot be read")
	}
	differ(t, "the base", snapshot(t, b.Base), before)
	restore()
	resume(t, s, b)
	differ(t, "the base", snapshot(t, b.Base), before)
}

// TestApplyIsAsShown checks that an apply is refused if a change or its file in the workspace differs from what a
// person was shown. Changes of other files in the workspace must not matter.
func TestApplyIsAsShown(t *testing.T) {
	for name, other := range map[string]func(b *Branch) string{
		"nothing":       func(*Branch) string { return "" },
		"the branch":    func(b *Branch) string { return filepath.Join(b.Layer(), "newdir", "a", "b") },
		"the workspace": func(b *Branch) string { return filepath.Join(b.Base, "edit") },
		"another file":  func(b *Branch) string { return filepath.Join(b.Base, "same") },
	} {
		t.Run(name, func(t *testing.T) {
			s, b, after, _ := begun(t)
			shown, err := b.Review()
			if err != nil {
				t.Fatal(err)
			}
			path := other(b)
			if path != "" {
				if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			base := snapshot(t, b.Base)
			_, err = s.Apply(b, Selection{Shown: shown})
			switch now := snapshot(t, b.Base); name {
			case "nothing":
				differ(t, "applied", now, after)
			case "another file":
				if err != nil {
					t.Error(err)
				}
			default:
				if differ(t, "the base", now, base); !errors.Is(err, ErrNotAsShown) {
					t.Errorf("the apply returned %v", err)
				}
			}
		})
	}
}

// TestTooManyOpenFiles makes an apply, a revert and an undo with limits of few open files. A file that cannot be opened
// must not count as missing. Each tree must be either as before or as after the operation.
func TestTooManyOpenFiles(t *testing.T) {
	for _, role := range []string{"apply", "revert", "undo"} {
		failed := 0
		for limit := 4; limit <= 24; limit++ {
			s, b, after, before := begun(t)
			layer := snapshot(t, b.Layer())
			switch role {
			case "revert":
				if _, err := s.Apply(b, Selection{}); err != nil {
					t.Fatal(err)
				}
			case "undo":
				if err := s.Before(b, "s", "first", "one", CheckpointRules{}); err != nil {
					t.Fatal(err)
				}
				changeLayer(t, b)
				after, before = snapshot(t, b.Layer()), layer
			}
			c := childFor(s, b.Base, role)
			c.Env = append(c.Env, fmt.Sprintf("TOOLHOST_TEST_FILES=%d", limit))
			out, err := c.CombinedOutput()
			if err != nil && !strings.Contains(string(out), "too many open files") {
				continue // the process could not even start
			}
			if err != nil {
				failed++
			}
			resume(t, s, b)
			what := b.Base
			if role == "undo" {
				what = b.Layer()
			}
			now := snapshot(t, what)
			switch {
			case maps.Equal(now, before):
			case role == "undo" || err == nil:
				differ(t, fmt.Sprintf("%s with %d files (%v)", role, limit, err), now, after)
			default:
				differ(t, fmt.Sprintf("%s with %d files failed (%v)\n%s", role, limit, err, out), now, after)
			}
		}
		if failed < 3 {
			t.Errorf("%s failed %d times, so this test shows nothing", role, failed)
		}
	}
}

// TestRootKeepsAttributes checks branches and copies of a workspace with setgid, sticky bit, attributes and an access
// list. A new branch has no changes, an apply keeps the attributes, and a revert restores those of directories in the
// layer.
func TestRootKeepsAttributes(t *testing.T) {
	for _, how := range []Backend{{}, {Copy: true}} {
		t.Run(fmt.Sprintf("copy %t", how.Copy), func(t *testing.T) {
			dir := t.TempDir()
			base := filepath.Join(dir, "base")
			files(t, base, map[string]string{"d/e/f": "old", "g": "old"})
			for _, at := range []string{base, filepath.Join(base, "d"), filepath.Join(base, "d/e")} {
				decorate(t, at)
			}
			before := snapshot(t, base)
			s := &Store{Dir: filepath.Join(dir, "store")}
			b, err := s.Make("", base, "b", how)
			if err != nil {
				t.Fatal(err)
			}
			if changes, err := b.Changes(); err != nil || len(changes) > 0 {
				t.Fatalf("a new branch changes %v (%v)", changes, err)
			}
			files(t, b.saved(), map[string]string{"d/e/f": "new", "d/new": "n"})
			if !how.Copy {
				copyUp(t, b, "d", "d/e")
			}
			layer := func() map[string]string {
				if err := b.work.Gather(); err != nil {
					t.Fatal(err)
				}
				return snapshot(t, b.Layer())
			}
			changed := layer()
			for _, paths := range [][]string{{"d/e"}, {"d/e", "d/new"}, nil} {
				if _, err := s.Apply(b, Selection{Paths: paths}); err != nil {
					t.Fatal(err)
				}
				for _, at := range []string{".", "d", "d/e"} {
					if now := snapshot(t, base)[at]; now != before[at] {
						t.Errorf("after the apply of %q, %s is %q, want %q", paths, at, now, before[at])
					}
				}
				if changes, err := b.Changes(); paths == nil && (err != nil || len(changes) > 0) {
					t.Errorf("an applied branch changes %v (%v)", changes, err)
				}
				if _, err := s.Revert(b); err != nil {
					t.Fatal(err)
				}
				differ(t, "reverted", snapshot(t, base), before)
				differ(t, "the layer after a revert", layer(), changed)
			}
		})
	}
}

// decorate sets the sticky bit, setgid and an attribute of a directory and, if the file system has them, an access list
// and a default access list.
func decorate(t *testing.T, dir string) {
	t.Helper()
	// The version, and then entries of a tag, the rights and an id: the owner, the user 12345, the group, the mask,
	// others.
	acl := []byte{2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 7, 0, 0x39, 0x30, 0, 0, 4, 0, 5, 0, 255, 255, 255, 255, 16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 5, 0, 255, 255, 255, 255}
	if err := errors.Join(unix.Chmod(dir, 0o3775), unix.Setxattr(dir, "user.kind", []byte("x"), 0)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		if err := unix.Setxattr(dir, name, acl, 0); err != nil {
			t.Logf("%s is not tested: %v", name, err)
		}
	}
}

// copyUp makes directories of the layer as the kernel makes them when it copies them from the base.
func copyUp(t *testing.T, b *Branch, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		var st unix.Stat_t
		if err := errors.Join(unix.Stat(filepath.Join(b.Base, dir), &st), filetree.Like(filepath.Join(b.Layer(), dir), filepath.Join(b.Base, dir), &st)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnsuitablePlaces checks that no branch begins whose layer could not be applied: the state directory is in the
// workspace, on another file system, or in another mount of the same file system.
func TestUnsuitablePlaces(t *testing.T) {
	base := t.TempDir()
	refused := func(s *Store, want string) {
		t.Helper()
		for _, how := range []Backend{{}, {Copy: true}} {
			var place *PlaceError
			if _, err := s.Make("", base, "b", how); !errors.As(err, &place) || !strings.Contains(err.Error(), want) {
				t.Errorf("making a branch: %v, want %q", err, want)
			}
			if _, err := s.Probe("", base, how); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("probing: %v, want %q", err, want)
			}
		}
		if left, err := s.List(); err != nil || len(left) > 0 {
			t.Errorf("%d branches are left (%v)", len(left), err)
		}
	}
	refused(&Store{Dir: filepath.Join(base, "state", "branches")}, "is in the workspace")
	if other, err := os.MkdirTemp("/dev/shm", "toolhost-branch-"); err != nil {
		need.Missing(t, "/dev/shm cannot be used: "+err.Error())
	} else {
		defer os.RemoveAll(other)
		refused(&Store{Dir: other}, "are on different file systems")
	}
	if out, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		need.Missing(t, fmt.Sprintf("no mount namespace can be made: %v: %s", err, out))
	}
	for _, kind := range []string{"", "copy"} {
		s := &Store{Dir: t.TempDir()}
		c := childFor(s, base, "mounts")
		c.Path, c.Args = "/usr/bin/env", []string{"env", "unshare", "-rm", c.Path}
		c.Env = append(c.Env, "TOOLHOST_TEST_COPY="+kind)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "two mounts of the same file system") || !strings.Contains(string(out), "use a directory in the mount of the workspace") {
			t.Errorf("a branch of the kind %q beside another mount: %v\n%s", kind, err, out)
		}
	}
}
