package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// unlistedAtExecution contains further scripts that create the file RAN although the program touch is not listed. An
// analysis of the script cannot recognize this. It can only be recognized when the programs are executed.
var unlistedAtExecution = map[string]string{
	"unknown word":        `x=$(tr x x <<< touch); $x RAN`,
	"link":                `ln -s /usr/bin/touch ls2; ./ls2 RAN`,
	"link with a name":    `mkdir l; ln -s /usr/bin/touch l/ls; l/ls RAN`,
	"copy with a name":    `mkdir c; cp /usr/bin/touch c/ls; c/ls RAN; PATH=$PWD/c:$PATH; ls RAN`,
	"hard link":           `mkdir h; cp /usr/bin/touch h/x; ln h/x h/ls; h/ls RAN`,
	"other name":          `(exec -a ls touch RAN)`,
	"descriptor":          `exec 9</usr/bin/touch; /dev/fd/9 RAN; /proc/self/fd/9 RAN; /proc/thread-self/fd/9 RAN; /proc/$$/fd/9 RAN`,
	"link to descriptor":  `exec 9</usr/bin/touch; ln -s /proc/self/fd/9 via; ./via RAN`,
	"root":                `/proc/self/root/usr/bin/touch RAN`,
	"directory":           `cd /usr/bin; o=$OLDPWD; ./touch "$o/RAN"`,
	"parents":             `/usr/bin/../../bin/../usr/bin/touch RAN`,
	"script":              `printf '#!/usr/bin/touch\n' > RAN1; chmod 755 RAN1; cp RAN1 s; touch() { ./s RAN; }; touch`,
	"script by a shell":   `printf 'touch RAN\n' > s; bash s; sh ./s; . ./s; bash < s`,
	"script without line": `printf 'touch RAN\n' > s2; chmod 755 s2; ./s2`,
	"loader":              `/lib64/ld-linux-x86-64.so.2 /usr/bin/touch RAN; l=$(tr x x <<< /lib64/ld-linux-x86-64.so.2); $l /usr/bin/touch RAN`,
	"environment":         `env -i /usr/bin/touch RAN; env -i bash -c 'touch RAN'; (exec -c touch RAN)`,
	"background":          `(bash -c 'touch RAN' &) ; wait; setsid touch RAN; sleep 0.2`,
	"orphan":              `( ( sleep 0.1; touch RAN ) & ) ; sleep 0.5`,
	"memory":              `/usr/bin/python3 -c "import os; f=os.memfd_create('x',0); os.write(f,open('/usr/bin/touch','rb').read()); os.execve(f,['ls','RAN'],{})"`,
	"sealed memory":       `/usr/bin/python3 -c "import os; f=os.memfd_create('x',8); os.write(f,open('/usr/bin/touch','rb').read()); os.execve(f,['ls','RAN'],{})"; /usr/bin/python3 -c "import os; f=os.memfd_create('x',0); os.write(f,open('/usr/bin/touch','rb').read()); os.execve('/proc/self/fd/%d'%f,['ls','RAN'],{})"`,
	"python":              `/usr/bin/python3 -c "import os; os.execv('/usr/bin/touch',['ls','RAN'])"; /usr/bin/python3 -c "import subprocess; subprocess.run(['touch','RAN'])"`,
	"python threads":      `/usr/bin/python3 -c "import os,threading; t=threading.Thread(target=lambda: os.execv('/usr/bin/touch',['touch','RAN'])); t.start(); t.join()"`,
	"python descriptor":   `/usr/bin/python3 -c "import os; f=os.open('/usr/bin/touch',os.O_PATH); os.execve(f,['ls','RAN'],{})"`,
	"perl":                `perl -e 'exec {"/usr/bin/touch"} "ls","RAN"'`,
	"own program":         `cp /usr/bin/touch /tmp/ls; /tmp/ls RAN; cp /usr/bin/touch /dev/shm/ls; /dev/shm/ls RAN; cp /usr/bin/touch ~/ls; ~/ls RAN`,
	"wrapper":             `$(tr x x <<< nice) touch RAN; $(tr x x <<< timeout) 5 touch RAN; $(tr x x <<< nohup) touch RAN; $(tr x x <<< stdbuf) -o0 touch RAN`,
	"preload":             `LD_PRELOAD=$PWD/lib.so ls; env LD_PRELOAD=$PWD/lib.so ls; export LD_AUDIT=$PWD/lib.so; ls`,
	"loadable builtin":    `enable -f $PWD/lib.so x; BASH_LOADABLES_PATH=$PWD; enable -f lib.so y; e=$(tr x x <<< enable); $e -f $PWD/lib.so x`,
	"conversion":          `GCONV_PATH=$PWD iconv -f x -t y big; export GCONV_PATH=$PWD; ls`,
	"git editor":          `git -c core.editor='touch RAN;:' commit --allow-empty; g=$(tr x x <<< git); $g -c alias.x='!touch RAN' x`,
	"swapped link":        `mkdir sw; ln -s /usr/bin/ls sw/ls; (for i in 1 2 3 4 5 6 7 8 9; do ln -sfn /usr/bin/touch sw/ls; ln -sfn /usr/bin/ls sw/ls; done &); for i in 1 2 3 4 5 6 7 8 9; do sw/ls RAN 2>/dev/null; done`,
}

// gatedScripts returns the scripts of the table unlistedAtExecution and more scripts. In each script, a unique file
// name replaces RAN. The file names are in witnesses.
func gatedScripts(more map[string]string) (scripts, witnesses map[string]string) {
	scripts, witnesses = make(map[string]string), make(map[string]string)
	all := make(map[string]string)
	maps.Copy(all, more)
	for name, script := range unlistedAtExecution {
		all["at execution: "+name] = script
	}
	delete(all, "find fprintf") // in this script, find writes the file without touch
	for i, name := range slices.Sorted(maps.Keys(all)) {
		witnesses[name] = fmt.Sprintf("RAN_%d_", i)
		scripts[name] = strings.ReplaceAll(all[name], "RAN", witnesses[name])
	}
	return scripts, witnesses
}

// listedAtExecution lists all programs of the scripts except touch.
const listedAtExecution = listedPrograms + `, "tr *", "ln *", "mkdir *", "cp *", "chmod *", "perl *", "python3 *", "iconv *", "sleep *", "setsid *"`

// TestListedProgramsAtExecution runs scripts with namespaces and the exec gate. Each script tries to execute an
// unlisted program. The scripts must not be refused in advance, but none of them must execute the program.
func TestListedProgramsAtExecution(t *testing.T) {
	hosttest.NeedsNamespaces(t)
	t.Parallel()
	ws, config := writeConfig(t, "plugin \"bash\" {}\npermissions {\n programs {\n mode = \"listed\"\n allow = ["+listedAtExecution+"]\n}\n}")
	addLibrary(t, ws)
	scripts, witnesses := gatedScripts(unlisted)
	if lines := runListed(t, ws, config, scripts); len(lines) != len(scripts) {
		t.Errorf("%d of %d scripts ended", len(lines), len(scripts))
	}
	for name, witness := range witnesses {
		if found, _ := filepath.Glob(filepath.Join(ws, witness+"*")); len(found) > 0 {
			t.Errorf("%s executed an unlisted program: %s", name, scripts[name])
		}
	}
	for _, name := range []string{"RAN", "LOADED"} {
		if _, err := os.Lstat(filepath.Join(ws, name)); err == nil {
			t.Errorf("%s exists", name)
		}
	}
}

// TestUnlistedAtExecutionRun validates [TestListedProgramsAtExecution]. Without a list, most scripts must execute the
// program. [TestUnlistedProgramsRun] does the same for the other scripts.
func TestUnlistedAtExecutionRun(t *testing.T) {
	hosttest.NeedsNamespaces(t)
	t.Parallel()
	ws, config := writeConfig(t, "plugin \"bash\" {}\n")
	addLibrary(t, ws)
	scripts, witnesses := gatedScripts(nil)
	runListed(t, ws, config, scripts)
	ran := 0
	for _, witness := range witnesses {
		if found, _ := filepath.Glob(filepath.Join(ws, witness+"*")); len(found) > 0 {
			ran++
		}
	}
	if ran < len(scripts)*3/4 {
		t.Errorf("only %d of %d scripts run the program without a list", ran, len(scripts))
	}
	t.Logf("%d of %d scripts run the program without a list", ran, len(scripts))
}

// addLibrary adds a library that creates the file LOADED when a program loads the library. Without a compiler, the test
// fails in CI. Elsewhere, it continues without the library.
func addLibrary(t *testing.T, ws string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "lib.c")
	text := fmt.Sprintf("#include <fcntl.h>\n__attribute__((constructor)) static void loaded(void) { open(%q, O_CREAT|O_WRONLY, 0600); }\n", filepath.Join(ws, "LOADED"))
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", filepath.Join(ws, "lib.so"), source).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no compiler works: %v %s", err, out)
		}
		t.Logf("libraries are not tested, because no compiler works: %v %s", err, out)
	}
}

// racer is a program that executes a listed program in a loop. Meanwhile, another thread replaces the path in memory by
// the path of an unlisted program, and back.
const racer = `
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
good, bad, n = b"/usr/bin/true", b"/usr/bin/touch", 0
for i in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        buf = ctypes.create_string_buffer(good + b"\0" * 16)
        argv = (ctypes.c_char_p * 3)(b"true", b"RACED", None)
        def flip():
            a, b = good + b"\0\0", bad + b"\0"
            while True:
                ctypes.memmove(buf, b, len(b))
                ctypes.memmove(buf, a, len(a))
        threading.Thread(target=flip, daemon=True).start()
        for k in range(20):
            libc.execve(buf, argv, None)
        os._exit(0)
    os.waitpid(pid, 0)
    if os.path.exists("RACED"):
        n += 1
        os.unlink("RACED")
print("won", n, "of", sys.argv[1])
`

// TestRacesForUnlistedPrograms checks that a thread cannot execute an unlisted program by changing the path after the
// judgement.
func TestRacesForUnlistedPrograms(t *testing.T) {
	hosttest.NeedsNamespaces(t)
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		need.Missing(t, "no /usr/bin/python3")
	}
	t.Parallel()
	ws, config := writeConfig(t, "plugin \"bash\" {}\npermissions {\n programs {\n mode = \"listed\"\n allow = [\"python3 *\", \"true *\"]\n}\n}")
	if err := os.WriteFile(filepath.Join(ws, "race.py"), []byte(racer), 0o600); err != nil {
		t.Fatal(err)
	}
	out := runIn(t, ws, t.TempDir(), nil, "--config", config, "run", "/usr/bin/python3 race.py 350")
	if !strings.Contains(out, "won 0 of 350") {
		t.Errorf("races: %s", out)
	}
}

// ordinaryScripts contains typical scripts. Their output does not depend on the machine.
var ordinaryScripts = []string{
	`echo one; printf '%s\n' two three; seq 3 | tac`, `for f in a b c; do echo "$f" > "$f.txt"; done; cat *.txt`, `ls big evil | sort -r | head -3; echo $?`,
	`grep -n 5 big | head -2; grep -c 9 big; grep nothing big; echo $?`, `awk '{ n += length($0) } END { print n, NR }' big`, `sed -n '3,5p;s/0/x/;7q' big | tail -2`,
	`cat <<E | tr a-z A-Z\nsome text\nE`, `diff <(seq 3) <(seq 4); echo $?`, `find . -name '*.none' -exec echo {} ';'; find . -maxdepth 1 -name big -print0 | xargs -0 wc -l`,
	`trap 'echo bye' EXIT; echo hi; exit 3`, `f() { local x=$1; echo "f $x"; return 4; }; f y; echo $?`, `set -e; true; false; echo never`, `set -o pipefail; false | true; echo $?; echo "${PIPESTATUS[@]}"`,
	`nosuchprogram; echo $?; ./nosuchfile; echo $?; . ./nosuchfile; echo $?`, `(exit 7); echo $?; { bash -c 'kill -9 $$'; } 2>/dev/null; echo $?; sh -c 'exit 9'; echo $?`,
	`sleep 0.05 & wait $!; echo $?; { sleep 0.01; echo late; } & wait; echo end`, `x=$(seq 3 | paste -sd+ ); echo "$x" = $((x))`, `while read -r a b; do echo "$b-$a"; done <<< 'one two'`,
	`a=(1 2 3); echo "${a[@]:1}" "${#a[@]}"; declare -A m=([k]=v); echo "${m[k]}"`, `mkdir -p d/e; touch d/e/f; cp -r d g; mv g h; rm -r d; find h | sort; rmdir h 2>&1; rm -rf h; ls -d h 2>&1`,
	`env -i A=b env; env | grep -c '^PATH='`, `tar -cf - big | tar -tf -; gzip -c big | gunzip | cmp - big && echo same`, `perl -e 'print join(",", map { $_ * 2 } 1..3), "\n"; system("echo from perl"); exit 5'; echo $?`,
	`printf 'x:\n\t@echo made $(shell echo it)\n' > mk; make -sf mk; echo $?`, `git init -q repo && cd repo && git -c user.name=a -c user.email=b@c commit -q --allow-empty -m first && git log --format=%s | cat`,
	`echo '#!/bin/sh' > s.sh; echo 'echo script "$0" "$@"' >> s.sh; chmod +x s.sh; ./s.sh a 'b c'; sh s.sh d`, `timeout 0.05 sleep 5; echo $?; timeout 5 echo quick; nice echo nice`, `cat /dev/fd/3 3<<< three; exec 4> out4; echo four >&4; exec 4>&-; cat out4`,
	`yes | head -2; yes 2>/dev/null | true; echo "${PIPESTATUS[0]}"`, `xargs -n2 echo <<< '1 2 3 4 5'; echo 'a b' | xargs -I{} sh -c 'echo "<{}>"'`, `(cd / && pwd); pwd | grep -c ws; export V=1; bash -c 'echo $V'; V=2 bash -c 'echo $V'`,
	`/usr/bin/python3 -c "import subprocess; print(subprocess.run(['echo','x'],capture_output=True,text=True).stdout.strip())" 2>/dev/null || echo no python`, `ulimit -c; umask; true && false || echo or; ! false; echo $?`, `coproc cat; echo to >&"${COPROC[1]}"; read -r l <&"${COPROC[0]}"; echo "$l"; p=$COPROC_PID; exec {COPROC[1]}>&-; wait "$p"; echo $?`,
}

// TestOrdinaryScripts checks that scripts have the same output and exit status with the gate and without a sandbox.
// With a list of programs, it checks only scripts that execute no other programs.
func TestOrdinaryScripts(t *testing.T) {
	hosttest.NeedsNamespaces(t)
	t.Parallel()
	scripts := make(map[string]string)
	for i, s := range ordinaryScripts {
		scripts[fmt.Sprint("s", i)] = s
	}
	results := func(configuration string) map[string]string {
		ws, config := writeConfig(t, configuration)
		hosttest.Must(t, os.Remove(filepath.Join(ws, "ls")))
		out := make(map[string]string)
		for _, line := range runListed(t, ws, config, scripts) {
			var r struct {
				ID     string
				Output any
				Error  struct {
					Code    int
					Message string
				}
			}
			hosttest.Must(t, json.Unmarshal([]byte(line), &r))
			if r.ID == "" {
				t.Errorf("a result without an id: %s", line)
			}
			out[r.ID] = strings.ReplaceAll(fmt.Sprintf("%d\n%v\n%s", r.Error.Code, r.Output, r.Error.Message), ws, "WS")
		}
		return out
	}
	plain := results("plugin \"bash\" {\n config {\n login_environment = false\n}\n}\nsandbox {\n enforce = \"off\"\n}\n")
	for name, configuration := range map[string]string{
		"gate": "plugin \"bash\" {\n config {\n login_environment = false\n}\n}\n",
		"list": "plugin \"bash\" {\n config {\n login_environment = false\n}\n}\npermissions {\n programs {\n mode = \"listed\"\n allow = [" + listedAtExecution + ordinaryPrograms + "]\n}\n}\n",
	} {
		got := results(configuration)
		for id, script := range scripts {
			if name == "list" && slices.ContainsFunc(beyondLists, func(part string) bool { return strings.Contains(script, part) }) {
				continue
			}
			if len(plain[id]) < len("0\nx\n") || got[id] != plain[id] {
				t.Errorf("%s: %s\ngot\n%s\nwant\n%s", name, script, got[id], plain[id])
			}
		}
	}
}

// beyondLists contains texts that identify scripts with unlisted programs or with programs that the scripts create.
var beyondLists = []string{"nosuchprogram", "./s.sh", "python3 -c", "git init"}

const ordinaryPrograms = `, "seq *", "tac *", "head *", "tail *", "grep *", "paste *", "diff *", "wc *", "touch *", "mv *", "rm *", "rmdir *", "gzip *", "gunzip *", "cmp *", "git *", "yes *", "timeout *", "nice *", "id *", "kill *"`

// TestGateOfOrdinaryUser checks that programs are recorded and judged if an ordinary user runs toolhost.
func TestGateOfOrdinaryUser(t *testing.T) {
	hosttest.NeedsNamespaces(t)
	if os.Getuid() != 0 {
		t.Skip("the other tests already run as an ordinary user")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "ordinary")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	hosttest.Must(t, os.Chmod(hosttest.Bin, 0o755))
	hosttest.Must(t, os.Mkdir(filepath.Join(dir, "ws"), 0o755))
	config := filepath.Join(dir, "config.hcl")
	hosttest.Must(t, os.WriteFile(config, []byte("plugin \"bash\" {}\npermissions {\n deny \"no\" {\n command = \"touch *\"\n}\n}"), 0o644))
	hosttest.Must(t, exec.Command("chown", "-R", fmt.Sprint(ordinary), dir).Run())
	run := func(args ...string) string {
		c := hosttest.Command(append([]string{"--config", config, "--state", filepath.Join(dir, "state")}, args...)...)
		c.Dir, c.Env = filepath.Join(dir, "ws"), []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
		out, _ := c.CombinedOutput() // ignore the error: some commands fail
		return string(out)
	}
	if out := run("doctor"); !strings.Contains(out, "bash: backend ns") || !strings.Contains(out, "programs: each one is recorded and judged") {
		need.Missing(t, "an ordinary user has no gate here:\n"+out)
	}
	// The two streams can arrive in any order.
	if out := run("run", `x=$(tr x x <<< tou); "${x}ch" RAN; echo $?; ln -s "$PWD" /tmp/l; r=$(tr x x <<< rm); : > a; : > b; : > c; "$r" -rf /tmp/l/*; echo $?; /bin/true`); strings.Count(out, "126\n") != 2 || !strings.Contains(out, "the whole workspace") {
		t.Errorf("output: %s", out)
	}
	out := run("log", "--programs")
	if !strings.Contains(out, "touch RAN  by deny") || !strings.Contains(out, "/bin/true\n") || strings.Contains(out, "(programs)") || strings.Contains(out, "/bash ") {
		t.Errorf("log: %s", out)
	}
}

// TestGateKilled kills toolhost and checks that no program is executed without a judgement. The processes must end.
func TestGateKilled(t *testing.T) {
	hosttest.NeedsNamespaces(t)
	t.Parallel()
	ws, config := writeConfig(t, "plugin \"bash\" {}\npermissions {\n deny \"no\" {\n command = \"touch *\"\n}\n}")
	c := hosttest.CommandContext(t.Context(), "--state", hosttest.KeptState(t, filepath.Join(t.TempDir(), "state")), "--config", config, "run",
		`x=$(tr x x <<< tou); for i in 1 2 3 4; do (while :; do "${x}ch" RAN 2>/dev/null; done) & done; echo > started; trap : TERM HUP; wait; "${x}ch" RAN`)
	c.Dir = ws
	hosttest.Must(t, c.Start())
	hosttest.Wait(t, "the command has started", func() bool { return isFile(filepath.Join(ws, "started")) })
	hosttest.Must(t, c.Process.Kill())
	_ = c.Wait()
	hosttest.Wait(t, "the processes of the command have ended", func() bool {
		return !slices.ContainsFunc(hosttest.Descendants(), func(p hosttest.Process) bool { return p.Dir() == ws })
	})
	if _, err := os.Lstat(filepath.Join(ws, "RAN")); err == nil {
		t.Error("a program was executed without a judgement")
	}
}
