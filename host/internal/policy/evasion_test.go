package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

// TestEvasions checks that commands with a hidden loss of work are not allowed. Each command differs in one detail from
// an allowed command.
func TestEvasions(t *testing.T) {
	home, ws := project(t)
	outside := t.TempDir()
	for _, f := range []string{".git/refs/heads/old", ".git/refs/tags/v1", ".git/objects/a/1", ".git/objects/b/1", ".git/objects/c/1", ".git/objects/pack/p1", ".git/objects/pack/p2", ".git/objects/pack/p3", "build/x"} {
		write(t, filepath.Join(ws, f))
	}
	for _, name := range []string{"w", "a:b"} {
		if err := os.Symlink(ws, filepath.Join(outside, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ dir, line, open, careful string }{
		// A word that looks like a test of find can follow the action. It can also be an argument of another action, or
		// a value.
		{ws, "find . -delete -name x.log", "remove-workspace", ""}, {ws, "find . -exec true -name x.log ; -delete", "remove-workspace", ""}, {ws, "find . -printf -name -delete", "remove-workspace", ""},
		{ws, "find . -fprintf -name -name -delete", "remove-workspace", ""}, {ws, "find . -newermt -name -delete", "remove-workspace", ""}, {ws, "find . -exec rm {} + -name x.log", "remove-workspace", ""}, {ws, "find src -delete -name x.log", "", "delete"},
		{ws, "find . -name x.log -delete -o -delete", "remove-workspace", ""}, {ws, "find . -name x.log -delete -o -name y", "", ""}, {ws, "find . -name x.log -exec rm {} +", "", ""}, {ws, "find src -empty -delete", "", ""},
		{ws, "find src -name a.log -delete -name b.go", "", ""}, {ws, "find src -name a.log -delete , -name a.go -delete", "", "delete"},
		// These commands pack or copy files and then remove the originals.
		{outside, "tar --remove-files -cf x.tar -C " + ws + " .", "remove-workspace", ""}, {outside, "tar --remove-files -cf x.tar -C" + ws + " .", "remove-workspace", ""}, {outside, "tar --remove-files -cf x.tar --directory=" + ws + " .", "remove-workspace", ""},
		{outside, "tar --remove-files -cf x.tar -C w .", "remove-workspace", ""}, {outside, "tar cfC x.tar w . --remove-files", "remove-workspace", ""}, {ws, "tar --remove-files -cf /tmp/x.tar -T list", "remove-workspace", ""}, {ws, "tar --remove-files -cf /tmp/x.tar --files-f=list", "remove-workspace", ""},
		{ws, "tar cfT /tmp/x.tar list --remove-files", "remove-workspace", ""}, {ws, "tar --recursive-u -xf x.tar", "remove-workspace", ""}, {ws, "tar -xf x.tar", "", ""}, {ws, "tar -C src -cf x.tar .", "", ""},
		{ws, "zip -m /tmp/x.zip main.go -@", "remove-workspace", ""}, {ws, "zip /tmp/x.zip -@", "", ""}, {ws, "7z a -sdel /tmp/x.7z .", "remove-workspace", ""}, {ws, "7z a -sdel /tmp/x.7z @list", "remove-workspace", ""}, {ws, "7z a -sdel /tmp/x.7z main.go", "", "delete"}, {ws, "7z a /tmp/x.7z .", "", ""},
		{ws, "rsync -a --remove-source-files ./ /tmp/x/", "remove-workspace", ""}, {ws, "rsync -a --remove-source-files src /tmp/x/", "", "delete"}, {ws, "rsync -a --delete /var/empty/ src/", "", "delete"}, {outside, "rsync -a --delete /var/empty/ ./a:b/", "remove-workspace", ""},
		// These commands discard changes by settings or patches, or serve as the other end of a push.
		{ws, "git -c gc.pruneExpire=now gc -q", "", "discard-files"}, {ws, "git -c gc.refs/stash.reflogExpire=now gc", "", "discard-files"}, {ws, "git -c gc.auto=0 status", "", ""}, {ws, "git -c gc.pruneExpire=2.weeks.ago gc", "", ""},
		{ws, "git diff -R | git apply", "", "discard-files"}, {ws, "git diff -R --stat", "", ""}, {ws, "git diff HEAD", "", ""}, {ws, "git receive-pack .", "", "discard-files"},
		// These commands delete the data of a repository file by file.
		{ws, "rm -rf .git/objects/a .git/objects/b .git/objects/c .git/objects/pack", "remove-repository", ""}, {ws, "rm -f .git/objects/pack/p1 .git/objects/pack/p2 .git/objects/pack/p3", "remove-repository", ""}, {ws, "rm -f .git/objects/pack/p1", "", "delete"},
		// A move loses files if the sandbox discards the destination, or if a later deletion there needs no
		// confirmation.
		{ws, "mv main.go " + home, "", "delete"}, {ws, "mv main.go " + home + "/.cache/x", "", "delete"}, {ws, "mv main.go build", "", "delete"}, {ws, "mv src build/src", "", "delete"}, {ws, "mv main.go x.log", "", "delete"},
		{ws, "mv build/x build/y", "", ""}, {ws, "mv main.go main.go.bak", "", ""}, {ws, "rm main.go.bak", "", ""}, {ws, "mv main.go src", "", ""}, {ws, "mv main.go .", "", ""}, {ws, "git mv main.go build/", "", "discard-files"}, {ws, "git mv -n main.go build/", "", ""}, {ws, "git mv main.go src", "", ""},
		{ws, "gzip main.go", "", "delete"}, {ws, "gzip -k main.go", "", ""}, {ws, "gzip -c main.go", "", ""}, {ws, "gunzip --keep main.go", "", ""}, {ws, "xz -9 main.go", "", "delete"}, {ws, "zstd main.go", "", ""}, {ws, "zstd --rm main.go", "", "delete"}, {ws, "lz4 -m main.go", "", "delete"}, {ws, "gzip x", "", ""},
		// These git commands are mistyped, get their answers from another program, or use a repository elsewhere.
		{ws, "git chekcout .", "discard-changes", ""}, {ws, "git resett --hard", "discard-changes", ""}, {ws, "git psuh", "", "publish"}, {ws, "git zzzzzzzz main.go", "", ""}, {ws, "git check-ignore .", "", ""}, {ws, "git lg --hard", "", ""}, {ws, "git " + strings.Repeat("reset", 1000) + " --hard", "", ""},
		{ws, "git clean -i", "discard-changes", ""}, {ws, "git checkout -p", "discard-changes", ""}, {ws, "git checkout -p main.go", "", "discard-files"}, {ws, "git restore -p .", "discard-changes", ""}, {ws, "git restore --patch main.go", "", "discard-files"},
		{outside, "git --git-dir=x.git clean -fdx", "discard-changes", ""}, {outside, "git --git-dir x.git reset --hard", "discard-changes", ""}, {outside, "git --git-dir=" + ws + "/.git branch -D old", "", "discard-files"}, {outside, "git clean -fdx", "", ""}, {outside, "git stash clear", "", "discard-files"},
		{ws, "git apply -R x.patch", "", "discard-files"}, {ws, "git apply --rev x.patch", "", "discard-files"}, {ws, "git apply -R --check x.patch", "", ""}, {ws, "git apply x.patch", "", ""}, {ws, "patch -R -i x", "", "discard-files"}, {ws, "patch -p1R -i x", "", "discard-files"}, {ws, "patch -R --dry-run -i x", "", ""}, {ws, "patch -p1 -i x", "", ""},
		{ws, "git merge --abort", "", "discard-files"}, {ws, "git am --skip", "", "discard-files"}, {ws, "git rebase --abort", "", "discard-files"}, {ws, "git rebase --continue", "", ""}, {ws, "git cherry-pick --ab", "", "discard-files"}, {ws, "git merge main", "", ""}, {ws, "git pull --rebase --autostash", "", ""},
		{ws, "git tag -d v1", "", "discard-files"}, {ws, "git tag -f v1", "", "discard-files"}, {ws, "git tag -f v2", "", ""}, {ws, "git tag v2", "", ""}, {ws, "git symbolic-ref refs/heads/old refs/heads/main", "", "discard-files"}, {ws, "git symbolic-ref -d refs/heads/old", "", "discard-files"}, {ws, "git symbolic-ref HEAD refs/heads/old", "", ""}, {ws, "git fast-import", "", "discard-files"},
		{ws, "git fetch -p . refs/none/*:refs/heads/*", "", "discard-files"}, {ws, "git fetch . +main:old", "", "discard-files"}, {ws, "git fetch -f . main:refs/heads/old", "", "discard-files"}, {ws, "git fetch -f . main:new", "", ""}, {ws, "git fetch -p origin", "", ""}, {ws, "git fetch git@example.org:a/b", "", ""}, {ws, "git fetch origin +refs/heads/*:refs/remotes/origin/*", "", ""},
		{ws, "git checkout -B old", "", "discard-files"}, {ws, "git checkout -B new", "", ""}, {ws, "git switch -C old", "", "discard-files"}, {ws, "git switch --force-create old", "", "discard-files"}, {ws, "git switch -C new", "", ""}, {ws, "git rm -rf --pathspec-from-file=x", "discard-changes", ""}, {ws, "git submodule update -f", "", "discard-files"}, {ws, "git submodule update --init", "", ""},
		{ws, "git stash drop", "", "discard-files"}, {ws, "git stash drop stash@{1}", "", "discard-files"}, {ws, "git stash clear", "", "discard-files"}, {ws, "git stash pop", "", ""}, {ws, "git reflog delete refs/stash@{0}", "", "discard-files"}, {ws, "git update-ref -d refs/stash", "", "discard-files"},
		{ws, "git checkout -- :(attr:x)main.go", "discard-changes", ""}, {ws, "git checkout -- *.go", "", "discard-files"}, {ws, "git checkout main.go", "", "discard-files"}, {ws, "git submodule deinit -f x", "", "discard-files"}, {ws, "git filter-branch --all", "", "discard-files"}, {ws, "git filter-repo --path x", "", "discard-files"},
		{ws, "hg revert --all", "", "discard-files"}, {ws, "hg update -C", "", "discard-files"}, {ws, "svn revert -R .", "", "discard-files"}, {ws, "hg update", "", ""},
	} {
		x := execution(c.dir, strings.Fields(c.line)...)
		x.Path, x.File = "/usr/bin/"+x.Path, "/usr/bin/"+x.File
		x.Workspace, x.Call = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}
		for careful, want := range map[bool]string{false: c.open, true: c.open + " " + c.careful} {
			if careful && c.open != "" { // a loss can match several rules
				want += " delete"
			}
			j := policy.New(policy.Rules{Careful: careful}).JudgeExecution(x)
			rule := ""
			for _, name := range strings.Fields(want) {
				if strings.Contains(j.Rule, fmt.Sprintf("%q (built-in)", name)) {
					rule = name
				}
			}
			if (rule == "") != (strings.TrimSpace(want) == "") || strings.TrimSpace(want) == "" && j.Effect != policy.Allow {
				t.Errorf("careful %v, in %s: %.200s: %s %s, wanted %q", careful, filepath.Base(c.dir), c.line, j.Effect, j.Rule, want)
			}
		}
	}
	// An environment variable can name the repository, just as an option can.
	x := execution(outside, "/usr/bin/git", "reset", "--hard")
	x.Workspace, x.Call, x.GitDir = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}, true
	if j := policy.New(policy.Rules{}).JudgeExecution(x); j.Effect != policy.Ask {
		t.Errorf("git with GIT_DIR: %s", j.Effect)
	}
	// A mistyped git command is also found in the text of a script.
	if d := policy.New(policy.Rules{}).Judge(command(t, ws, "git chekcout .")); d.Effect != policy.Ask {
		t.Errorf("a mistyped command in a script: %s", d.Effect)
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOldFilesInNewDirectories checks that a session cannot delete older files in a directory that the session created.
func TestOldFilesInNewDirectories(t *testing.T) {
	_, ws := project(t)
	if !policy.StoresBirth(ws) {
		t.Fatal("the file system of the test does not store when files were created")
	}
	p := policy.New(policy.Rules{Careful: true})
	start := time.Now()
	time.Sleep(20 * time.Millisecond) // file times have the precision of a clock tick
	write(t, filepath.Join(ws, "made/deep/new"))
	req := command(t, ws, "rm -rf made")
	if req.Since = start; p.Judge(req).Effect != policy.Allow {
		t.Errorf("new files: %+v", p.Judge(req))
	}
	write(t, filepath.Join(ws, ".git/objects/pack/new")) // "git gc" also creates new files for old history
	pack := command(t, ws, "rm .git/objects/pack/new")
	if pack.Since = start; p.Judge(pack).Effect != policy.Ask {
		t.Errorf("a new pack: %+v", p.Judge(pack))
	}
	if err := os.Rename(filepath.Join(ws, "main.go"), filepath.Join(ws, "made/deep/old")); err != nil {
		t.Fatal(err)
	}
	if d := p.Judge(req); d.Effect != policy.Ask || !strings.Contains(d.Rule, `"delete"`) {
		t.Errorf("an old file in a new directory: %+v", d)
	}
}
