package branch

import (
	"strings"
	"testing"
)

// TestGitStatusAfterKill kills an apply at each step. Before the apply is completed, git refreshes the index. The
// workspace must then be either as before the apply or as after it.
func TestGitStatusAfterKill(t *testing.T) {
	for step := 1; ; step++ {
		g := newGitCase(t)
		g.inside("rm g; echo changed > h; git add -A; git commit -qm inside")
		if !killAtStep(t, g.s, g.base, "apply", step) {
			break
		}
		g.outside("touch f; git status; git diff --cached") // git finds all objects that it needs
		if release, err := g.s.exclusive(g.b); err == nil {
			release()
			// Git may refresh the index before the recovery exchanges it.
		} else if !strings.Contains(err.Error(), "Repeat the command") {
			t.Fatal(err)
		}
		g.sound()
		if got := g.outside("git log -1 --format=%s; git status --porcelain"); got != "inside\n" && got != "second\n?? untracked\n" {
			t.Errorf("killed at step %d: the workspace is %q", step, strings.TrimSpace(got))
		}
	}
}
