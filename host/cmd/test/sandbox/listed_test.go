package sandbox

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// unlisted contains scripts that create the file RAN although the program touch is not listed. The key describes the
// method.
var unlisted = map[string]string{
	"plain":                  `touch RAN`,
	"let":                    `let 'a[$(touch RAN)]=1'`,
	"conditional -v":         `[[ -v 'a[$(touch RAN)]' ]]`,
	"test -v":                `test -v 'a[$(touch RAN)]'`,
	"bracket -v":             `[ -v 'a[$(touch RAN)]' ]`,
	"bracket -v by a name":   `x=-v; [ $x 'a[$(touch RAN)]' ]`,
	"conditional -eq":        `[[ 'a[$(touch RAN)]' -eq 1 ]]`,
	"printf -v":              `printf -v 'a[$(touch RAN)]' x`,
	"read":                   `read 'a[$(touch RAN)]' <<< x`,
	"unset":                  `a=(1); unset 'a[$(touch RAN)]'`,
	"declare -i":             `declare -i n='a[$(touch RAN)]'`,
	"declare -n":             `declare -n r='a[$(touch RAN)]'; echo $r`,
	"declare index":          `declare 'a[$(touch RAN)]=1'`,
	"prompt expansion":       `x='$(touch RAN)'; echo ${x@P}`,
	"arithmetic value":       `x='a[$(touch RAN)]'; echo $((x))`,
	"arithmetic command":     `x='a[$(touch RAN)]'; ((x))`,
	"arithmetic chain":       `x='a[$(touch RAN)]'; y=x; echo $((y))`,
	"arithmetic from a file": "echo 'a[$(touch RAN)]' > f; x=$(cat f); echo $((x))",
	"index":                  `x='a[$(touch RAN)]'; echo ${b[x]}`,
	"slice":                  `x='a[$(touch RAN)]'; y=abc; echo ${y:x}`,
	"trace":                  `PS4='$(touch RAN)'; set -x; echo`,
	"indirect":               `x='a[$(touch RAN)]'; echo ${!x}`,
	"loop arithmetic":        `x='a[$(touch RAN)]'; for ((i=x;i<1;i++)); do echo; done`,
	"number of the shell":    `x='a[$(touch RAN)]'; RANDOM=x; SECONDS=x`,
	"path":                   `PATH=.; ls`,
	"path by for":            `for PATH in .; do ls; done`,
	"path by read":           `read PATH <<< .; ls`,
	"path by printf":         `printf -v PATH .; ls`,
	"path by a default":      `unset PATH; : ${PATH:=.}; ls`,
	"path by export":         `export PATH=.; ls`,
	"path by a redirect":     `x=PATH; declare $x=.; ls`,
	"eval":                   `eval 'touch RAN'`,
	"eval of a value":        `x='touch RAN'; eval "$x"`,
	"trap":                   `trap 'touch RAN' EXIT`,
	"trap debug":             `trap 'touch RAN' DEBUG; echo`,
	"hash":                   `hash -p /usr/bin/touch ls; ls RAN`,
	"command table":          `BASH_CMDS[ls]=/usr/bin/touch; ls RAN`,
	"alias":                  "shopt -s expand_aliases; alias ls='touch RAN'\nls",
	"environment file":       "echo 'touch RAN' > x; set -a; BASH_ENV=x; bash -c ls",
	"environment prefix":     "echo 'touch RAN' > x; BASH_ENV=x bash -c ls",
	"start file":             "echo 'touch RAN' > x; bash --rcfile x -i -c ls",
	"mapfile":                `mapfile -C 'touch RAN;:' -c 1 a <<< x`,
	"completion":             `compgen -C 'touch RAN;:' x`,
	"completion words":       `compgen -W '$(touch RAN)'`,
	"prompt command":         `PROMPT_COMMAND='touch RAN'; bash -i -c ls; echo 'touch RAN' | bash`,
	"coprocess":              `coproc touch RAN; wait`,
	"jobs -x":                `jobs -x touch RAN`,
	"exec":                   `exec touch RAN`,
	"command":                `command touch RAN`,
	"builtin eval":           `builtin eval 'touch RAN'`,
	"function":               `ls() { touch RAN; }; ls`,
	"function arguments":     `g() { "$@"; }; g touch RAN`,
	"variable":               `x=touch; $x RAN`,
	"substitution":           `$(echo touch) RAN`,
	"process substitution":   `source <(echo touch RAN)`,
	"pipe":                   `echo touch RAN | sh`,
	"quoted dollar in sh":    `sh -c "echo \$'a\' ; touch RAN #'"`,
	"backquotes":             "echo `touch RAN`",
	"wait -p":                `wait -n -p 'a[$(touch RAN)]'; wait; (exit 0) & wait -p 'a[$(touch RAN)]' $!`,
	"loop variable":          `for PATH in /usr/bin; do touch RAN; done`,
	"xargs":                  `echo RAN | xargs touch`,
	"xargs shell":            `echo 'touch RAN' | xargs -I{} sh -c {}`,
	"find exec":              `find . -maxdepth 0 -exec touch RAN ';'`,
	"find exec by a name":    `x=-exec; find . -maxdepth 0 $x touch RAN ';'`,
	"find exec by a file":    `echo > -exec; echo > RUN; find . -maxdepth 0 -exe[c] touch RAN ';'`,
	"find fprintf":           `find . -maxdepth 0 -fprintf RAN x`,
	"awk":                    `awk 'BEGIN { system("touch RAN") }'`,
	"awk pipe":               `awk 'BEGIN { print | "touch RAN" }'`,
	"awk getline":            `awk 'BEGIN { "touch RAN" | getline }'`,
	"sed e":                  `echo x | sed '1e touch RAN'`,
	"sed s///e":              `echo touch RAN | sed 's/x/x/;s/$//e'`,
	"sort":                   `sort -S 1k --compress-program=./evil big`,
	"sort abbreviated":       `sort -S 1k --compress-prog ./evil big`,
	"tar checkpoint":         `tar -cf x.tar big --checkpoint=1 --checkpoint-action=exec='touch RAN'`,
	"tar program":            `tar -cf x.tar -I ./evil big`,
	"make":                   "echo 'x:;touch RAN' | make -f- x",
	"make eval":              `make --eval='$(shell touch RAN)'`,
	"env -S":                 `env -S 'touch RAN'`,
	"env":                    `env touch RAN`,
	"setarch":                `setarch -R touch RAN`,
	"prlimit":                `prlimit touch RAN`,
	"timeout":                `timeout 5 touch RAN`,
	"nice":                   `nice touch RAN`,
	"split":                  `split --filter='touch RAN' big`,
	"git alias":              `git -c alias.status='!touch RAN' status; git -c alias.x='!touch RAN' x`,
	"git pager":              `git -c core.fsmonitor='touch RAN;:' status`,
	"git environment":        `GIT_EXTERNAL_DIFF=./evil git log -p --ext-diff; GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0='touch RAN;:' git status`,
	"wrong wrapper":          `./env ls`,
	"wrong shell":            `./bash -c ls`,
	"loader":                 `/lib64/ld-linux-x86-64.so.2 /usr/bin/touch RAN`,
}

// listedPrograms lists all programs in the scripts of unlisted except touch. Some of these programs can run other
// programs.
const listedPrograms = `"ls *", "cat *", "echo *", "git status *", "git log *", "xargs *", "find *", "awk *", "sed *", "sort *", "tar *", "make *", "env *", "setarch *", "prlimit *", "split *", "bash *", "sh *"`

// writeConfig writes a configuration and a workspace with the files that scripts use. It returns the workspace and the
// path of the configuration.
func writeConfig(t *testing.T, text string) (ws, config string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, config = filepath.Join(dir, "ws"), filepath.Join(dir, "config.hcl")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	hosttest.Must(t, os.WriteFile(config, []byte(text), 0o600))
	fillDirectory(t, ws)
	return ws, config
}

// fillDirectory makes a repository with the files that the scripts of unlisted use.
func fillDirectory(t *testing.T, dir string) {
	t.Helper()
	const evil = "#!/bin/bash\n: > RAN\n/bin/cat\n"
	for name, text := range map[string]string{"evil": evil, "env": evil, "bash": evil, "ls": evil, "big": strings.Repeat("0123456789\n", 3000)} {
		hosttest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// listForms contains the two forms of a list of programs in the configuration.
var listForms = map[string]string{
	"programs": "permissions {\n programs {\n mode = \"listed\"\n allow = [" + listedPrograms + "]\n}\n}",
	"commands": "permissions {\n commands = \"allow-list\"\n allow \"listed\" { command = [" + listedPrograms + "] }\n}",
}

// sessionOf returns the name of the session, and of the directory, for a script.
func sessionOf(name string) string {
	return strings.NewReplacer(" ", "-", ":", "", "/", "", "$", "").Replace(name)
}

// runListed runs scripts in separate sessions. It returns one line of output for each script.
func runListed(t *testing.T, ws, config string, scripts map[string]string) (lines []string) {
	t.Helper()
	var calls bytes.Buffer
	for name, script := range scripts {
		if err := json.NewEncoder(&calls).Encode(map[string]string{"id": name, "command": script, "session": sessionOf(name)}); err != nil {
			t.Fatal(err)
		}
	}
	c := hosttest.CommandContext(t.Context(), "--state", hosttest.KeptState(t, filepath.Join(t.TempDir(), "state")), "--config", config, "batch")
	c.Dir, c.Stdin = ws, &calls
	out, _ := c.Output() // ignore the error: some calls fail
	for line := range strings.Lines(string(out)) {
		lines = append(lines, line)
	}
	return lines
}

// TestListedPrograms checks scripts that execute an unlisted program. Without namespaces, the scripts must be refused
// before they run, with both forms of the list.
func TestListedPrograms(t *testing.T) {
	t.Parallel()
	for name, permissions := range listForms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws, config := writeConfig(t, "plugin \"bash\" {}\nsandbox {\n backend = \"landlock\"\n}\n"+permissions)
			refused := 0
			for _, line := range runListed(t, ws, config, unlisted) {
				if strings.Contains(line, "only listed commands are allowed") {
					refused++
				} else {
					t.Errorf("not refused: %s", line)
				}
			}
			if _, err := os.Lstat(filepath.Join(ws, "RAN")); err == nil || refused != len(unlisted) {
				t.Errorf("%d of %d scripts were refused; RAN exists: %v", refused, len(unlisted), err == nil)
			}
		})
	}
}

// TestUnlistedProgramsRun validates [TestListedPrograms]. Without a list, each script must run the program. Each
// script runs in its own session and directory.
func TestUnlistedProgramsRun(t *testing.T) {
	t.Parallel()
	ws, config := writeConfig(t, "plugin \"bash\" {}\n")
	scripts, dirs := make(map[string]string), make(map[string]string)
	for name, script := range unlisted {
		dirs[name] = filepath.Join(ws, "in-"+sessionOf(name))
		hosttest.Must(t, os.Mkdir(dirs[name], 0o755))
		fillDirectory(t, dirs[name])
		scripts[name] = "cd " + dirs[name] + "\n" + script
	}
	const together = 20 // each session starts a process, and on a busy machine, too many starts at once take too long
	var lines []string
	for names := range slices.Chunk(slices.Sorted(maps.Keys(scripts)), together) {
		some := make(map[string]string)
		for _, name := range names {
			some[name] = scripts[name]
		}
		lines = append(lines, runListed(t, ws, config, some)...)
	}
	for name, script := range unlisted {
		if _, err := os.Lstat(filepath.Join(dirs[name], "RAN")); err != nil {
			t.Errorf("%s does not run the program:\n%s", script, strings.Join(lines, ""))
		}
	}
}
