//go:build !race

package policy_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

// stub is a script that records the name, the directory and the arguments of a program instead of running the program.
const stub = `#!/bin/bash
printf '%s\0' "${0##*/}" "$PWD" "$@" $'\n' >> "$EXECUTED"
case "${0##*/} $* " in *' -delete '*) ;; find*) exec /usr/bin/find "$@";; esac
exit 0
`

// executed runs a script in a real shell and returns the programs that the shell executed. Stubs replace
// the programs that can delete files.
func executed(t *testing.T, bin, dir, script string) (out []*policy.Execution) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", script)
	c.Dir, c.Env = dir, []string{"PATH=" + bin + ":/usr/bin:/bin", "EXECUTED=" + log, "HOME=" + os.Getenv("HOME")}
	if text, err := c.CombinedOutput(); ctx.Err() != nil {
		t.Fatalf("%s: %v\n%s", script, err, text)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Errorf("%s executed nothing", script)
	}
	for record := range bytes.SplitSeq(text, []byte("\x00\n\x00")) {
		words := strings.Split(string(record), "\x00")
		if len(words) > 1 {
			x := execution(words[1], append([]string{"/usr/bin/" + words[0]}, words[2:]...)...)
			out = append(out, x)
		}
	}
	return out
}

// TestOracleWaysToLose runs scripts that lose the workspace, a repository or all changes in different ways. For each
// script, the policy must ask about or deny at least one program that the shell executes.
func TestOracleWaysToLose(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"rm", "git", "mv", "chmod", "shred", "truncate", "rsync", "tar", "find", "systemctl", "tee", "busybox", "unlink", "sudo"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(stub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, ws := project(t)
	p := policy.New(policy.Rules{})
	judged := func(script string) (ask bool, seen []string) {
		for _, x := range executed(t, bin, ws, script) {
			x.Workspace, x.Call = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}
			ask = ask || p.JudgeExecution(x).Effect != policy.Allow
			seen = append(seen, fmt.Sprintf("%q in %s", x.Args, x.Dir))
		}
		return ask, seen
	}
	ways := []string{
		`rm -rf "$UNSET"/*`, `rm -rf *`, `rm -rf ./*`, `rm -rf "$PWD"`, `rm -rf .`, `cd .. && rm -rf *`, `cd .. && rm -rf ws`, `cd src && rm -rf ../*`, `cmd=(rm -rf); "${cmd[@]}" *`, `pushd src; rm -rf ../*`,
		`source <(echo 'rm -rf *')`, `ls | xargs rm -rf`, `printf '%s\0' * | xargs -0 rm -rf`, `find . -mindepth 1 -maxdepth 1 -print0 | xargs -0 rm -rf`, `find . -delete`, `find . -type f -exec rm {} \;`, `find . -type f -exec rm {} +`,
		"shopt -s expand_aliases; alias wipe='rm -rf'\nwipe *", `r() { rm -rf "$@"; }; r *`, `eval 'rm -rf *'`, `x=r; y=m; $x$y -rf *`, `$(echo rm) -rf *`, `bash -c 'rm -rf *'`, `echo 'rm -rf *' | bash`, `trap 'rm -rf *' EXIT`, `env rm -rf *`, `nohup rm -rf *`, `timeout 5 rm -rf *`,
		`command rm -rf *`, `exec rm -rf *`, `(rm -rf *)`, "rm -rf * &\nwait", `shopt -s dotglob; rm -rf *`, `shopt -s globstar; rm -rf **`, "shopt -s extglob\nrm -rf !(x)", `rm -rf {src,docs,build,nested,one,node_modules,go.mod,main.go,README}`, `rm -r -- *`, `rm -rf "$(pwd -P)"`, `D=$(git rev-parse; pwd); rm -rf $D`,
		`ln -sfn "$PWD" ../away; rm -rf ../away/`, `ln -sfn "$PWD" ../away; rm -rf ../away/*`, `rm -rf .git`, `rm -rf .g*`, `git clean -fdx`, `git -C . clean -fdx`, `git reset --hard`, `git checkout .`, `cd src && git checkout -- ..`, `git checkout -- *`, `git restore .`,
		`GIT_DIR=.git git reset --hard HEAD`, `git -c alias.x='reset --hard' x`, `mv * /tmp/`, `mv "$PWD" /tmp/elsewhere`, `chmod -R 000 .`, `chmod -R a-rwx ..`, `rsync -a --delete "$(mktemp -d)/" .`, `tar --remove-files -cf /tmp/x.tar .`,
		`busybox rm -rf *`, `/usr/bin/env -S 'rm -rf' .`, `perl -e 'exec("rm", "-rf", ".")'`, `printf 'all:\n\trm -rf *\n' | make -f -`, `while read -r x; do set -- "$@" "$x"; done < <(ls); rm -rf "$@"`, `IFS=:; v=src:docs:build:nested:one:node_modules:go.mod:main.go:README; rm -rf $v`,
		`mapfile -t a < <(ls); rm -rf "${a[@]}"`, `shred -u go.mod main.go README; rm -rf *`, `systemctl reboot`, `x='*'; rm -rf $x`, `rm -rf $(ls)`, "rm -rf `ls`", `f=rm; ${f} -rf "${PWD}"`, `sh -c 'cd ..; rm -rf ws'`, `sudo rm -rf .`, `rm -rf ~`, `find . -type f | xargs rm -f`, `git init -q; find . -type f -not -path './.git/*' | xargs -n 100 rm`,
	}
	if len(ways) < 40 {
		t.Fatal(len(ways))
	}
	early := 0 // number of scripts whose text alone shows the loss
	for _, script := range ways {
		if p.Judge(command(t, ws, script)).Effect != policy.Allow {
			early++
		}
		if program, _, _ := strings.Cut(script, " "); program == "perl" || strings.Contains(script, "| make") {
			if _, err := exec.LookPath(map[bool]string{true: "perl", false: "make"}[program == "perl"]); err != nil {
				continue
			}
		}
		if ask, seen := judged(script); !ask {
			t.Errorf("%s is allowed: %s", script, strings.Join(seen, "; "))
		}
	}
	if early < 50 {
		t.Errorf("only %d of %d ways are asked about before the script runs", early, len(ways))
	}
	for _, script := range []string{
		`rm -rf build node_modules`, `rm -f src/*.o`, `find . -name '*.pyc' -exec rm {} +`, `find . -name '*.tmp' -delete`, `cd build && rm -rf *`, `rm -rf "$(mktemp -d)"`, `git status; git stash; git checkout main; git checkout -b x`, `git reset --soft HEAD~1`, `git clean -n`,
		`mv main.go src/`, `chmod -R u+rwX .`, `rsync -a src/ build/`, `tar -cf /tmp/x.tar .`, `rm main.go README`, `rm -rf src/*`, `cd /tmp && rm -rf nothing-here`,
	} {
		if ask, seen := judged(script); ask {
			t.Errorf("%s is not allowed: %s", script, strings.Join(seen, "; "))
		}
	}
}
