//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// gitWays lists commands that try to create files that git executes outside of the sandbox. A successful command prints
// ESCAPED.
var gitWays = []string{
	`echo x > .git/hooks/post-commit && echo ESCAPED`,
	`touch .git/hooks/new && echo ESCAPED`,
	`git config core.fsmonitor ./evil; git config core.fsmonitor && echo ESCAPED`,
	`git config alias.st '!evil'; git config alias.st && echo ESCAPED`,
	`echo '[core]' >> .git/config && echo ESCAPED`,
	`cp .git/config c && echo '# evil' >> c && mv -f c .git/config && grep -q evil .git/config && echo ESCAPED`,
	`ln .git/config linked && echo '# evil' >> linked && grep -q evil .git/config && echo ESCAPED`,
	`chmod 777 .git/config; [ $(stat -c %a .git/config) = 777 ] && echo ESCAPED`,
	`echo x > .git/modules/sub/hooks/post-commit && echo ESCAPED`,
	`mv .git/modules/sub .git/modules/moved && echo ESCAPED; mv .git/modules/moved .git/modules/sub`,
	`mv .git/modules .git/moved && echo ESCAPED; mv .git/moved .git/modules`,
	`echo /evil > .git/worktrees/beside/commondir && echo ESCAPED; echo ../.. > .git/worktrees/beside/commondir`,
	`mv .git/worktrees/beside .git/moved && echo ESCAPED; mv .git/moved .git/worktrees/beside`,
	`mv .git/worktrees .git/moved && echo ESCAPED; mv .git/moved .git/worktrees`,
	`echo x >> .git/config.worktree && echo ESCAPED`,
	`echo x >> .git/worktrees/beside/config.worktree && echo ESCAPED`,
	`mv .git/hooks .git/moved && echo ESCAPED; mv .git/moved .git/hooks`,
	`mv .git moved && echo ESCAPED; mv moved .git`,
	`[ -e .git/commondir ] && echo ESCAPED; rm -f .git/commondir`, // check the result of an earlier call
	`rm -rf .git; [ -e .git/hooks ] || echo ESCAPED`,              // must be last, because it deletes the repository
}

// TestGitIsProtected checks that git outside the sandbox does not execute files that a command in the sandbox created.
func TestGitIsProtected(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"root", "ordinary"} {
		if user == "root" && os.Getuid() != 0 {
			continue
		}
		for _, tc := range []struct{ backend, more string }{{"none", ""}, {"ns", ""}, {"ns", `sandbox { git = "read-write" }`}} {
			t.Run(user+"/"+tc.backend+strconv.FormatBool(tc.more != ""), func(t *testing.T) {
				if tc.backend == "ns" && !hosttest.Supports(t, tc.backend) {
					t.Skip("this machine has no namespaces: toolhost doctor reports why")
				}
				w := newWorld(t, user)
				w.repository(t, user)
				holds := tc.backend == "ns" && tc.more == ""
				if holds { // the sandbox must create the missing hooks directory
					hosttest.Must(t, os.RemoveAll(filepath.Join(w.work, ".git", "hooks")))
					w.gitWorks(t)
				}
				// The sandbox cannot protect a file that does not exist. Therefore the host must rename the file after
				// the call has created it.
				redirect := w.batch(t, tc.backend, tc.more, `echo . > .git/commondir`)[0]
				if told := strings.Contains(redirect, "redirects git to other settings"); told != holds {
					t.Errorf("reported the redirection: %v: %s", told, redirect)
				}
				for i, out := range w.batch(t, tc.backend, tc.more, gitWays...) {
					if got := strings.Contains(out, "ESCAPED"); got == holds {
						t.Errorf("%s: escaped: %v: %s", gitWays[i], got, out)
					}
				}
			})
		}
	}
}

func (w *world) repository(t *testing.T, user string) {
	t.Helper()
	script := `git init -q . && git config user.email a@b && git config user.name n && git config submodule.recurse false && echo 1 > f && git add f && git commit -qm one && git init -q --bare .git/modules/sub && git worktree add -q --detach beside && git config extensions.worktreeConfig true`
	c := w.command(user, "sh", "-c", script)
	c.Dir, c.Env = w.work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// gitWorks checks that typical git commands of agents work.
func (w *world) gitWorks(t *testing.T) {
	t.Helper()
	work := []string{
		`echo 2 > f && git commit -qam two && git log --oneline | grep -q two && echo WORKS`,
		`git checkout -q -b topic && echo 3 > f && git commit -qam three && git checkout -q - && git merge -q topic && git tag v1 && echo WORKS`,
		`echo 4 > f && git stash -q && git stash pop -q && git checkout -q f && git gc -q && git fsck && echo WORKS`,
		`git rebase -q HEAD~1 && git reset -q --hard HEAD && git worktree add -q tree topic~1 && git worktree remove tree && echo WORKS`,
		`git -c core.pager=cat -c user.name=other commit -q --allow-empty -m four && echo WORKS`,
		`git init -q made && git -C made config user.name x && git -C made remote add origin .. && git clone -q . cloned && echo WORKS`,
	}
	outs := w.batch(t, "ns", "", append(work, `git remote add origin .. && echo ESCAPED`, `echo x > .git/hooks/pre-commit`)...)
	for i := range work {
		if !strings.Contains(outs[i], "WORKS") || strings.Contains(outs[i], "The sandbox") {
			t.Errorf("%s: %s", work[i], outs[i])
		}
	}
	for _, out := range outs[len(work):] {
		if strings.Contains(out, "ESCAPED") || !strings.Contains(out, `the operator sets git = \"read-write\" in the sandbox block of plugin \"bash\"`) && !strings.Contains(out, `the operator sets git = "read-write" in the sandbox block of plugin "bash"`) {
			t.Errorf("a denial is not explained: %s", out)
		}
	}
	// The tool "write" belongs to another plugin. It must not change hooks either.
	c := hosttest.Command("--workspace", w.work, "run", "write .git/hooks/pre-push text")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "XDG_RUNTIME_DIR=" + filepath.Join(w.dir, "run"), "XDG_STATE_HOME=" + filepath.Join(w.dir, "state2")}
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), `git = "read-write" in the sandbox block of plugin "edit"`) {
		t.Errorf("write created a hook, or its error does not name the setting: %v %s", err, out)
	}
}
