package branch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

func init() { systemRoles["mounts"] = makeBesideMount }

// makeBesideMount makes a branch of a base that is a mount of its own, in a mount namespace of its own.
func makeBesideMount(s *Store, base string) int {
	err := unix.Mount(base, base, "", unix.MS_BIND, "")
	if err == nil {
		_, err = s.Make("", base, "b", Backend{Copy: os.Getenv("TOOLHOST_TEST_COPY") != ""})
	}
	if err == nil {
		_, err = s.Probe("", base, Backend{Copy: true})
	}
	if err != nil {
		fmt.Println(err)
	}
	return 0
}

// TestLockBesideStarts checks that a branch can be locked and unlocked while this process starts other programs.
// Between fork and exec, each program has a copy of the open lock file.
func TestLockBesideStarts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{lockFile: "", recordFile: `{"name":"b"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("true").Run()
				}
			}
		})
	}
	defer starts.Wait()
	defer close(done)
	for range 300 {
		held, err := (&Branch{dir: dir, Name: "b"}).lock()
		if err != nil {
			t.Fatal(err)
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReleaseWaitsForCheckpoints checks that a branch is not released for another process while a checkpoint or a
// restore of it runs. No call uses the branch meanwhile, because a person can request both from another process.
func TestReleaseWaitsForCheckpoints(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	b, err := s.Make("", t.TempDir(), "b", Backend{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	m := &Mounts{Store: s}
	defer m.Close()
	_, unused, err := m.Acquire(b, "s")
	if err != nil {
		t.Fatal(err)
	}
	unused()
	_, done, err := m.hold(b.ID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if m.Release(b.ID()) || m.ReleaseFor(b.ID(), 1) {
		t.Error("the branch was released during a checkpoint")
	}
	if _, err := s.Checkpoint(b, "", CheckpointRules{}); !strings.Contains(fmt.Sprint(err), "in use") {
		t.Errorf("another process can use the branch: %v", err)
	}
	done()
	if !m.Release(b.ID()) {
		t.Error("the branch is not released after the checkpoint")
	}
}

// TestClosedDirectories checks branches in which a command has removed the owner's access to directories. Checkpoint,
// undo, diff, preview, apply and revert must work, and lose nothing. Root can enter all directories, so root runs the
// test again as another user.
func TestClosedDirectories(t *testing.T) {
	if os.Geteuid() == 0 {
		dir, err := os.MkdirTemp("/tmp", "toolhost-closed-") // another user cannot reach the directory of the test
		if err != nil {
			t.Fatal(err)
		}
		defer filetree.RemoveAll(dir)
		if err := errors.Join(os.Chown(dir, 1000, 1000), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("/proc/self/exe", "-test.run", "^TestClosedDirectories$", "-test.v")
		c.Dir, c.Env = dir, append(os.Environ(), "TMPDIR="+dir)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for _, how := range []Backend{{}, {Copy: true}} {
		t.Run(fmt.Sprintf("copy %t", how.Copy), func(t *testing.T) {
			closedDirectories(t, how, "d", "d/e", "new", "new/deep")
			closedDirectories(t, how, "d", "d/e")
		})
	}
}

// closedDirectories is the test with some of the directories d, d/e, new and new/deep closed.
func closedDirectories(t *testing.T, how Backend, closed ...string) {
	base := filepath.Join(t.TempDir(), "base")
	files(t, base, map[string]string{"d/f": "old", "d/e/g": "old", "k": "k"})
	s := &Store{Dir: t.TempDir()}
	b, err := s.Make("", base, "b", how)
	if err != nil {
		t.Fatal(err)
	}
	rules := CheckpointRules{SkipIgnored: true}
	files(t, b.saved(), map[string]string{"d/e/g": "new", "new/deep/f": "n"})
	// inside returns the tree without the modes, which it makes readable meanwhile.
	inside := func(top string) (all map[string]string) {
		t.Helper()
		for _, dir := range closed {
			defer filetree.PermitPath(filepath.Join(top, dir), 0o700)()
		}
		all = snapshot(t, top)
		for path, text := range all {
			_, all[path], _ = strings.Cut(text, " ")
		}
		return all
	}
	shut := func(mode os.FileMode) {
		t.Helper()
		for i := range closed {
			if mode == 0 {
				i = len(closed) - 1 - i // the deepest first
			}
			if err := os.Chmod(filepath.Join(b.saved(), closed[i]), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { _ = filetree.RemoveAll(base); _ = filetree.RemoveAll(s.Dir) })
	before := inside(base)
	shut(0)
	want := inside(b.saved())
	if _, err := s.Checkpoint(b, "", rules); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Preview("", base, PreviewPrefix+"1", b, false, how); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	changes, err := b.Changes()
	if err = errors.Join(err, b.Diff(&text, changes)); err != nil || !strings.Contains(text.String(), "file new/deep/f") || !strings.Contains(text.String(), "directory d/e (mode 0000, was 0755)") {
		t.Errorf("the diff is %s (%v)", text.String(), err)
	}
	shut(0o700)
	files(t, b.saved(), map[string]string{"new/deep/f": "later", "d/f": "later", "d/e/h": "later"})
	shut(0)
	if _, err := s.Undo(b, 1, rules); err != nil {
		t.Fatal(err)
	}
	differ(t, "undone", inside(b.saved()), want)
	if _, err := s.Apply(b, Selection{}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range closed {
		info, err := os.Lstat(filepath.Join(base, dir))
		if err != nil || info.Mode().Perm() != 0 {
			t.Errorf("%s has the mode %v (%v), want 0", dir, info.Mode(), err)
		}
		defer filetree.PermitPath(filepath.Join(base, dir), 0o700)()
	}
	after := snapshot(t, base)
	for _, path := range []string{"d/e/g", "new/deep/f"} {
		if _, text, _ := strings.Cut(after[path], " "); text != want[path] {
			t.Errorf("applied: %s has %q, want %q", path, text, want[path])
		}
	}
	if slices.Contains(closed, "new") {
		return // a revert refuses new directories that it cannot read, because they can have other changes
	}
	if _, err := s.Revert(b); err != nil {
		t.Fatal(err)
	}
	differ(t, "reverted", inside(base), before)
}

// TestNewBelowDirectory checks that a directory which the branch deletes or replaces is a conflict, if the workspace
// got a new file anywhere in it. Without a decision, the file would be lost.
func TestNewBelowDirectory(t *testing.T) {
	for _, how := range []Backend{{}, {Copy: true}} {
		t.Run(fmt.Sprintf("copy %t", how.Copy), func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			files(t, base, map[string]string{"gone/deep/a": "1", "over/deep/a": "1", "quiet/a": "1"})
			s := &Store{Dir: t.TempDir()}
			b, err := s.Make("", base, "b", how)
			if err != nil {
				t.Fatal(err)
			}
			if how.Copy {
				for _, name := range []string{"gone", "over", "quiet"} {
					if err := os.RemoveAll(filepath.Join(b.Tree(), name)); err != nil {
						t.Fatal(err)
					}
				}
				files(t, b.Tree(), map[string]string{"over/mine": "m"})
			} else {
				whiteout(t, filepath.Join(b.Layer(), "gone"))
				whiteout(t, filepath.Join(b.Layer(), "quiet"))
				files(t, b.Layer(), map[string]string{"over/mine": "m"})
				if err := unix.Setxattr(filepath.Join(b.Layer(), "over"), filetree.OpaqueMark, []byte("y"), 0); err != nil {
					t.Fatal(err)
				}
			}
			files(t, base, map[string]string{"gone/deep/new": "theirs", "over/deep/new": "theirs"})
			before := snapshot(t, base)
			_, err = s.Apply(b, Selection{})
			conflict := (*ConflictError)(nil)
			if !errors.As(err, &conflict) {
				t.Fatalf("the apply: %v", err)
			}
			var all []string
			for _, c := range conflict.Conflicts {
				all = append(all, c.Path+": "+c.Conflict)
			}
			wants := map[string]string{"gone": "deletes", "over": "replaces"}
			if how.Copy { // a copy does not show that a directory was replaced, so it compares what is in the directory
				wants = map[string]string{"gone": "deletes", "over/deep": "deletes"}
			}
			for name, verb := range wants {
				want := name + ": the branch " + verb + " the directory, and the workspace changed "
				if !slices.ContainsFunc(all, func(text string) bool { return strings.HasPrefix(text, want) }) {
					t.Errorf("the conflicts are %q, want %q", all, want)
				}
			}
			if len(all) != 2 {
				t.Errorf("the conflicts are %q, want two", all)
			}
			differ(t, "refused", snapshot(t, base), before)
			if _, err := s.Apply(b, Selection{Theirs: []string{"gone"}, Ours: []string{"over"}}); err != nil {
				t.Fatal(err)
			}
			now := snapshot(t, base)
			if now["gone/deep/new"] != before["gone/deep/new"] || now["over/deep/new"] != "" || now["over/mine"] == "" || now["quiet"] != "" {
				t.Errorf("after the decision, the workspace has %v", now)
			}
			if _, err := s.Revert(b); err != nil {
				t.Fatal(err)
			}
			differ(t, "reverted", snapshot(t, base), before)
		})
	}
}

// TestSecondApplyIsToldWho checks that an apply is refused while another process applies a branch of the same
// workspace, and that the error names the process.
func TestSecondApplyIsToldWho(t *testing.T) {
	s, b, _, before := begun(t)
	held, err := s.lockBase(b.Base)
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Make("", b.Base, "other", Backend{})
	if err != nil {
		t.Fatal(err)
	}
	c := childFor(s, b.Base, "apply")
	out, err := c.CombinedOutput()
	want := fmt.Sprintf("the process %d applies or reverts a branch in %s right now", os.Getpid(), b.Base)
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("the apply of another process: %v\n%s, want %q", err, out, want)
	}
	differ(t, "refused", snapshot(t, b.Base), before)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Branch{b, other} {
		if _, err := s.Apply(b, Selection{}); err != nil {
			t.Error(err)
		}
	}
}
