package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/need"
)

// project creates a home directory with a workspace, which is a repository. It sets HOME and returns both paths.
func project(t *testing.T) (home, ws string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, ws = filepath.Join(top, "home"), filepath.Join(top, "home", "ws")
	for _, d := range []string{"ws/.git/objects", "ws/.git/refs", "ws/src", "ws/docs", "ws/build", "ws/nested/.git", "ws/one", "other/sub", "ws/node_modules"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"ws/.git/HEAD", "ws/.gitignore", "ws/go.mod", "ws/main.go", "ws/README", "ws/src/a.go", "ws/src/b.go", "ws/src/c.go", "ws/one/f", "ws/nested/f", "notes", "other/x", "ws/.env", ".netrc", "x.pub"} {
		if err := os.WriteFile(filepath.Join(home, f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(ws, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	return home, ws
}

func expanded(t *testing.T, dir, pattern string) (out []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		rel, err := filepath.Rel(dir, n)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(filepath.Base(n), ".") {
			out = append(out, rel)
		}
	}
	return out
}

// TestLosses checks which programs count as losing work. The programs have the arguments that the shell passes after
// expanding wildcards.
func TestLosses(t *testing.T) {
	home, ws := project(t)
	all := expanded(t, ws, "*")
	if len(all) < 8 {
		t.Fatal(all)
	}
	and := func(first string, more ...[]string) string {
		return first + " " + strings.Join(slices.Concat(more...), " ")
	}
	outside := t.TempDir()
	if err := os.Symlink("/usr/bin/rm", filepath.Join(outside, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, line, rule string }{
		{ws, and("rm -rf", all), "remove-workspace"},
		{ws, and("rm -rf --", all), "remove-workspace"},
		{ws, and("rm -r", all[:len(all)-1]), ""}, // the remaining entry is a directory with files
		{ws, "rm -rf .", "remove-workspace"},
		{ws, "rm -rf ./", "remove-workspace"},
		{ws, "rm -rf ../ws", "remove-workspace"},
		{ws, "rm -rf src/../../ws", "remove-workspace"},
		{ws, "rm -rf " + home + "/link/", "remove-workspace"},
		{ws, "rm -rf " + home + "/link", ""}, // rm removes the link and keeps its target
		{ws, "rm -rf /proc/self/cwd", "remove-workspace"},
		{ws + "/src", and("rm -rf", expanded(t, ws+"/src", "../*")), "remove-workspace"},
		{ws + "/src", "rm -rf ..", "remove-workspace"},
		{home, and("rm -rf", expanded(t, home, "*")), "remove-system"},
		{ws, "rm -rf ..", "remove-system"},
		{ws, "rm -rf " + home, "remove-system"},
		{ws, "rm -rf /bin /boot /dev /etc /home", "remove-system"},
		{ws, "rm -rf " + filepath.Dir(home), "remove-system"},
		{ws, and("shred -u", all), ""}, // shred does not remove directories
		{ws + "/src", "rm a.go b.go c.go", ""},
		{ws, "rm -rf src docs", ""},
		{ws, "rm -rf build node_modules", ""},
		{ws, "rm main.go", ""},
		{ws, "rm -rf nested", ""},
		{ws, "rm -rf .git", "remove-repository"},
		{ws, "rm -rf ./.git/", "remove-repository"},
		{ws, "rm -rf .git/objects", "remove-repository"},
		{ws, "rm .git/HEAD", "remove-repository"},
		{ws, "rm -f .git/index.lock", ""},
		{ws, "rm -rf nested/.git", "remove-repository"},
		{ws, "find . -delete", "remove-workspace"},
		{ws, "find . -type f -delete", "remove-workspace"},
		{ws, "find . -mindepth 1 -delete", "remove-workspace"},
		{ws, "find . -name * -delete", "remove-workspace"},
		{ws, "find . ! -name x -delete", "remove-workspace"},
		{ws, "find . -name x -o -type f -delete", "remove-workspace"},
		{ws, "find -delete", "remove-workspace"},
		{ws, "find . -type f -exec rm {} ;", "remove-workspace"},
		{ws, "find .. -delete", "remove-system"},
		{ws, "find . -exec shred {} +", "remove-workspace"},
		{ws, "find . -name *.pyc -delete", ""},
		{ws, "find . -name *.o -exec rm {} ;", ""},
		{ws, "find src -delete", ""},
		{ws, "find . -type d -empty -delete", ""},
		{ws, "find . -type f -exec grep x {} +", ""},
		{ws, "mv " + ws + " /tmp/x", "remove-workspace"},
		{ws, "mv ../ws ../ws2", "remove-workspace"},
		{ws, and("mv", all, []string{outside}), "remove-workspace"},
		{ws, "mv -t " + outside + " " + ws, "remove-workspace"},
		{ws, and("mv", all, []string{"src"}), ""},
		{ws, "mv main.go src", ""},
		{ws, "chmod -R 000 .", "remove-workspace"},
		{ws, "chmod -R a-rwx .", "remove-workspace"},
		{ws, "chmod -R u= .", "remove-workspace"},
		{ws, "chmod 0 " + home, "remove-workspace"},
		{ws, "chmod -R 755 .", ""},
		{ws, "chmod -R u+x .", ""},
		{ws, "chmod -R go-w .", ""},
		{ws, "chmod -x main.go", ""},
		{ws, "rsync -a --delete /var/empty/ ./", "remove-workspace"},
		{ws, "rsync -a --delete src/ build/", ""},
		{ws, "tar --remove-files -cf /tmp/x.tar .", "remove-workspace"},
		{ws, "tar -cf /tmp/x.tar .", ""},
		{ws, "truncate -s 0 main.go", ""},
		{ws, "kill -9 -1", "signal-all"}, {ws, "kill -KILL -- -1", "signal-all"}, {ws, "kill -1 4", ""}, {ws, "kill -9 4", ""}, {ws, "kill -l", ""}, {ws, "pkill -9 .", "signal-all"}, {ws, "pkill node", ""}, {ws, "pkill -u me", "signal-all"},
		{ws, "systemctl reboot", "power"}, {ws, "systemctl status x", ""}, {ws, "/sbin/reboot", "power"}, {ws, "init 6", "power"},
		{ws, "dd if=/dev/zero of=/dev/sda", "overwrite-device"}, {ws, "dd if=/dev/zero of=x", ""},
		{ws, "rm -f src/a.go docs/x build/x nested/x one/f node_modules/x go.mod main.go README", "remove-workspace"}, {ws, "rm -f src/a.go docs/x build/x nested/x one/f node_modules/x", ""},
		{ws, "coreutils --coreutils-prog=rm -rf .", "remove-workspace"}, {ws, "/usr/lib/git-core/git-clean -fdx", "discard-changes"}, {ws, "/usr/lib/git-core/git-status", ""},
		{ws, "busybox rm -rf .", "remove-workspace"}, {ws, "rimraf .", "remove-workspace"}, {ws, "trash-put ../ws", "remove-workspace"},
		{outside, "rm -rf x y z", ""}, {outside, "rm -rf .", ""},

		{ws, "git reset --hard", "discard-changes"}, {ws, "git reset --hard HEAD~1", "discard-changes"}, {ws + "/src", "git reset --hard", "discard-changes"}, {ws, "git -C src reset --har", "discard-changes"},
		{ws, "git -c alias.x=reset\x20--hard x", "discard-changes"}, {ws, "git reset", ""}, {ws, "git reset --soft HEAD~1", ""}, {ws, "git reset HEAD main.go", ""},
		{ws, "git clean -fdx", "discard-changes"}, {ws, "git clean -f", "discard-changes"}, {ws, "git clean -fd .", "discard-changes"}, {ws, "git clean -ndx", ""}, {ws, "git clean -fd src", ""}, {ws + "/src", "git clean -fdx", ""}, {ws + "/src", "git clean -fd ..", "discard-changes"},
		{ws, "git checkout .", "discard-changes"}, {ws, "git checkout -- .", "discard-changes"}, {ws, "git checkout HEAD -- .", "discard-changes"}, {ws, "git checkout -f", "discard-changes"}, {ws, "git checkout -- :/", "discard-changes"}, {ws, "git checkout -- *", "discard-changes"},
		{ws, "git checkout -- ?*", "discard-changes"}, {ws, "git checkout -- :!x", "discard-changes"}, {ws, "git checkout HEAD :^x", "discard-changes"}, {ws, "git checkout -- src :!src/a.go", ""}, {ws, "git checkout -- . :!x", "discard-changes"},
		{ws, "git checkout -- :(glob)**", "discard-changes"}, {ws, "git checkout -- :(top)", "discard-changes"}, {ws + "/src", "git checkout -- :(top)", "discard-changes"}, {ws + "/src", "git checkout -- :/*", "discard-changes"}, {ws + "/src", "git restore :(top,glob)**/*", "discard-changes"},
		{ws, "git checkout -- [a-zR]*", "discard-changes"}, {ws, "git checkout -- [!A-Q]*", "discard-changes"}, {ws, "git checkout -- :(icase)[a-z]*", "discard-changes"}, {ws, "git checkout -- [[:alpha:]]*", "discard-changes"}, {ws, "git checkout -- :(attr:x)", "discard-changes"},
		{ws, "git checkout -- :(glob)**/*", "discard-changes"}, {ws, "git checkout -- ./?*", "discard-changes"}, {ws + "/src", "git checkout -- ../?*", "discard-changes"}, {ws + "/src", "git checkout -- ?*", ""}, {ws, "git clean -fd :!x", "discard-changes"}, {ws, "git clean -fd ?*", "discard-changes"},
		{ws, "git checkout -- *.go", ""}, {ws, "git checkout -- src/?*", ""}, {ws, "git checkout -- :(literal)*", ""}, {ws, "git checkout -- :/src", ""}, {ws, "git checkout -- [m]*", ""}, {ws, "git checkout -- :(glob)*.go", ""}, {ws, `git checkout -- \*`, ""}, {ws, "git rm -r [a-zR]*", "discard-changes"},
		{ws, and("git checkout --", all), "discard-changes"}, {ws, "git checkout main", ""}, {ws, "git checkout -b x", ""}, {ws, "git checkout -- main.go", ""}, {ws, "git checkout src", ""},
		{ws, "git restore .", "discard-changes"}, {ws, "git restore --source=HEAD~1 -W -S .", "discard-changes"}, {ws, "git restore --staged .", ""}, {ws, "git restore main.go", ""},
		{ws, "git switch -f main", "discard-changes"}, {ws, "git switch --discard-changes main", "discard-changes"}, {ws, "git switch main", ""}, {ws, "git switch -c x", ""},
		{ws, "git rm -rf .", "discard-changes"}, {ws, "git rm -r --cached .", ""}, {ws, "git rm main.go", ""}, {ws, "git read-tree -u --reset HEAD", "discard-changes"}, {ws, "git checkout-index -fa", "discard-changes"},
		{outside, "git --work-tree=" + ws + " --git-dir=" + ws + "/.git reset --hard", "discard-changes"}, {outside, "git --work-tree " + ws + " checkout .", "discard-changes"},
		{outside, "find -L " + home + "/link -delete", "remove-workspace"}, {outside, "find -H " + home + "/link -type f -exec rm {} ;", "remove-workspace"}, {outside, "find " + home + "/link -delete", ""},
		{ws, "git reset --h", "discard-changes"}, {ws, "git checkout --f HEAD", "discard-changes"}, {ws, "git switch --di main", "discard-changes"}, {ws, "git switch --fo main", "discard-changes"}, {ws, "git rm --f -r .", "discard-changes"}, {ws, "git clean --d", "discard-changes"},
		{ws, "git clean -n --no-dry-run -f", "discard-changes"}, {ws, "git restore --st --wo .", "discard-changes"}, {ws, "tar --remove-f -cf /tmp/x.tar .", "remove-workspace"}, {ws, "tar cf /tmp/x.tar --rem .", "remove-workspace"}, {ws, "git clean --dry", ""}, {ws, "git restore --staged .", ""}, {ws, "tar --recursion -cf /tmp/x.tar .", ""},
		{ws, "/lib64/ld-linux-x86-64.so.2 /usr/bin/rm -rf .", "remove-workspace"}, {ws, "/lib/ld-musl-x86_64.so.1 --library-path /lib --argv0 x /usr/bin/git reset --hard", "discard-changes"}, {ws, "/lib64/ld-linux-x86-64.so.2 --argv0 ls /bin/busybox rm -rf .", "remove-workspace"},
		{ws, "/lib64/ld-linux-x86-64.so.2 " + outside + "/link -rf .", "remove-workspace"}, {ws, "/lib64/ld-linux-x86-64.so.2 --list /usr/bin/rm -rf .", ""}, {ws, "/lib64/ld-linux-x86-64.so.2 /usr/bin/ls .", ""},
		{ws, "git stash", ""}, {ws, "git stash drop", ""}, {ws, "git status", ""}, {ws, "git push", ""}, {outside, "git reset --hard", ""},
	} {
		words := strings.Split(c.line, " ")
		if strings.Contains(c.line, "alias.x=") {
			words = []string{"git", "-c", "alias.x=reset --hard", "x"}
		}
		if !strings.Contains(words[0], "/") {
			words[0] = "/usr/bin/" + words[0]
		}
		p := policy.New(policy.Rules{})
		x := execution(c.dir, words...)
		x.Workspace, x.Call = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}
		if j := p.JudgeExecution(x); !strings.Contains(j.Rule, fmt.Sprintf("%q (built-in)", c.rule)) && (c.rule != "" || j.Effect != policy.Allow) {
			t.Errorf("in %s: %s: %s %s, wanted %q", strings.TrimPrefix(c.dir, home), strings.ReplaceAll(c.line, home, "~"), j.Effect, j.Rule, c.rule)
		}
	}
}

// TestLossesBesidePipes checks that a named pipe does not block the judgement.
func TestLossesBesidePipes(t *testing.T) {
	_, ws := project(t)
	if err := unix.Mkfifo(filepath.Join(ws, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := execution(ws, append([]string{"/usr/bin/rm", "-rf"}, expanded(t, ws, "*")...)...)
	x.Args = slices.DeleteFunc(x.Args, func(a string) bool { return a == "pipe" })
	x.Workspace, x.Call = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}
	if j := policy.New(policy.Rules{}).JudgeExecution(x); j.Effect != policy.Ask {
		t.Errorf("%s %s", j.Effect, j.Rule)
	}
}

// TestLossByMount checks that a loss is noticed if a command uses the path of another mount of the workspace.
func TestLossByMount(t *testing.T) {
	_, ws := project(t)
	other := t.TempDir()
	if err := bind(ws, other); err != nil {
		need.Missing(t, fmt.Sprintf("this test needs the right to mount: %v", err))
	}
	t.Cleanup(func() { unbind(t, other) })
	x := execution("/", "/usr/bin/rm", "-rf", other)
	x.Workspace, x.Call = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}
	if j := policy.New(policy.Rules{}).JudgeExecution(x); j.Effect != policy.Ask {
		t.Errorf("%s %s", j.Effect, j.Rule)
	}
}

// TestLossOfHome checks the judgement if the home directory is also the workspace.
func TestLossOfHome(t *testing.T) {
	home, ws := project(t)
	p := policy.New(policy.Rules{})
	for dir, effect := range map[string]policy.Effect{home: policy.Ask, ws: policy.Deny} {
		x := execution(home, "/usr/bin/rm", "-rf", ".")
		x.Workspace, x.Call = dir, &tool.Call{Cwd: dir, Roots: []tool.Root{{Path: dir, Writable: true}}}
		if j := p.JudgeExecution(x); j.Effect != effect {
			t.Errorf("with the workspace %s: %s %s", dir, j.Effect, j.Rule)
		}
	}
}

// TestLossesInScripts checks that the analysis of a script's text finds the same losses if all paths are certain.
func TestLossesInScripts(t *testing.T) {
	_, ws := project(t)
	for text, want := range map[string]string{
		"rm -rf *": "remove-workspace", "cd .. && rm -rf *": "remove-system", "cd src; rm -rf ../*": "remove-workspace", "rm -rf .git": "remove-repository", "git clean -fdx": "discard-changes", "git reset --hard": "discard-changes",
		"git checkout .": "discard-changes", "systemctl reboot": "power", "kill -9 -1": "signal-all", "chmod -R 000 ~": "remove-workspace", "find .. -delete": "remove-system", "find . -type f -delete": "remove-workspace",
		"f() { rm -rf *; }; f": "remove-workspace", "bash -c 'git clean -fd'": "discard-changes", "x=.; rm -rf $x": "remove-workspace", "rm -rf {src,docs,build,nested,one,node_modules,go.mod,main.go,README}": "remove-workspace",
		`rm -rf "$UNSET"/x`: "", "rm -rf src": "", "rm -rf build/*": "", "git stash": "", "cd /tmp && rm -rf x": "", "git clean -n": "", "rm *.go": "", "rm -f *.o": "",
	} {
		d := policy.New(policy.Rules{}).Judge(command(t, ws, text))
		if (want == "") != (d.Effect == policy.Allow) || want != "" && !strings.Contains(d.Rule, fmt.Sprintf("%q (built-in)", want)) {
			t.Errorf("%s: %s %s, wanted %q", text, d.Effect, d.Rule, want)
		}
	}
}

// TestCareful checks the built-in rules for commands that lose work or send data to other machines.
func TestCareful(t *testing.T) {
	home, ws := project(t)
	old := filepath.Join(ws, ".git/refs/heads/old")
	if err := os.MkdirAll(filepath.Dir(old), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, opened := policy.New(policy.Rules{Careful: true}), policy.New(policy.Rules{})
	for text, want := range map[string]string{
		"git push": "publish", "git push --force origin main": "publish", "npm publish": "publish", "npm publish --access public": "publish", "docker push x/y": "publish", "gh pr create --fill": "publish", "gh release create v1": "publish", "cargo publish": "publish",
		"twine upload dist/*": "publish", "scp x host:y": "publish", "rsync -a . me@host:/x": "publish", "curl -X POST https://example.org/x": "publish", "curl -d @x https://example.org": "publish", "curl --json '{}' https://example.org": "publish", "curl -T x https://example.org": "publish",
		"wget --post-file=x https://example.org": "publish", "ssh host ls": "publish", "kubectl delete pod x": "publish", "terraform apply": "publish", "gh api -X DELETE /x": "publish", "gh api repos/x -f a=b": "publish", "aws s3 cp x s3://b/x": "publish",
		"cat .env": "credentials", "cat ~/.netrc": "credentials", "source .env": "credentials", "grep KEY < .env": "credentials", "gh auth token": "credentials", "cat ~/.ssh/id_rsa": "credentials", "cp .env x": "credentials", "base64 ~/.aws/credentials": "credentials",
		"git checkout -- main.go": "discard-files", "git restore main.go": "discard-files", "git stash drop": "discard-files", "git stash clear": "discard-files", "git branch -D x": "discard-files", "git clean -fd src": "discard-files", "git reflog expire --all": "discard-files",
		"git reset --hard": "discard-changes", "rm -rf *": "remove-workspace", "sudo ls": "privilege",
		`terraform -chdir=x apply`: "publish", `terraform -chdir=x destroy -auto-approve`: "publish", `gh -R o/r pr create`: "publish", `gh --repo o/r release create v1`: "publish", `gh pr -R o/r create`: "publish", `docker --context x push y`: "publish", `docker -H tcp://h push y`: "publish", `docker compose -f x push`: "publish", `docker build --push -t y .`: "publish", `docker build -t y --push .`: "publish", `docker buildx bake --push`: "publish", `aws --region x s3 cp a s3://b`: "publish", `aws --profile p --region x s3 sync . s3://b`: "publish", `cargo +nightly publish`: "publish", `pnpm -r publish`: "publish", `pnpm --filter x publish`: "publish", `npm -w x publish`: "publish", `mvn -B clean deploy`: "publish", `./mvnw deploy`: "publish", `hg push`: "publish", `svn commit -m x`: "publish", `jj git push`: "publish", `hub push`: "publish", `pdm publish`: "publish", `maturin publish`: "publish", `cargo release`: "publish", `kubectl -n x cp a p:/b`: "publish", `gcloud storage cp a gs://b`: "publish", `az storage blob upload -f x`: "publish", `s3cmd put x s3://b`: "publish", `python3 -m twine upload x`: "publish", `ssh-copy-id h`: "publish", `curl -sd@f http://x.org/`: "publish", `curl -d@f http://x.org`: "publish", `curl -sT f http://x.org`: "publish", `curl -sF a=@f http://x.org`: "publish", `curl -sXPOST http://x.org/`: "publish", `curl -fsSLXPOST http://x.org`: "publish", `curl -sSX POST http://x.org`: "publish", `curl --data-bin @f http://x.org`: "publish", `curl --upload-f f http://x.org`: "publish", `curl --req PUT http://x.org`: "publish", `wget --post-f=x http://x.org`: "publish", `wget --method PUT http://x.org`: "publish", `http POST http://x.org`: "publish", `http http://x.org a=b`: "publish", `nc x.org 80`: "publish", `ncat x.org 80`: "publish", `telnet x.org`: "publish", `tftp x.org`: "publish", `socat - TCP:x.org:80`: "publish", `cat f > /dev/tcp/x.org/80`: "publish", `exec 3<>/dev/tcp/1.2.3.4/9`: "publish", `git push -onight`: "publish",
		`terraform -chdir=x plan`: "", `gh -R o/r pr list`: "", `docker --context x ps`: "", `docker compose -f x up`: "", `docker build -t push .`: "", `docker run -it x push`: "", `aws --region x s3 ls`: "", `cargo +nightly build`: "", `pnpm -r build`: "", `pnpm --filter x test`: "", `mvn -B clean verify`: "", `./mvnw test`: "", `npm run -s publish-docs`: "", `svn status`: "", `hg pull`: "", `kubectl -n x get pods`: "", `curl -fsSL https://x.org -o f`: "", `curl --url https://x.org`: "", `curl -H 'X-Data: d' https://x.org`: "", `curl -oTd https://x.org`: "", `curl -sX GET https://x.org`: "", `curl -u d:T https://x.org`: "", `curl -I https://x.org`: "", `wget -q https://x.org`: "", `http https://x.org`: "", `http https://x.org q==a`: "", `nc -l 80`: "", `nc -z x.org 80`: "", `nc localhost 80`: "", `socat - TCP:localhost:80`: "", `socat TCP-LISTEN:80 -`: "", `echo x > /dev/tcp/127.0.0.1/80`: "", `git push -n`: "", `git push -fn`: "", `cargo test -- publish`: "",
		"mv main.go /tmp": "delete", "mv main.go src /tmp/x": "delete", "mv -t /tmp main.go": "delete", "mv --target=/tmp main.go": "delete", "mv -ft/var/tmp main.go": "delete", "zip -m /tmp/x.zip main.go": "delete", "zip -rm x.zip src": "delete", "zip -r x.zip src": "", "mv new /tmp": "", "mv -t src main.go": "", "mv /tmp/x main.go": "", "mv build /tmp": "",
		"git send-pack x master": "publish", "git-send-pack x master": "publish", "/usr/lib/git-core/git-send-pack x": "publish", "git http-push https://example.org": "publish", "git-push": "publish", "/usr/lib/git-core/git-reset --merge": "discard-files", "git-lfs": "", "git-status": "",
		"git -c help.autocorrect=1 restor .": "discard-files", "git -c help.autocorrect=1 restor main.go": "discard-files", "git -c Help.AutoCorrect=immediate rset": "discard-files", "git -c help.autocorrect=1 status": "", "git -c include.path=x nuke": "discard-files", "git --config-env=alias.n=X n": "discard-files",
		"GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.n GIT_CONFIG_VALUE_0='reset --hard' git n": "discard-files", "export GIT_CONFIG_GLOBAL=x; git n": "discard-files", "env GIT_CONFIG_PARAMETERS=x git n": "discard-files", "GIT_CONFIG_GLOBAL=/dev/null git commit -m x": "", "GIT_CONFIG_NOSYSTEM=1 git n": "", "git n": "",
		"git reset --merge": "discard-files", "git reset --keep HEAD~1": "discard-files", "git reset --mixed": "", "git checkout-index -f main.go": "discard-files", "git checkout-index main.go": "", "git ls-files | git checkout-index -f --stdin": "discard-files",
		"git update-ref --stdin": "discard-files", "git update-ref refs/heads/old HEAD~1": "discard-files", "git update-ref refs/heads/new HEAD": "", "git branch -f old HEAD~1": "discard-files", "git branch -f new": "", "git branch -M new": "", "git branch -M new old": "discard-files", "git branch new": "",
		"git prune --expire=now": "discard-files", "git prune": "discard-files", "git prune -n": "", "git prune --expire 2.weeks.ago": "", "git read-tree -u -m HEAD~1": "discard-files", "git read-tree --res HEAD": "discard-files", "git read-tree HEAD": "",
		"git rebase --onto HEAD~1 HEAD": "discard-files", "git rebase --onto=HEAD~1 @": "discard-files", "git rebase --onto main topic": "", "git rebase main": "",
		"rm .git/refs/heads/old": "delete", "rm -f .git/index.lock": "", "rm .git/refs/heads/none": "",
		"git rm --f main.go": "discard-files", "git worktree remove --f wt": "discard-files", "git gc --pr=now": "discard-files", "git gc --prune=1.minute.ago": "discard-files", "git branch --d --f x": "discard-files", "tar cf x --remove-file main.go": "delete", "git gc --prune=2.weeks.ago": "", "git branch --format='%(refname)'": "", "git gc": "",
		"rm -rf src": "delete", "rm main.go": "delete", "rm ~/notes": "delete", "find src -name a.go -delete": "delete", "find src -name '*.pyc' -delete": "", "find . -name __pycache__ -exec rm -rf {} +": "", "find src -name '*.go' -exec rm {} +": "delete", "find src -name '*.go'": "", "rm -rf ../other": "delete", "shred main.go": "delete", "truncate -s 0 main.go": "delete", "rm -rf src/*": "delete", "find src -delete": "delete",

		"git status": "", "git commit -m x": "", "git add -A": "", "git stash": "", "git stash pop": "", "git pull": "", "git fetch": "", "git checkout main": "", "git checkout -b x": "", "git push --dry-run": "", "npm install": "", "npm run build": "", "go test ./...": "",
		"curl https://example.org": "", "curl -X POST localhost:8080/x -d '{}'": "", "curl -sS -X POST http://127.0.0.1:1/x": "", "curl -d x http://localhost:3000/x": "", "wget https://example.org": "", "rm -rf build": "", "rm -rf node_modules": "", "rm -f /tmp/x": "", "rm new": "", "rm -rf src/__pycache__": "",
		"cat .env.example": "", "ls -la ~/.ssh": "", "cat ~/.ssh/id_rsa.pub": "", "docker build .": "", "docker ps": "", "gh pr view 1": "", "gh pr list": "", "gh api repos/x": "", "kubectl get pods": "", "rsync -a src/ build/": "", "ssh -V": "", "ssh": "", "git": "", "scp": "", "curl": "", "gh": "", "wget": "", "rsync": "", "ssh git@example.org \"git-upload-pack 'x'\"": "", "echo .env >> .gitignore": "", "cp .env.example .env": "",
		"chmod -R 777 .": "modes", "chmod 777 main.go": "modes", "chmod o+w main.go": "modes", "chmod a+rw main.go": "modes", "chmod ugo=rw main.go": "modes", "chmod go=u src": "modes", "chmod 0666 main.go": "modes", "chmod u=rw,o+w main.go": "modes", "chmod a=r+w main.go": "modes", "chmod =666 main.go": "modes",
		"chmod u+s main.go": "modes", "chmod g+s src": "modes", "chmod +s main.go": "modes", "chmod 4755 main.go": "modes", "chmod 02755 src": "modes", "chmod 6711 build/x": "modes", "chmod u=rwxs main.go": "modes", "chmod +4000 main.go": "modes", "chmod ug+s /tmp/x": "modes", "chmod -R u+s .": "modes", "chmod -- u+s main.go": "modes",
		"find . -name '*.go' -exec chmod 777 {} +": "modes", "ls | xargs chmod a+w": "modes", "chmod 777 $x": "modes", "chmod -R 755 ~/other": "modes", "chmod -R 755 ../other": "modes", "chmod -R go-w ~/other/sub": "modes", "chmod -R -w ~/other": "modes", "chmod --recurs g+w ~/other": "modes", "chmod -R --reference=main.go ~/other": "modes",
		"chown -R me .": "modes", "chown -R me:me src": "modes", "chgrp --recursive x src": "modes", "setfacl -m u:x:rw main.go": "modes", "setfacl -b src": "modes", "setfacl --restore=x": "", "chattr +i main.go": "modes", "chattr -R -i src": "modes", "setcap cap_net_raw+ep main.go": "modes",
		"install -m 4755 main.go /tmp/x": "modes", "install -Dm u+s main.go x": "modes", "install --mode=777 main.go x": "modes", "mkdir -m 777 x": "modes", "mkdir -pm777 x": "modes",
		"chmod 755 main.go": "", "chmod -R 755 .": "", "chmod -R u+rwX src": "", "chmod u+w main.go": "", "chmod +w main.go": "", "chmod g+w main.go": "", "chmod o-w main.go": "", "chmod g-s src": "", "chmod a+x main.go": "", "chmod 1755 src": "", "chmod 0755 main.go": "", "chmod o=r main.go": "", "chmod a=rx,u+w main.go": "",
		"chmod 777 /tmp/x": "", "chmod -R 777 build": "", "chmod -R 777 node_modules": "", "chmod -R 755 /tmp/x": "", "chmod -R 755 ~/none": "", "chmod 600 ~/notes": "", "chmod --help": "", "chown me main.go": "", "chgrp x main.go": "", "getfacl main.go": "", "lsattr": "", "install -m 755 main.go x": "", "install -d x": "", "mkdir -p x": "", "mkdir -m 700 x": "", "mkdir -p mmm": "", "mkdir --mode=755 x": "", "mkdir -m 777 build/x": "",
		"find .. -name '*.log' -delete": "delete", "find ~ -name '*.pyc' -exec rm {} +": "delete", "find ~/other -empty -delete": "delete", "find src ~/other -name '*.o' -delete": "delete", "find ~/other -name x -delete": "delete", "find /tmp -name '*.log' -delete": "delete", "find /var/tmp -name '*.log' -delete": "", "find . -name '*.log' -delete": "", "find . -empty -delete": "", "find .. -name '*.log'": "", "find ~/.cache -name '*.log' -delete": "", "find ~/none -name '*.log' -delete": "",
		"aws s3 ls": "", "npm publish --dry-run": "", "chmod +x x.sh": "", "mv main.go src": "", "touch .env": "",
	} {
		d := p.Judge(command(t, ws, text))
		if (want == "") != (d.Effect == policy.Allow) || want != "" && !strings.Contains(d.Rule, fmt.Sprintf("%q (built-in)", want)) {
			t.Errorf("%s: %s %s, wanted %q", text, d.Effect, d.Rule, want)
		}
		if careful := slices.Contains([]string{"publish", "credentials", "delete", "discard-files", "modes"}, want); careful && opened.Judge(command(t, ws, text)).Effect != policy.Allow {
			t.Errorf("%s: not allowed in the mode open", text)
		}
	}
	x := execution(ws, "/usr/bin/git", "push", "origin")
	if j := p.JudgeExecution(x); j.Effect != policy.Ask || !strings.Contains(j.Rule, "publish") {
		t.Errorf("git push: %+v", j)
	}
	// Git executes further programs for a push and for an alias. For a push, they were already judged together with the
	// push. For an alias, they were not judged before.
	for before, want := range map[string]policy.Effect{"git push": policy.Allow, "git -C x push": policy.Allow, "git p": policy.Ask, "git -c a.b=c p": policy.Ask} {
		x := execution(ws, "/usr/lib/git-core/git", "send-pack", "x")
		x.Before, x.BeforeArgs = "/usr/bin/git", strings.Fields(before)
		if j := p.JudgeExecution(x); j.Effect != want {
			t.Errorf("send-pack after %s: %s %s", before, j.Effect, j.Rule)
		}
		x.Before = filepath.Join(ws, "git-x")
		if j := p.JudgeExecution(x); j.Effect != policy.Ask {
			t.Errorf("send-pack by a program of the workspace: %s %s", j.Effect, j.Rule)
		}
	}
	for settings, want := range map[bool]policy.Effect{true: policy.Ask, false: policy.Allow} {
		x := execution(ws, "/usr/bin/git", "n")
		if x.GitSettings = settings; p.JudgeExecution(x).Effect != want {
			t.Errorf("an unknown command with settings %v: %+v", settings, p.JudgeExecution(x))
		}
	}
	if j := p.JudgeExecution(execution(ws, "/usr/bin/cat", home+"/.netrc")); j.Effect != policy.Ask {
		t.Errorf("cat: %+v", j)
	}
	if d := p.Judge(other(t, ws, "read", `{"file_path":".env"}`)); d.Effect != policy.Ask {
		t.Errorf("read .env: %s", d.Effect)
	}
	if d := p.Judge(other(t, ws, "read", `{"file_path":"main.go"}`)); d.Effect != policy.Allow {
		t.Errorf("read main.go: %s", d.Effect)
	}
}

// TestTemporaryWorkspace checks that a root in a directory for temporary files is not temporary itself, whichever way a
// command names it: by a directory above it, or by a link beside it.
func TestTemporaryWorkspace(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	ws := filepath.Join(top, "a", "ws")
	for _, d := range []string{"a/ws/sub", "a/.git/objects", "a/.git/refs", "a/beside"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"a/ws/notes", "a/ws/x.log", "a/ws/sub/f", "a/.git/HEAD", "a/other", "a/beside/notes"} {
		if err := os.WriteFile(filepath.Join(top, f), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"dir": ws, "file": ws + "/notes"} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	p := policy.New(policy.Rules{Careful: true})
	for text, want := range map[string]string{
		"rm notes": "delete", "rm ../ws/notes": "delete", "rm TOP/a/ws/notes": "delete", "cd ..; rm ws/notes": "delete", "cd TOP && rm a/ws/notes": "delete", "rm TOP/dir/notes": "delete", "cd TOP/dir; rm notes": "delete",
		"find .. -name '*.log' -delete": "delete", "find .. -name notes -delete": "delete", "find ../.. -name notes -exec rm {} +": "delete", "cd ..; find . -name notes -delete": "delete", "find TOP -name '*.log' -exec rm {} +": "delete", "cd ..; find ws -name notes -delete": "delete",
		"find TOP/dir/ -name notes -delete": "delete", "find -L TOP/dir -name notes -delete": "delete", "cd TOP/dir; find . -name notes -delete": "delete", "cd sub; find ../.. -name notes -delete": "delete",
		"truncate -s 0 TOP/file": "delete", "shred TOP/file": "delete", "shred -u TOP/file": "delete", "truncate -s 0 ../../file": "delete",
		"rm -r ../ws": "remove-workspace", "cd ..; rm -r ws": "remove-workspace", "cd ..; rm -r -- ./ws/": "remove-workspace", "rm -r TOP/a": "remove-workspace", "cd ../..; rm -r *": "remove-workspace", "mv ../ws ../x": "remove-workspace", "cd ..; mv ws x": "remove-workspace", "mv TOP/a /var/tmp": "remove-workspace",
		"rsync -a --delete sub/ ..": "remove-workspace", "rsync -a --delete sub/ TOP/dir/": "remove-workspace", "chmod -R 000 ..": "remove-workspace", "chmod -R 000 TOP/dir": "remove-workspace",
		"git -C .. clean -fd": "discard-changes", "git -C TOP/a clean -fdx": "discard-changes", "cd ..; git clean -f": "discard-changes", "git -C TOP/dir clean -f": "discard-changes",
		"chmod -R 777 ..": "modes", "chmod 777 TOP": "modes", "chmod 666 TOP/file": "modes", "chmod -R a+w TOP/dir": "modes",

		"rm ../other": "", "rm -r ../beside": "", "find ../beside -name notes -delete": "", "chmod 777 ../other": "", "rm TOP/file": "", "mv TOP/file TOP/x": "", "rm TOP/dir": "", "find TOP/dir -name notes -delete": "", "find .. -name notes": "",
	} {
		d := p.Judge(command(t, ws, strings.ReplaceAll(text, "TOP", top)))
		if (want == "") != (d.Effect == policy.Allow) || want != "" && !strings.Contains(d.Rule, fmt.Sprintf("%q (built-in)", want)) {
			t.Errorf("%s: %s %s, wanted %q", text, d.Effect, d.Rule, want)
		}
	}
}

// TestSessionsOwnFiles checks that a session can delete files that it created.
func TestSessionsOwnFiles(t *testing.T) {
	_, ws := project(t)
	p := policy.New(policy.Rules{Careful: true})
	req := command(t, ws, "rm -rf made main.go.new")
	start := time.Now()
	time.Sleep(20 * time.Millisecond) // file times have the precision of a clock tick
	if err := os.MkdirAll(filepath.Join(ws, "made", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if req.Since = start; p.Judge(req).Effect != policy.Allow && policy.StoresBirth(ws) {
		t.Errorf("a new directory: %+v", p.Judge(req))
	}
	stash := filepath.Join(ws, ".git/refs/stash")
	if err := os.WriteFile(stash, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ref := command(t, ws, "rm .git/refs/stash")
	if ref.Since = start; p.Judge(ref).Effect != policy.Ask {
		t.Errorf("a new stash: %+v", p.Judge(ref))
	}
	req.Since = time.Now().Add(time.Hour)
	if p.Judge(req).Effect != policy.Ask {
		t.Errorf("an old directory: %+v", p.Judge(req))
	}
	req.Since = time.Time{}
	if p.Judge(req).Effect != policy.Ask {
		t.Errorf("an unknown start: %+v", p.Judge(req))
	}
}

// TestLossesOfMany checks that a judgement has limits. A command beyond the limits must not count as harmless.
func TestLossesOfMany(t *testing.T) {
	_, ws := project(t)
	// The race detector on a busy machine takes longer than the real limit. The number of operations has a limit of its
	// own.
	restore := policy.LimitTime(time.Minute)
	defer restore()
	p := policy.New(policy.Rules{})
	judged := func(files policy.Files, words ...string) policy.Judgement {
		x := execution(ws, words...)
		x.Workspace, x.Call, x.Files = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}, files
		return p.JudgeExecution(x)
	}
	many := func(program, pattern string, count int) []string {
		words := []string{"/usr/bin/" + program, "-rf"}
		for i := range count {
			words = append(words, fmt.Sprintf(pattern, i))
		}
		return words
	}
	if j := judged(nil, many("rm", "x%d", 10_000)...); j.Effect != policy.Allow {
		t.Errorf("many files that do not exist: %s %s", j.Effect, j.Reason)
	}
	if j := judged(nil, append(many("rm", "x%d", 10_000), ".git")...); !strings.Contains(j.Rule, "remove-repository") {
		t.Errorf("many files and a repository: %s %s", j.Effect, j.Rule)
	}
	if j := judged(nil, many("rm", "x%d/*", 10_000)...); j.Effect != policy.Allow {
		t.Errorf("many patterns: %s %s", j.Effect, j.Reason)
	}
	careful := func(files policy.Files, count int) policy.Judgement {
		words := []string{"/usr/bin/grep", "x"}
		for i := range count {
			words = append(words, fmt.Sprintf("none%d", i))
		}
		x := execution(ws, words...)
		x.Workspace, x.Call, x.Files = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}, files
		return policy.New(policy.Rules{Careful: true, Deny: []string{"secret/**"}}).JudgeExecution(x)
	}
	counted := &counting{}
	if j := careful(counted, 20_000); j.Effect != policy.Allow || counted.followed > 100 {
		t.Errorf("many names that do not exist: %s %s, %d are resolved", j.Effect, j.Reason, counted.followed)
	}
	defer policy.LimitTime(50 * time.Millisecond)()
	late := &counting{slow: true}
	if j := careful(late, 20_000); j.Effect != policy.Ask || late.examined > 100 {
		t.Errorf("slow names: %s, %d were examined", j.Effect, late.examined)
	}
	if j := judged(slow{}, many("rm", "x%d", 100)...); j.Effect != policy.Ask || !strings.Contains(j.Reason, "Name fewer files") {
		t.Errorf("slow files: %s %s", j.Effect, j.Reason)
	}
	if j := judged(broken{}, many("rm", "x/%d", 2)...); j.Effect != policy.Ask || !strings.Contains(j.Reason, "cannot be examined") {
		t.Errorf("files that cannot be examined: %s %s", j.Effect, j.Reason)
	}
	if j := judged(broken{}, "/usr/bin/git", "checkout", "--", "x"); j.Effect != policy.Ask {
		t.Errorf("a repository that cannot be examined: %s %s", j.Effect, j.Reason)
	}
	if j := judged(broken{}, "/usr/bin/ls", "x"); j.Effect != policy.Allow {
		t.Errorf("a program that loses nothing: %s %s", j.Effect, j.Reason)
	}
}

// counting is an empty file system that counts its operations.
type counting struct {
	broken
	slow               bool
	followed, examined int
}

func (c *counting) Follow(path string) (string, error) {
	c.followed++
	return path, nil
}

func (c *counting) Lstat(string) (device, inode uint64, dir bool, err error) {
	if c.examined++; c.slow {
		time.Sleep(time.Millisecond)
	}
	return 0, 0, false, os.ErrNotExist
}

// slow is a file system in which every operation takes time and nothing exists.
type slow struct{ broken }

func (slow) Follow(path string) (string, error) { return path, nil }

func (slow) Names(string, int) ([]string, error) { return nil, os.ErrNotExist }

func (slow) Lstat(string) (device, inode uint64, dir bool, err error) {
	time.Sleep(time.Millisecond)
	return 0, 0, false, os.ErrNotExist
}

// broken is a file system in which every access fails.
type broken struct{}

func (broken) Follow(string) (string, error) { return "", os.ErrPermission }

func (broken) Lstat(string) (device, inode uint64, dir bool, err error) {
	return 0, 0, false, os.ErrPermission
}
func (broken) Names(string, int) ([]string, error) { return nil, os.ErrPermission }
func (broken) Born(string) time.Time               { return time.Time{} }
func (broken) Fingerprint(string) string           { return "" }
