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

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/journal"
)

// gitCase is a git repository together with a branch of it.
type gitCase struct {
	t    *testing.T
	s    *Store
	b    *Branch
	base string
}

const gitSetup = `git init -q -b main; git config user.name n; git config user.email e@example.org; git config gc.auto 0
seq 1 9 > f; echo g > g; echo u > untracked; git add f g; git commit -qm first; git branch other; git tag -a -m t v1; git pack-refs --all; echo h > h; git add h; git commit -qm second; git branch a; git branch b`

func newGitCase(t *testing.T) *gitCase {
	t.Helper()
	dir := t.TempDir()
	g := &gitCase{t: t, s: &Store{Dir: filepath.Join(dir, "store")}, base: filepath.Join(dir, "base")}
	if err := os.Mkdir(g.base, 0o755); err != nil {
		t.Fatal(err)
	}
	g.outside(gitSetup)
	b, err := g.s.Make("", g.base, "b", Backend{})
	if err != nil {
		t.Fatal(err)
	}
	g.b = b
	return g
}

func (g *gitCase) run(dir, script string) string {
	g.t.Helper()
	c := exec.Command("bash", "-ec", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_MERGE_AUTOEDIT=no")
	out, err := c.CombinedOutput()
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// outside runs a script in the workspace.
func (g *gitCase) outside(script string) string { g.t.Helper(); return g.run(g.base, script) }

// inside mounts the branch as an overlay, runs a script in it, and records the ancestors of changed files, as a host
// does.
func (g *gitCase) inside(script string) string {
	g.t.Helper()
	at := g.t.TempDir()
	work := filepath.Join(g.b.dir, workDir)
	if err := errors.Join(filetree.RemoveAll(work), os.Mkdir(work, 0o700)); err != nil {
		g.t.Fatal(err)
	}
	if err := unix.Mount("overlay", at, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", g.base, g.b.Layer(), work)); err != nil {
		need.Missing(g.t, fmt.Sprint("only root can mount an overlay: ", err))
	}
	defer unix.Unmount(at, 0)
	out := g.run(at, script)
	var a change.Ancestry
	visit, end := a.Begin(g.b.layer())
	g.b.measure(visit)
	end()
	a.Close()
	time.Sleep(5 * time.Millisecond)
	return out
}

func (g *gitCase) apply(sel Selection) *Outcome {
	g.t.Helper()
	out, err := g.s.Apply(g.b, sel)
	if err != nil {
		g.t.Fatal(err)
	}
	g.sound()
	return out
}

// sound checks that git finds no errors in the repository of the workspace, and that no lock file remains.
func (g *gitCase) sound() {
	g.t.Helper()
	g.outside("git fsck --strict --no-dangling; ! find .git -name '*.lock' | grep .")
}

// snapshot describes the workspace without git's objects, because a revert does not remove objects.
func (g *gitCase) snapshot() map[string]string {
	g.t.Helper()
	out := snapshot(g.t, g.base)
	maps.DeleteFunc(out, func(path, _ string) bool { return strings.HasPrefix(path, ".git/objects/") })
	return out
}

// want compares the output of a script that runs in the workspace with the expected output.
func (g *gitCase) want(script, want string) {
	g.t.Helper()
	if got := g.outside(script); strings.TrimSpace(got) != want {
		g.t.Errorf("%s printed %q, want %q", script, got, want)
	}
}

const subjects, short = "git log --format=%s | paste -sd,", "git status --short | paste -sd,"

func TestGitCommitInBranch(t *testing.T) {
	g := newGitCase(t)
	g.inside("echo x >> g; git commit -qam third; git checkout -q -b topic; echo y > y; git add y; git commit -qm fourth")
	g.outside("touch f; sleep 0.01; git status -s") // refreshes the index
	before := g.snapshot()
	out := g.apply(Selection{})
	g.want(subjects, "fourth,third,second,first")
	g.want("git branch --show-current", "topic")
	g.want(short, "?? untracked")
	g.want("git reflog | wc -l", "5")
	if len(out.Notes) > 0 {
		t.Errorf("the notes are %q", out.Notes)
	}
	if _, err := g.s.Revert(g.b); err != nil {
		t.Fatal(err)
	}
	differ(t, "reverted", g.snapshot(), before)
	g.apply(Selection{})
	g.want(subjects, "fourth,third,second,first")
}

func TestGitCommitOutside(t *testing.T) {
	g := newGitCase(t)
	g.inside("sed -i 's/^9$/nine/' f; git status -s; git branch new; echo w > w")
	g.outside("sed -i 's/^1$/one/' f; git commit -qam outside")
	out := g.apply(Selection{})
	g.want("head -1 f; tail -1 f", "one\nnine")
	g.want(short, "M f,?? untracked,?? w")
	g.want(subjects, "outside,second,first")
	g.want("git log -1 --format=%s new", "second")
	if len(out.Notes) > 0 {
		t.Errorf("the notes are %q", out.Notes)
	}
}

// both returns a case with commits in the branch and in the workspace. The branch also has changes without a commit.
func both(t *testing.T) *gitCase {
	g := newGitCase(t)
	g.inside("sed -i 's/^9$/nine/' f; echo n > new; git add new; git commit -qam inside; mkdir d; echo c > d/c; git add d; rm h; git commit -qam inside2; echo more >> new; echo u2 > untracked; echo x > d/x; git branch made; git tag light")
	g.outside("sed -i 's/^1$/one/' f; git commit -qam outside; git branch -f other; touch .git/refs/heads/main")
	return g
}

// merged merges the commits of the branch and applies its other changes. It checks that the workspace then contains the
// changes of both sides.
func (g *gitCase) merged() {
	g.t.Helper()
	g.outside("git merge -q refs/toolhost/b/heads/main")
	g.want("head -1 f; tail -1 f; cat new d/c; ! test -e h", "one\nnine\nn\nc")
	g.apply(Selection{})
	g.want("cat new d/x untracked", "n\nmore\nx\nu2")
	g.want(short, "M new,?? d/x,?? untracked")
	if left, err := g.b.Changes(); err != nil || len(left) > 0 {
		g.t.Errorf("the branch still has %v, %v", left, err)
	}
}

func TestGitCommitsOnBothSides(t *testing.T) {
	g := both(t)
	changes, err := g.b.Changes()
	if err != nil {
		t.Fatal(err)
	}
	var diff strings.Builder
	if err := g.b.Diff(&diff, changes); err != nil || !strings.Contains(diff.String(), "# changed file f") || !strings.Contains(diff.String(), "an apply saves as refs/toolhost/b/heads/main") {
		t.Errorf("the diff is %s, %v", diff.String(), err)
	}
	before := g.snapshot()
	out := g.apply(Selection{})
	if len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "(commits: 2, files: 4) is saved as refs/toolhost/b/heads/main") || !strings.Contains(out.Notes[0], "git merge refs/toolhost/b/heads/main") {
		t.Errorf("the notes are %q", out.Notes)
	}
	g.want(subjects, "outside,second,first")
	g.want(short, "?? untracked")
	g.want("git log -1 --format=%s made; git log -1 --format=%s light; git log -1 --format=%s other; git cat-file -t v1", "inside2\ninside2\noutside\ntag")
	if _, err := g.s.Revert(g.b); err != nil {
		t.Fatal(err)
	}
	differ(t, "reverted", g.snapshot(), before)
	g.sound()
	g.apply(Selection{})
	g.merged()
}

// TestGitKilledAtEveryStep kills an apply of commits at each of its steps. The next process must either complete the
// apply or undo it.
func TestGitKilledAtEveryStep(t *testing.T) {
	g := both(t)
	before := g.snapshot()
	steps := 0
	for step := 1; killAtStep(t, g.s, g.base, "apply", step); step++ {
		steps++
		resume(t, g.s, g.b)
		g.sound()
		if all, err := g.b.log().Journals(); err != nil || len(all) == 0 || all[len(all)-1].State != journal.Applied {
			if now := g.snapshot(); len(all) > 0 {
				differ(t, "taken back", now, before)
			}
			continue // the process was killed before it wrote the journal, or the next process undid the apply
		}
		g.want("git log -1 --format=%s refs/toolhost/b/heads/main", "inside2")
		if step%2 == 0 {
			for at := 1; at < 100; at += 3 { // kill each revert once, at varying steps
				if at%7 == step%7 && killAtStep(t, g.s, g.base, "revert", at) {
					resume(t, g.s, g.b)
					break
				}
			}
		}
		if _, err := g.s.Revert(g.b); err != nil && !strings.Contains(err.Error(), "no apply that can be reverted") {
			t.Fatal(err)
		}
		differ(t, fmt.Sprintf("reverted after step %d", step), g.snapshot(), before)
		if step > 300 {
			t.Fatal("the apply does not end")
		}
	}
	if steps < 15 {
		t.Errorf("the apply has only %d steps", steps)
	}
	g.merged()
}

// TestGitRevertAfterMerge reverts an apply after git merged the applied commits. The revert must keep the git objects,
// because the merge needs them. If git removes them from the workspace later, the branch must still have them.
func TestGitRevertAfterMerge(t *testing.T) {
	g := both(t)
	g.apply(Selection{})
	g.outside("git merge -q refs/toolhost/b/heads/main")
	if _, err := g.s.Revert(g.b); err != nil {
		t.Fatal(err)
	}
	g.sound()
	g.want("git for-each-ref refs/toolhost; head -1 f; tail -1 f", "one\nnine")
	g.outside("git reset -q --hard HEAD^; git reflog expire --expire=now --all; git gc -q --prune=now")
	if got := g.inside("git fsck --no-dangling; git log -1 --format=%s"); strings.TrimSpace(got) != "inside2" {
		t.Errorf("the branch has %q", got)
	}
}

func TestGitOtherRefs(t *testing.T) {
	g := newGitCase(t)
	g.inside("git branch -D a; git branch -f b HEAD~1; git checkout -q other; echo o > o; git add o; git commit -qm onother; git checkout -q main; echo s >> f; git stash -q; git gc -q --prune=now")
	g.outside("echo p > p; git add p; git commit -qm outside; echo t >> g; git stash -q; git branch c")
	out := g.apply(Selection{})
	g.want("git for-each-ref --format='%(refname) %(subject)' refs/heads refs/toolhost refs/tags", "refs/heads/b first\nrefs/heads/c outside\nrefs/heads/main outside\nrefs/heads/other onother\nrefs/tags/v1 t")
	g.want("git stash list | wc -l; git stash show --name-only stash@{0}; git stash show --name-only stash@{1}", "2\nf\ng")
	g.want(short, "?? untracked")
	if len(out.Notes) > 0 {
		t.Errorf("the notes are %q", out.Notes)
	}
	if _, err := g.s.Revert(g.b); err != nil {
		t.Fatal(err)
	}
	g.sound()
	g.want("git stash list | wc -l", "1")
}

// TestGitDivergedRef moves the same ref on both sides, to commits that do not contain each other. The apply must keep
// the ref of the workspace and save the branch's ref under another name.
func TestGitDivergedRef(t *testing.T) {
	g := newGitCase(t)
	g.inside("git branch -f other $(git commit-tree -p other -m mine HEAD^{tree})")
	g.outside("git branch -f other $(git commit-tree -p other -m theirs HEAD^{tree})")
	out := g.apply(Selection{})
	g.want("git log -1 --format=%s other; git log -1 --format=%s refs/toolhost/b/heads/other", "theirs\nmine")
	if len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "git log refs/toolhost/b/heads/other") {
		t.Errorf("the notes are %q", out.Notes)
	}
}

// TestGitStagedOutside stages a file in the workspace while the branch makes a commit. After an apply, the file must
// still be staged.
func TestGitStagedOutside(t *testing.T) {
	g := newGitCase(t)
	g.inside("echo x >> f; git commit -qam inside")
	g.outside("echo s > staged; git add staged")
	out := g.apply(Selection{})
	g.want(short, "A  staged,?? untracked")
	g.outside("git merge -q refs/toolhost/b/heads/main")
	g.want(short, "A  staged,?? untracked")
	g.want("tail -1 f", "x")
	if len(out.Notes) != 1 {
		t.Errorf("the notes are %q", out.Notes)
	}
}

// TestGitSelection applies files without the commits of the branch, and then the commits without most files.
func TestGitSelection(t *testing.T) {
	g := both(t)
	if _, err := g.s.Apply(g.b, Selection{Paths: []string{".git/refs"}}); err == nil || !strings.Contains(err.Error(), "only be applied as a whole") {
		t.Errorf("a part of the repository: %v", err)
	}
	g.apply(Selection{Paths: []string{"f"}})
	g.want("head -1 f; tail -1 f", "one\nnine")
	g.want("git for-each-ref refs/toolhost", "")
	g.apply(Selection{Theirs: []string{".git"}, Paths: []string{"d"}})
	g.want("git for-each-ref refs/toolhost; cat d/c d/x", "c\nx")
}

// TestGitLocked makes an apply while another git process holds a lock. The apply must be refused and change nothing.
func TestGitLocked(t *testing.T) {
	g := newGitCase(t)
	g.inside("echo x >> f; git commit -qam inside")
	g.outside("touch .git/index.lock")
	before := g.snapshot()
	if _, err := g.s.Apply(g.b, Selection{}); err == nil || !strings.Contains(err.Error(), "git works in the workspace: it has the lock "+g.base+"/.git/index.lock") {
		t.Errorf("the apply returned %v", err)
	}
	differ(t, "locked", g.snapshot(), before)
	g.outside("rm .git/index.lock")
	g.apply(Selection{})
	g.want(subjects, "inside,second,first")
}

// TestMergesText changes a file on both sides. Changes of different lines must be merged. Changes of the same lines
// must be a conflict.
func TestMergesText(t *testing.T) {
	g := newGitCase(t)
	g.inside("sed -i 's/^9$/nine/' f; chmod 755 f; echo v >> untracked; echo mine >> g; rm h")
	g.outside("sed -i 's/^1$/one/' f; sed -i '1i top' untracked; touch h")
	before := g.snapshot()
	out := g.apply(Selection{})
	g.want("stat -c %a f; head -1 f; tail -1 f; cat untracked g; ls", "755\none\nnine\ntop\nu\nv\ng\nmine\nf\ng\nuntracked")
	merges := 0
	for _, c := range out.Changes {
		if c.Merge {
			merges++
		}
	}
	if merges != 2 {
		t.Errorf("%d merges in %v", merges, out.Changes)
	}
	if _, err := g.s.Revert(g.b); err != nil {
		t.Fatal(err)
	}
	differ(t, "reverted", g.snapshot(), before)
	g.inside("sed -i 's/^2$/zwei/' f")
	g.outside("sed -i 's/^2$/two/' f")
	_, err := g.s.Apply(g.b, Selection{})
	if conflict := (*ConflictError)(nil); !errors.As(err, &conflict) || !strings.Contains(err.Error(), "f: the workspace changed it, too: both changed the lines 1 to 2") {
		t.Errorf("the apply returned %v", err)
	}
	g.apply(Selection{Ours: []string{"f"}})
	g.want("sed -n 2p f", "zwei")
}

// TestUnknownAncestor changes a file in the workspace before the branch changes it. The file must not be merged,
// because the branch may have read the earlier content.
func TestUnknownAncestor(t *testing.T) {
	g := newGitCase(t)
	time.Sleep(5 * time.Millisecond)
	g.outside("sed -i 's/^1$/one/' f")
	g.inside("sed -i 's/^9$/nine/' f")
	if _, err := g.s.Apply(g.b, Selection{}); err == nil || !strings.Contains(err.Error(), "f: the workspace changed it, too") {
		t.Errorf("the apply returned %v", err)
	}
}

// TestGitStatusAfterRevert lets git refresh the index of the workspace after a revert. The next apply must move the ref
// as the first apply did, because nobody made a commit in the workspace.
func TestGitStatusAfterRevert(t *testing.T) {
	g := newGitCase(t)
	g.inside("echo x >> g; git commit -qam third")
	for range 2 {
		g.apply(Selection{})
		g.want(subjects, "third,second,first")
		if _, err := g.s.Revert(g.b); err != nil {
			t.Fatal(err)
		}
		g.outside("sleep 0.01; touch f g; git status -s; git diff --cached --quiet")
	}
	out := g.apply(Selection{})
	g.want(subjects, "third,second,first")
	g.want("git for-each-ref refs/toolhost", "")
	g.want(short, "?? untracked")
	if len(out.Notes) > 0 {
		t.Errorf("the notes are %q", out.Notes)
	}
}

// TestMergesOddTexts merges a file with Windows line endings and a file without a final line ending. A large file must
// not be merged, and its content must stay.
func TestMergesOddTexts(t *testing.T) {
	g := newGitCase(t)
	g.outside(`seq 1 9 | sed 's/$/\r/' > dos; printf 'a\nb\nc\nd\ne' > open; yes 'a line of a large file' | head -c 50000000 > large`)
	b, err := g.s.Make("", g.base, "odd", Backend{})
	mustBranch(t, err)
	g.b = b
	time.Sleep(5 * time.Millisecond)
	g.inside(`sed -i 's/^9\r/nine\r/' dos; printf 'a\nb\nc\nd\nE' > open; echo mine >> large`)
	g.outside(`sed -i 's/^1\r/one\r/' dos; sed -i 's/^a$/A/' open; sed -i '1s/.*/theirs/' large`)
	before := g.snapshot()
	_, err = g.s.Apply(g.b, Selection{})
	if conflict := (*ConflictError)(nil); !errors.As(err, &conflict) || len(conflict.Conflicts) != 1 || !strings.Contains(err.Error(), "large: the workspace changed it, too, and a file of more than 1 MiB is not merged") {
		t.Fatalf("the apply returned %v", err)
	}
	differ(t, "refused", g.snapshot(), before)
	g.apply(Selection{Theirs: []string{"large"}})
	g.want(`grep -c $'\r' dos; head -1 dos | od -An -c | tr -d ' '; tail -1 dos | od -An -c | tr -d ' '; od -An -c open | tr -d ' '; head -1 large; stat -c %s large`,
		"9\none\\r\\n\nnine\\r\\n\nA\\nb\\nc\\nd\\nE\ntheirs\n49999984")
	if _, err := g.s.Revert(g.b); err != nil {
		t.Fatal(err)
	}
	differ(t, "reverted", g.snapshot(), before)
}
