package branch

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// copied makes a workspace with the given files, and a branch that is a copy of the workspace.
func copied(t *testing.T, content map[string]string) (s *Store, b *Branch) {
	t.Helper()
	s = &Store{Dir: filepath.Join(t.TempDir(), "branches")}
	base := filepath.Join(t.TempDir(), "ws")
	files(t, base, content)
	b, err := s.Make("", base, "b", Backend{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

// operations returns a script of random operations on files.
func operations(r *rand.Rand, n int) string {
	names := []string{"a", "b", "d/a", "d/b", "d/e/a", "d/e/f/a", "e", "e/x", "'sp ace'", "d/n", "g/h/i", "g"}
	var script strings.Builder
	for i := range n {
		p, q := names[r.IntN(len(names))], names[r.IntN(len(names))]
		if q == p || strings.HasPrefix(q, p+"/") {
			q = "other"
		}
		ops := []string{
			fmt.Sprintf("mkdir -p $(dirname %[1]s) && echo %[2]d > %[1]s", p, i), fmt.Sprintf("echo %d >> %s", i, p), "rm -rf " + p, "mkdir -p " + p, fmt.Sprintf("mv -T %s %s", p, q), fmt.Sprintf("cp -a -T %s %s", p, q),
			fmt.Sprintf("ln -sfn ../%s %s", q, p), fmt.Sprintf("chmod %o %s", []int{0o600, 0o755, 0o444, 0o711}[r.IntN(4)], p), fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s && echo %[2]d > %[1]s/new", p, i), "rmdir " + p,
		}
		fmt.Fprintf(&script, "( %s ) 2>/dev/null\n", ops[r.IntN(len(ops))])
	}
	return script.String() + "true\n"
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	c := exec.Command("bash", "-c", "umask 022\n"+script)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

var sample = map[string]string{"a": "1\n", "d/a": "2\n", "d/b": "3\n", "d/e/a": "4\n", "d/e/f/a": "5\n", "e": "6\n", "g/h/i": "7\n", "sp ace": "8\n", "l": "-> d/a", "empty/": ""}

func mustBranch(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCopyIsAppliedAndReverted makes random changes in a copy. After an apply, the base must equal the copy. A revert
// must restore the base, and undo must restore earlier states of the copy.
func TestCopyIsAppliedAndReverted(t *testing.T) {
	for seed := range uint64(6) {
		s, b := copied(t, sample)
		before := snapshot(t, b.Base)
		differ(t, "the copy", snapshot(t, b.Tree()), before)
		none, err := b.Changes()
		if err != nil || len(none) > 0 {
			t.Fatalf("a new copy changes %v, %v", none, err)
		}
		mustBranch(t, s.Before(b, "s", "first", "", CheckpointRules{}))
		shell(t, b.Tree(), operations(rand.New(rand.NewPCG(seed, 1)), 30))
		half := snapshot(t, b.Tree())
		mustBranch(t, s.Before(b, "s", "second", "", CheckpointRules{}))
		shell(t, b.Tree(), operations(rand.New(rand.NewPCG(seed, 3)), 15))
		want := snapshot(t, b.Tree())
		what := func(does string) string { return fmt.Sprintf("seed %d: %s", seed, does) }

		undone, err := s.Undo(b, 2, CheckpointRules{})
		mustBranch(t, err)
		differ(t, what("undo of the second call"), snapshot(t, b.Tree()), half)
		_, err = s.Undo(b, 1, CheckpointRules{})
		mustBranch(t, err)
		differ(t, what("undo"), snapshot(t, b.Tree()), before)
		_, err = s.Restore(b, undone.Saved.Number, CheckpointRules{})
		mustBranch(t, err)
		differ(t, what("undo of the undo"), snapshot(t, b.Tree()), want)

		_, err = s.Apply(b, Selection{})
		mustBranch(t, err)
		differ(t, what("apply"), snapshot(t, b.Base), want)
		differ(t, what("the copy after an apply"), snapshot(t, b.Tree()), want)
		if left, err := b.Changes(); err != nil || len(left) > 0 {
			t.Fatal(what("an applied copy changes"), left, err)
		}
		if !maps.Equal(before, want) {
			_, err = s.Revert(b)
			mustBranch(t, err)
		}
		differ(t, what("revert"), snapshot(t, b.Base), before)
		differ(t, what("the copy after a revert"), snapshot(t, b.Tree()), want)
		_, err = s.Apply(b, Selection{})
		mustBranch(t, err)
		differ(t, what("second apply"), snapshot(t, b.Base), want)
	}
}

// TestCopyFollowsTheBase changes the base and a copy of it. The copy must follow changes of the base, and an apply must
// bring the changes of the copy to the base.
func TestCopyFollowsTheBase(t *testing.T) {
	for seed := range uint64(6) {
		s, b := copied(t, sample)
		r := rand.New(rand.NewPCG(seed, 2))
		shell(t, b.Base, operations(r, 20))
		mustBranch(t, b.work.Follow(nil, true))
		differ(t, fmt.Sprintf("seed %d: the copy", seed), snapshot(t, b.Tree()), snapshot(t, b.Base))
		none, err := b.Changes()
		if err != nil || len(none) > 0 {
			t.Fatalf("seed %d: a copy that followed changes %v, %v", seed, none, err)
		}
		files(t, b.Tree(), map[string]string{"mine/x": "mine", "a.mine": "mine"})
		files(t, b.Base, map[string]string{"mine.theirs": "theirs"})
		mustBranch(t, b.work.Follow([]string{filepath.Join(b.Base, "mine.theirs")}, false))
		want := snapshot(t, b.Tree())
		_, err = s.Apply(b, Selection{})
		mustBranch(t, err)
		differ(t, fmt.Sprintf("seed %d: apply", seed), snapshot(t, b.Base), want)
	}
}

// TestCopyConflicts checks for each pair of operations that it is a conflict if both sides change the same file.
func TestCopyConflicts(t *testing.T) {
	ops := map[string]string{"edit": "echo %s >> f", "replace": "echo %s > t && mv t f", "delete": "rm f", "mode": "chmod 600 f", "directory": "rm f && mkdir f && echo %s > f/x"}
	for mine, a := range ops {
		for theirs, c := range ops {
			s, b := copied(t, map[string]string{"f": "1\n", "kept": "k"})
			shell(t, b.Tree(), strings.ReplaceAll(a, "%s", "mine"))
			shell(t, b.Base, strings.ReplaceAll(c, "%s", "theirs"))
			mustBranch(t, b.work.Follow(nil, true))
			before, tree := snapshot(t, b.Base), snapshot(t, b.Tree())
			_, err := s.Apply(b, Selection{})
			conflict := (*ConflictError)(nil)
			equal := mine == theirs && (mine == "delete" || mine == "mode")
			if equal != (err == nil) || !equal && !errors.As(err, &conflict) {
				t.Errorf("%s in the copy, %s in the workspace: %v", mine, theirs, err)
			}
			differ(t, "a refused apply: "+mine+", "+theirs, snapshot(t, b.Base), before)
			differ(t, "the copy after a refused apply: "+mine+", "+theirs, snapshot(t, b.Tree()), tree)
			if equal {
				continue
			}
			if _, err = s.Apply(b, Selection{Theirs: []string{"f"}}); err != nil {
				t.Errorf("%s in the copy, %s in the workspace, theirs: %v", mine, theirs, err)
			}
			differ(t, "theirs: "+mine+", "+theirs, snapshot(t, b.Base), before)
			differ(t, "the copy after theirs: "+mine+", "+theirs, snapshot(t, b.Tree()), before)
		}
	}
}

// TestCopyLeavesOutIgnored checks that a copy does not contain ignored files, and that these files stay unchanged in
// the base.
func TestCopyLeavesOutIgnored(t *testing.T) {
	s, b := copied(t, map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", ".gitignore": "node_modules\n.env\n", "src/a": "1", "src/node_modules/x/y": "big", ".env": "SECRET=1", "src/.env": "2"})
	if b.Copy.Shared {
		t.Skip("the file system shares the data, so the copy is complete")
	}
	before := snapshot(t, b.Base)
	for _, name := range []string{".env", "src/.env", "src/node_modules"} {
		if _, err := os.Lstat(filepath.Join(b.Tree(), name)); err == nil {
			t.Errorf("the copy has %s", name)
		}
	}
	if b.Copy.Skipped != 3 {
		t.Errorf("%d entries are counted as left out, want 3", b.Copy.Skipped)
	}
	shell(t, b.Tree(), "rm -r src; echo mine > .env; echo fresh > new")
	all, err := b.Changes()
	mustBranch(t, err)
	for _, c := range all {
		if c.Path == ".env" && !strings.Contains(c.Never, "git ignores the path") || c.Conflict != "" {
			t.Errorf("the change %+v", c)
		}
	}
	_, err = s.Apply(b, Selection{})
	mustBranch(t, err)
	delete(before, "src/a")
	after := snapshot(t, b.Base)
	delete(after, "new")
	differ(t, "the workspace without the deleted file", after, before)
}

// TestKilledCopy kills an apply, a revert and an undo of a copy at each step. The next process must complete the
// operation or leave everything as before.
func TestKilledCopy(t *testing.T) {
	for _, role := range []string{"apply", "revert", "undo"} {
		for step := 1; ; step++ {
			s, b := copied(t, sample)
			before := snapshot(t, b.Base)
			mustBranch(t, s.Before(b, "s", "first", "", CheckpointRules{}))
			shell(t, b.Tree(), "echo new > n; echo changed > a; rm d/b; rm -r g; mkdir -p x/y; echo z > x/y/z; rm e; mkdir e; echo in > e/in; ln -s a link; chmod 700 empty")
			changed := snapshot(t, b.Tree())
			if role == "revert" {
				_, err := s.Apply(b, Selection{})
				mustBranch(t, err)
			}
			killed := killAtStep(t, s, b.Base, role, step)
			// A process that only lists the changes before the recovery must not remove an incomplete copy.
			if _, err := b.Changes(); err != nil {
				t.Fatal(role, step, err)
			}
			release, err := s.exclusive(b)
			mustBranch(t, err)
			release()
			base, tree := snapshot(t, b.Base), snapshot(t, b.Tree())
			all, err := b.Changes()
			mustBranch(t, err)
			what := fmt.Sprintf("%s killed at step %d, with the changes %v", role, step, all)
			switch {
			case maps.Equal(base, before) && len(all) > 0:
				differ(t, what+": the copy", tree, changed)
			case maps.Equal(base, before):
				differ(t, what+": the copy", tree, before)
			default:
				differ(t, what+": the workspace", base, changed)
				differ(t, what+": the copy", tree, changed)
				if len(all) > 0 {
					t.Fatal(what, all)
				}
			}
			if !killed {
				if step < 12 {
					t.Errorf("%s has only %d steps", role, step)
				}
				break
			}
		}
	}
}

// TestCopyFollowsNoLinks replaces directories of a copy by links to a directory outside. Neither changes of the base
// nor changes of the branch may be written through these links.
func TestCopyFollowsNoLinks(t *testing.T) {
	s, b := copied(t, map[string]string{"d/a": "1", "d/b": "2", "d/e/f": "3"})
	outside := t.TempDir()
	files(t, outside, map[string]string{"a": "secret", "e/f": "secret"})
	before := snapshot(t, outside)
	mustBranch(t, s.Before(b, "s", "first", "", CheckpointRules{}))
	shell(t, b.Tree(), fmt.Sprintf("rm -r d; ln -s %s d", outside))
	files(t, b.Base, map[string]string{"d/a": "changed", "d/new": "new", "d/e/f": "changed"})
	mustBranch(t, b.work.Follow(nil, true))
	mustBranch(t, b.work.Follow([]string{filepath.Join(b.Base, "d/a"), filepath.Join(b.Base, "d/new")}, false))
	differ(t, "what a link leads to", snapshot(t, outside), before)
	all, err := b.Changes()
	mustBranch(t, err)
	for _, c := range all {
		if c.Path != "d" || c.Is != "link" {
			t.Errorf("the change %+v, want only the link", c)
		}
	}
	_, err = s.Undo(b, 1, CheckpointRules{})
	mustBranch(t, err)
	differ(t, "what a link leads to, after an undo", snapshot(t, outside), before)
	differ(t, "the copy after an undo", snapshot(t, b.Tree()), snapshot(t, b.Base))
}
