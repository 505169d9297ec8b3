package shellscript_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/shellscript"
)

// victim reports whether an analysis contains the command "rm -rf /".
func victim(a *shellscript.Analysis) bool {
	return slices.ContainsFunc(a.Commands, func(c shellscript.Command) bool {
		if c.Name() != "rm" {
			return false
		}
		flags, root := "", false
		for _, w := range c.Words[1:] {
			if strings.HasPrefix(w.Text, "-") {
				flags += w.Text
			}
			root = root || w.Text == "/"
		}
		return root && strings.Contains(flags, "r")
	})
}

func list(a *shellscript.Analysis) string {
	var out []string
	for _, c := range a.Commands {
		out = append(out, c.String())
	}
	return strings.Join(out, "; ")
}

// hiding lists scripts that run "rm -rf /" in different ways.
var hiding = []string{
	// These scripts contain the command itself, with different quotes and paths.
	`rm -rf /`, `/bin/rm -rf /`, `\rm -rf /`, `"r"m -rf /`, `r''m -rf /`, `'rm' -r -f /`, `$'\x72m' -rf /`, `$'rm' -rf /`, `"rm" "-rf" "/"`, "r\\\nm -rf /", `$"rm" -rf /`,
	`/usr/bin/../bin/rm -rf /`, `{rm,-rf,/}`, `rm -rf $'/'`, `rm -r{f,v} /`,
	// These scripts contain the command in lists, groups, control structures and functions.
	`true; rm -rf /`, `true && rm -rf /`, `false || rm -rf /`, "ls\nrm -rf /", `ls & rm -rf /`, `ls | rm -rf /`, `! rm -rf /`, `time rm -rf /`, `(rm -rf /)`, `{ rm -rf /; }`,
	`if true; then rm -rf /; fi`, `if rm -rf /; then :; fi`, `if false; then :; elif false; then :; else rm -rf /; fi`, `while rm -rf /; do :; done`, `until false; do rm -rf /; done`,
	`for x in a; do rm -rf /; done`, `for ((i=0;i<1;i++)); do rm -rf /; done`, `case x in x) rm -rf /;; esac`, `f() { rm -rf /; }; f`, `function f { rm -rf /; }`, `select x in a; do rm -rf /; done`,
	`coproc rm -rf /`, `rm -rf / > out 2>&1`, `> out rm -rf /`, `X=1 rm -rf /`,
	// These scripts contain the command in different substitutions.
	`echo $(rm -rf /)`, "echo `rm -rf /`", `echo "$(rm -rf /)"`, `cat <(rm -rf /)`, `tee >(rm -rf /) < x`, `X=$(rm -rf /)`, `X=1 Y=$(rm -rf /) true`, `echo ${X:-$(rm -rf /)}`, `a[$(rm -rf /)]=1`,
	`echo $((1+$(rm -rf /)))`, `[[ -n $(rm -rf /) ]]`, `((x=$(rm -rf /)))`, `case $(rm -rf /) in *) ;; esac`, `for x in $(rm -rf /); do :; done`, `a=(1 $(rm -rf /))`, `export X=$(rm -rf /)`,
	"cat <<E\n$(rm -rf /)\nE", `cat <<< "$(rm -rf /)"`, `echo > $(rm -rf /)`, `echo "${X/a/$(rm -rf /)}"`, `echo "a $(echo $(rm -rf /))"`, `let x=$(rm -rf /)`, `case x in $(rm -rf /)) ;; esac`,
	// These scripts contain the command after a wrapper.
	`env rm -rf /`, `env -i A=b rm -rf /`, `env -u X -C /tmp rm -rf /`, `env -S "rm -rf /"`, `env -S'rm -rf' /`, `env --split-string='rm -rf /'`, `/usr/bin/env -- rm -rf /`, `command rm -rf /`, `command -p rm -rf /`,
	`builtin command rm -rf /`, `exec rm -rf /`, `exec -a ls rm -rf /`, `nohup rm -rf / &`, `nice -n 5 rm -rf /`, `nice -5 rm -rf /`, `nice --adj 3 rm -rf /`, `setsid -f rm -rf /`, `timeout 5 rm -rf /`, `timeout -k 1 -s KILL 5s rm -rf /`,
	`timeout --signal=9 5 rm -rf /`, `timeout --sig KILL 5 rm -rf /`, `/usr/bin/time -f %e rm -rf /`, `stdbuf -oL rm -rf /`, `stdbuf -o L rm -rf /`, `sudo rm -rf /`, `sudo -u root -E X=1 rm -rf /`, `sudo --user=root -- rm -rf /`, `doas -u root rm -rf /`,
	`ionice -c3 rm -rf /`, `taskset 1 rm -rf /`, `busybox rm -rf /`, `chroot / rm -rf /`, `strace -o x rm -rf /`, `su -c 'rm -rf /'`, `su - root -c 'rm -rf /'`, `flock x rm -rf /`, `flock x -c 'rm -rf /'`, `script -qc 'rm -rf /' x`, `watch -n 1 rm -rf /`,
	`watch 'rm -rf /'`, `unshare -r rm -rf /`, `sudo env nice timeout 5 rm -rf /`, `xargs rm -rf / < x`, `echo / | xargs rm -rf`, `echo / | xargs -n1 -I X rm -rf /`, `printf '%s\n' / | xargs -0 rm -rf`, `parallel rm -rf ::: /`, `parallel 'rm -rf /' ::: a`,
	`find . -exec rm -rf / \;`, `find / -exec rm -rf {} +`, `find / -delete`, `find / -execdir rm -rf {} \;`, `find / -ok rm -rf {} \;`, `find . -name x -exec sh -c 'rm -rf /' \;`, `fd x -x rm -rf /`, `ssh host rm -rf /`, `ssh -p 22 host 'rm -rf /'`,
	`git -c alias.x='!rm -rf /' x`, `git -c core.pager='rm -rf /' log`, `git submodule foreach 'rm -rf /'`, `git bisect run rm -rf /`, `git rebase -x 'rm -rf /' HEAD~1`, `git -C x -c core.sshCommand='rm -rf /' fetch`,
	`/lib64/ld-linux-x86-64.so.2 /bin/rm -rf /`, `/lib/ld-musl-x86_64.so.1 --library-path /lib --argv0 ls -- /bin/rm -rf /`, `ld.so --inhibit-cache --preload x.so /bin/rm -rf /`, `/lib/ld-linux-armhf.so.3 --argv0 ls /usr/bin/env rm -rf /`, `/usr/lib/libc.so --argv0=ls /bin/rm -rf /`, `ld-2.31.so /bin/sh -c 'rm -rf /'`,
	// These scripts contain the command in text that a shell executes.
	`sh -c 'rm -rf /'`, `bash -c "rm -rf /"`, `zsh -c 'rm -rf /'`, `bash -lc 'rm -rf /'`, `bash -o pipefail -ec 'rm -rf /'`, `bash -c -e 'rm -rf /'`, `bash --norc -c 'rm -rf /'`, `/bin/sh -c 'rm -rf /'`, `sh -c 'sh -c "rm -rf /"'`, `sh -c '"$@"' x rm -rf /`,
	`sh -c '$0 -rf /' rm`, `eval rm -rf /`, `eval "rm -rf /"`, `eval 'r''m' -rf /`, `eval eval rm -rf /`, `bash <<< 'rm -rf /'`, "bash <<'E'\nrm -rf /\nE", "sh <<E\nrm -rf /\nE", `echo rm -rf / | sh`, `printf 'rm -rf /' | bash -s`, `echo cm0gLXJmIC8= | base64 -d | sh`,
	`echo '/ fr- mr' | rev | sh`, `echo -e 'rm\x20-rf /' | bash`, "cat <<'E' | bash -\nrm -rf /\nE", `. /dev/stdin <<< 'rm -rf /'`, `source /dev/stdin <<< 'rm -rf /'`, `trap 'rm -rf /' EXIT`, `alias ll='rm -rf /'`, `bash /dev/stdin <<< 'rm -rf /'`, `env bash -c 'rm -rf /'`,
	`cat <<< 'rm -rf /' | sudo bash`, `echo 'rm -rf /' | tee | sh`,
	// These scripts contain the command with parts from variables, arrays and computed names.
	`X=rm; $X -rf /`, `X='rm -rf /'; $X`, `X=rm && "$X" -rf /`, `X=r; Y=m; $X$Y -rf /`, `rm${IFS}-rf${IFS}/`, `IFS=,; X=rm,-rf,/; $X`, `$(echo rm) -rf /`, "`echo rm` -rf /", `$(printf r)m -rf /`, `X=$(echo rm); $X -rf /`, `export X=rm; $X -rf /`, `for x in ls rm; do $x -rf /; done`,
	`f() { "$@"; }; f rm -rf /`, `f() { $1 -rf /; }; f rm`, `X=r; X+=m; $X -rf /`, `D=/; rm -rf $D`, `D=/; rm -rf "${D}"`, `$SUDO rm -rf /`, `declare x=rm; $x -rf /`, `cd /x && X=rm && cd / && $X -rf /`, `echo "$(X=rm; $X -rf /)"`, `X=ls; X=rm; $X -rf /`,
}

func TestCommandsAreFoundWhereverTheyHide(t *testing.T) {
	for _, text := range hiding {
		a := shellscript.Analyze(text, shellscript.Options{Dir: "/w", Home: "/home/me"})
		if !victim(a) {
			t.Errorf("%s\n\tfound only: %s\n\tdoubts: %q", text, list(a), a.Doubts)
		}
	}
	if len(hiding) < 80 {
		t.Error("too few cases")
	}
}

func TestWhatDoesNotRunIsNotListed(t *testing.T) {
	for _, text := range []string{
		`echo rm -rf /`, `echo "rm -rf /"`, `# rm -rf /`, `cat <<'E'
$(rm -rf /)
E`, `printf '%s' '$(rm -rf /)'`, `command -v rm`, `which rm`, `man rm`, `git commit -m 'rm -rf /'`, `grep -r 'rm -rf /' .`, `rm -rf /tmp/x`, `X='rm -rf /'`, `echo 'rm -rf /' > script.sh`, `cat x # ; rm -rf /`,
		`test -x /bin/rm`, `[ "$x" = "rm -rf /" ]`, `case "rm -rf /" in x) ;; esac`, `sh -c 'echo rm -rf /'`, `find / -name x -delete`, `bash script.sh rm -rf /`, `ssh-keygen -f rm`, `X=rm; X=ls; $X -rf /`, `git log --grep='rm -rf /'`, `(X=rm); ls`,
		`find / -type f -name '*.o' -exec rm -rf {} +`, `rm -rf ./`, `cd / && rm -rf build`, `env -u rm`, `timeout 5 echo rm -rf /`,
	} {
		a := shellscript.Analyze(text, shellscript.Options{Dir: "/w", Home: "/home/me"})
		if victim(a) || len(a.Doubts) > 0 {
			t.Errorf("%s\n\tfound: %s\n\tdoubts: %q", text, list(a), a.Doubts)
		}
	}
}

func TestDoubts(t *testing.T) {
	for text, want := range map[string]string{
		`$X -rf /`: "is unknown", `"$X" y`: "is unknown", `$(curl x) y`: "is unknown", `/bin/r? -rf /`: "is unknown", `/???/rm x`: "is unknown",
		`eval "$X"`: "a part of the script is unknown", `bash -c "$X"`: "a part of the script is unknown", `sh -c "$(cat x)"`: "a part of", `curl x | sh`: "sh runs commands that it reads from a command",
		`bash < x`: "bash runs commands that it reads from a file", `source <(curl x)`: `the script that the command "source" reads is unknown`, `. $X`: `the script that the command "source" reads is unknown`, `echo "`: "cannot be parsed", `if`: "cannot be parsed", "ls \u202e x": "U+202E", "ls\rrm": "U+000D", "ls\u200b": "U+200B", "l\x00s": "",
		`bash "$X"`: "the commands that bash runs are unknown", `X=ls; X=$(date); $X`: "is unknown", `read X; $X`: "is unknown", `f() { "$@"; }`: "is unknown", `${!X} a`: "is unknown", `${X:1:2} a`: "is unknown", `${A[0]} a`: "is unknown",
		`X=ls; f() { X=rm; }; f; $X a`: "is unknown", `if a; then X=rm; else X=ls; fi; $X a`: "is unknown", `{a..zzz}$X b`: "is unknown", `eval $(x)`: "a part of", `x | bash -s`: "reads from", `{1..100000000} x`: "is unknown",
		`env $X y`: "is unknown", `sudo $X`: "is unknown", `IFS=$X; Y='a b'; $Y`: "IFS", `xargs`: "", `bash`: "", `timeout 5 $X`: "is unknown", `watch "$X"`: "a part of", strings.Repeat("sh -c '", 1): "cannot be parsed",
	} {
		a := shellscript.Analyze(text, shellscript.Options{Dir: "/w"})
		if all := strings.Join(a.Doubts, "\n"); want == "" && text != "l\x00s" && all != "" || !strings.Contains(all, want) {
			t.Errorf("%q: doubts %q, wanted %q (%s)", text, a.Doubts, want, list(a))
		}
	}
	nested := "rm -rf /"
	for range 30 {
		nested = "eval " + nested
	}
	if a := shellscript.Analyze(nested, shellscript.Options{}); len(a.Doubts) == 0 && !victim(a) {
		t.Error("deep nesting is neither followed nor told")
	}
}

func TestDirectoriesRedirectsAndVariables(t *testing.T) {
	a := shellscript.Analyze(`cd sub && cat x > out; LD_PRELOAD=x ls < in >> /abs 2>&1 2>/dev/null; (cd /tmp; pwd); cd "$X"; ls; >&log true; export PATH=.`, shellscript.Options{Dir: "/w"})
	dirs := make(map[string]string)
	for _, c := range a.Commands {
		dirs[c.String()] = c.Dir
	}
	for c, dir := range map[string]string{"cat x": "/w/sub", "pwd": "/tmp", "ls": ""} {
		if dirs[c] != dir {
			t.Errorf("%s runs in %q, wanted %q", c, dirs[c], dir)
		}
	}
	var writes []string
	for _, f := range a.Writes {
		writes = append(writes, f.Dir+"|"+f.Path.Text)
	}
	if want := []string{"/w/sub|out", "/w/sub|/abs", "/w/sub|/dev/null", "|log"}; !slices.Equal(writes, want) {
		t.Errorf("writes %q", writes)
	}
	if len(a.Reads) != 1 || a.Reads[0].Path.Text != "in" {
		t.Errorf("reads %v", a.Reads)
	}
	for text, want := range map[string]bool{`:(){ :|:& };:`: true, `f() { f & }; f`: true, `f() { f | f; }; f`: true, `f() { ls | cat; }; f | f`: false, `f() { f; }`: false, `bash -c ':(){ :|:& };:'`: true} {
		if got := shellscript.Analyze(text, shellscript.Options{}).ForkBomb; got != want {
			t.Errorf("%s: bomb %v", text, got)
		}
	}
	if a := shellscript.Analyze("bash -s", shellscript.Options{Stdin: "rm -rf /"}); !victim(a) {
		t.Error("standard input of the script is not looked at")
	}
}

// TestLongAndDeepScripts checks scripts that are very long or deeply nested. The analysis must find the command or
// report a doubt, without a stack overflow.
func TestLongAndDeepScripts(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		found bool
	}{
		"and":       {strings.Repeat("true && ", 5000) + "rm -rf /", true},
		"or":        {strings.Repeat("false || ", 5000) + "rm -rf /", true},
		"pipe":      {strings.Repeat("cat | ", 5000) + "rm -rf /", true},
		"list":      {strings.Repeat("true; ", 50_000) + "rm -rf /", true},
		"groups":    {strings.Repeat("{ ", 900) + "rm -rf /; " + strings.Repeat("}; ", 900), true},
		"ifs":       {strings.Repeat("if :; then ", 300) + "sh -c 'rm -rf /'; " + strings.Repeat("fi; ", 300), true},
		"subst":     {strings.Repeat("$(", 300) + "rm -rf /" + strings.Repeat(")", 300), true},
		"many ands": {strings.Repeat("true && ", 500_000) + "rm -rf /", false},
		"deep":      {strings.Repeat("(", 200_000), false},
		"loops":     {strings.Repeat("for a in 1 2 3 4 5 6 7 8; do ", 30) + "rm -rf /" + strings.Repeat("; done", 30), true},
		"heredoc":   {"bash <<E\n: " + strings.Repeat("x*{", 20_000) + "\nrm -rf $Y /\nE\n", true},
		"quoted":    {"bash -c \": " + strings.Repeat("x*{", 20_000) + "\nrm -rf $Y /\"", true},
		"doubling":  {"X=aaaaaaaa; " + strings.Repeat("X=$X$X; ", 60) + "rm -rf /", true},
		"appending": {"X=aaaaaaaa; " + strings.Repeat("X+=$X; ", 60) + "rm -rf /", true},
		"replacing": {"X=aaaaaaaa; " + strings.Repeat("X=${X//a/$X}; ", 60) + "rm -rf /", true},
		"printing":  {"X=$(printf %999999d 1); Y=$(printf '%*d' 999999 1); rm -rf /", true},
		"arguments": {"f() { g \"$@\" \"$@\" \"$@\"; }; g() { h \"$@\" \"$@\" \"$@\"; }; h() { i \"$@\" \"$@\"; }; rm -rf /; f " + strings.Repeat("a ", 10_000), true},
		"functions": {"a() { b; b; b; b; b; b; }; b() { c; c; c; c; c; c; }; c() { d; d; d; d; d; }; d() { e; e; e; e; e; e; }; e() { f; f; f; f; f; }; f() { g; g; g; g; g; }; rm -rf /; a", true},
		"nested":    {strings.Repeat("eval ", 10) + "rm -rf /", true},
	} {
		a := shellscript.Analyze(tc.text, shellscript.Options{Dir: "/w"})
		if tc.found != victim(a) || !tc.found && len(a.Doubts) == 0 {
			t.Errorf("%s: found %v, doubts %.200q", name, victim(a), a.Doubts)
		}
	}
}

// FuzzAnalyze checks that the analysis of an arbitrary text ends soon and does not panic.
func FuzzAnalyze(f *testing.F) {
	for _, text := range hiding {
		f.Add(text)
	}
	f.Add(strings.Repeat("for a in 1 2 3; do ", 40) + ":" + strings.Repeat("; done", 40))
	f.Add(strings.Repeat("$(", 300) + strings.Repeat(")", 300))
	f.Add(strings.Repeat("{a,b}", 40))
	f.Add("f() { f; g; }; g() { f; g; f; }; f; g")
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		shellscript.Analyze(text, shellscript.Options{Dir: "/w", Home: "/h"})
		if d := time.Since(began); d > time.Minute {
			t.Errorf("it took %s", d)
		}
	})
}

func BenchmarkAnalyze(b *testing.B) {
	for b.Loop() {
		shellscript.Analyze(`cd sub && go test ./... 2>&1 | tail -20`, shellscript.Options{Dir: "/w", Home: "/h"})
	}
}

// TestSubset checks which scripts belong to the subset of [shellscript.Options.Subset].
func TestSubset(t *testing.T) {
	for refused, scripts := range map[bool][]string{
		false: {
			`ls`, `ls -l "$x" | cat > out 2>&1`, `i=0; while [ "$i" -lt 3 ]; do i=$((i+1)); done`, `for i in 1 2; do echo $((i * 2)); done`, `for f in a b; do n=0; n=$((n+1)); done`, `if ls; then cat x; else :; fi`,
			`case "$x" in a) ls;; *) cat;; esac`, `set -euo pipefail; ls`, "cat <<'EOF'\na\nEOF\n", `x=$(ls); echo "${x:-none}" "${#x}"`, `export X=1`, `f() { ls "$1"; }; f a`, `read -r line; echo "$line"`, `find . -name '*.go'`,
			`sed -n '1,5p' x`, `sed -i 's/a/b/g; /x/d' y`, `awk -F: '{ print $1 || $2 }' x`, `git -C sub status`, `git commit -m "$x"`, `git log -c`, `timeout 5 ls`, `env X=1 ls`, `bash -c 'ls'`, `[[ -n $x && $y == a* ]]`, `sort -u x`, `tar -xf x`,
			`printf '%s\n' "$x"`, `! ls`, `(cd x && ls)`, `git push origin main`, `a=(1 2); echo "${a[@]}" "${a[0]}"`, `echo "${x/a/b}" ${x%.go}`, `make test`,
		},
		true: {
			`echo $((x))`, `if ls; then i=0; fi; echo $((i))`, `echo $((i)); i=0`, `i=0; read "i"; echo $((i))`, `i=0; read $n; echo $((i))`, `i=0; f() { i=$x; }; f; echo $((i))`, `i=0; i=$x; echo $((i))`, `(i=0); echo $((i))`, `i=0; ((i/0))`, `RANDOM=x`, `REPLY=5; echo $((REPLY))`,
			`set -x`, `set -k`, `readonly i`, `PATH=x`, `LD_PRELOAD=x ls`, "echo `ls`", `cat <(ls)`, `ls {x}>f`, `$"x"`, `${x:=a}`, `${x?}`, `[ $x = y ]`, `[ "$x" y ]`, `find . $x`, `find . *`, `git $x`, `git push "$x"`, `git fetch ext::x`, `sed "$x" y`, `sed 1e`, `awk "$x"`,
			`sh -c ls`, `bash`, `bash -ic ls`, `./bash -c ls`, `/tmp/env ls`, `env -S ls`, `xargs ls`, `sudo ls`, `export -f ls`, `unset 'a[0]'`, `select x in a; do ls; done`, `coproc ls`, `tar cfI x y z`, `make CC=x`, `rg --pr x`, "ls\r", `cat <<$x`, `command -p ls`, `timeout -z 5 ls`, `jobs -x ls`,
		},
	} {
		for _, text := range scripts {
			if a := shellscript.Analyze(text, shellscript.Options{Subset: true}); (len(a.Refused)+len(a.Doubts) > 0) != refused {
				t.Errorf("%s: refused %q, doubts %q", text, a.Refused, a.Doubts)
			}
		}
	}
}
