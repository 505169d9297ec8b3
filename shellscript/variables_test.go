//go:build !race

package shellscript_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/shellscript"
)

// TestOracleVariables runs scripts that set variables in many ways with bash. The analysis must know each command that
// ran, with … in place of what it cannot know.
func TestOracleVariables(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ran := 0
	for _, text := range []string{
		`declare -n r=z; z=push; git $r`, `z=a; declare -n r=z; r=push; git $z`, `z=a; typeset -n r=z; r=push; git $z`,
		`z=a; command declare -n r=z; r=push; git $z`, `z=a; builtin declare -n r=z; r=push; git $z`, `z=a; "declare" -n r=z; r=push; git $z`,
		`z=a; \declare -n r=z; r=push; git $z`, `z=a; d=declare; $d -n r=z; r=push; git $z`, `z=a; declare -gn r=z; r=push; git $z`,
		`z=a; o=-n; declare $o r=z; r=push; git $z`, `declare -l x=PUSH; git $x`, `declare -u x=push; git $x`, `declare -l x; x=PUSH; git $x`,
		`declare -c x=push; git $x`, `declare -i x=1+1; git $x`, `x=5; declare -i x; x=x+1; git $x`, `x=a; x=PUSH; declare -l x; x=$x; git $x`,
		`x=PUSH; export -n x; typeset -l x; x=$x; git $x`, `readonly x=status; x=push; git $x`, `readonly x=push; x=status; git $x`,
		`x=push; readonly x; x=status; git $x`, `export x=push; git $x`, `printf -v x push; git $x`, `x=a; printf -v 'x' push; git $x`,
		`x=a; printf -vx push; git $x`, `x=a; o=-v; printf $o x push; git $x`, `x=a; printf -v x[0] push; git $x`, `x=a; read x <<< push; git $x`,
		`x=a; read -r -a x <<< push; git $x`, `x=a; read <<< push; git $REPLY`, `x=a; echo push | { read x; git $x; }`, `x=a; IFS= read -r x < f; git $x`,
		`x=a; mapfile x < f; git $x`, `x=a; mapfile -t x <<< push; git ${x[0]}`, `x=a; command read x <<< push; git $x`,
		`x=a; v=x; read $v <<< push; git $x`, `x=a; v=x; read -r "$v" <<< push; git $x`, `x=a; v=x; printf -v $v push; git $x`,
		`x=a; v=x; eval "$v=push"; git $x`, `x=a; v=x; eval $v=push; git $x`, `x=a; v=x; declare $v=push; git $x`, `x=a; v=x; declare "$v=push"; git $x`,
		`x=a; v=x; export $v=push; git $x`, `x=a; v=$(cat f); declare $v=push; git $x`, `x=a; v=$(cat f); export "$v=push"; git $x`,
		`x=a; v=$(cat f); read $v <<< push; git $x`, `x=a; v=$(cat f); printf -v $v push; git $x`, `x=a; v=$(cat f); unset $v; git $x`,
		`x=a; declare x[0]=push; git $x`, `x=a; x[0]=push; git $x`, `x=(a push); git ${x[1]}`, `x=(push); git $x`, `x=(a); x+=(push); git ${x[1]}`,
		`declare -A m=([a]=push); git ${m[a]}`, `x=a; set -- push; git $1`, `x=a; set push; git $1`, `set -- a; set -- push; git $1`,
		`set -- a push; shift; git $1`, `set -- push; git "$@"`, `x=PUSH; git ${x,,}`, `x=push; git ${x^^}`, `x=pxsh; git ${x/x/u}`, `x=xpush; git ${x#x}`,
		`x=push_; git ${x%_}`, `x=xpush; git ${x:1}`, `x=push; y=x; git ${!y}`, `x=push; git ${x@L}`, `: ${x:=push}; git $x`, `x=; : ${x:=push}; git $x`,
		`x=; : "${x:=push}"; git $x`, `x=; y=${x:=push}; git $x`, `x=a; : ${y:=$((x=5))}; git $x`, `x=a; echo $((x=5)); git $x`,
		`x=a; echo $((x++)); git $x`, `x=a; echo "$((x+=1))"; git $x`, `x=a; y=$((x=5)); git $x`, `x=a; cat <<< $((x=5)); git $x`,
		`x=a; echo ${y:x=5}; git $x`, `x=a; y[x=5]=1; git $x`, `x=a; [[ $((x=5)) ]]; git $x`, `x=a; [[ x=5 -eq 5 ]]; git $x`, `x=a; let x=5; git $x`,
		`x=a; let "x=5"; git $x`, `x=a; v=x=5; let $v; git $x`, `x=a; ((x=5)); git $x`, `x=a; v='x=5'; ((v)); git $x`,
		`x=a; for ((x=5;x<6;x++)); do git $x; done`, `x=a; for ((x=5;x<6;x++)); do :; done; git $x`, `x=a; for x in push; do :; done; git $x`,
		`x=a; for x in a push; do git $x; done`, `x=a; select x in push; do git $x; break; done`, `x=a; (x=push); git $x`, `(x=push; git $x)`,
		`x=a; { x=push; }; git $x`, `x=a; f() { x=push; }; f; git $x`, `x=a; f() { local x=push; }; f; git $x`, `x=a; f() { local x; x=push; git $x; }; f`,
		`f() { git $x; }; x=push; f`, `f() { git $x; }; x=push f`, `f() { git $1; }; f push`, `f() { git $x; }; g() { local x=push; f; }; x=a; g`,
		`x=a; f() { declare -g x=push; }; f; git $x`, `x=a; trap 'x=push' DEBUG; git $x`, `x=a; trap 'x=push' EXIT; git $x`,
		`x=a; trap 'x=push' ERR; false; git $x`, `x=a; source ./f; git $x`, `x=a; . ./f; git $x`, `x=a; getopts a: x; git $x`,
		`x=a; coproc x { ls; }; git $x`, `x=a; coproc x; git $x`, `x=a; exec {x}>f; git $x`, `x=a; ls {x}>f; git $x`, `x=a; wait -p x; git $x`,
		`x=a; true | x=push; git $x`, `x=a; shopt -s lastpipe; echo push | read x; git $x`, `x=a; x=push true; git $x`, `x=a; x=push :; git $x`,
		`x=a; x=push eval 'git $x'`, `x=a; set -o posix; x=push :; git $x`, `x=a; unset x; git $x`, `x=a; unset -n x; git $x`,
		`x=a; mapfile -C 'x=push;:' -c 1 y < f; git $x`, `x=a; alias b='x=push'; b; git $x`, `x=a; builtin printf -v x push; git $x`,
		`x=a; command printf -v x push; git $x`, `x=a; builtin unset x; git $x`, `x=a; builtin eval x=push; git $x`, `x=a; command export x=push; git $x`,
		`x=a; builtin export x=push; git $x`, `x=a; builtin let x=5; git $x`, `IFS=u; x=aub; git $x`, `x=a,push; IFS=,; set -- $x; git $2`,
		`x=a; y=x; declare -n y; y=push; git $x`, `x=a; declare -n y=x z=y; z=push; git $x`, `x=a; while read x; do git $x; done <<< push`,
		`x=a; until x=push; do :; done; git $x`, `x=a; if x=push; then :; fi; git $x`, `x=a; case $((x=5)) in *) ;; esac; git $x`,
		`x=a; case a in a) x=push;; esac; git $x`, `x=a; ! x=push; git $x`, `x=a; time x=push; git $x`, `x=a; x=push & git $x`, `x=a; x+=b; git $x`,
		`x=a; y=$x; x=push; git $y`, `x=a; ${x=push}; git $x`, `x=a; echo $(x=push); git $x`, `x=a; x=${ printf push; }; git $x`,
		`x=a; echo ${ x=push; }; git $x`, `x=a; { declare -n r=x; } ; r=push; git $x`, `x=a; f() { declare -n r=$1; r=push; }; f x; git $x`,
		`x=a; f() { printf -v $1 push; }; f x; git $x`, `x=a; f() { read $1 <<< push; }; f x; git $x`, `x=a; f() { eval "$1=push"; }; f x; git $x`,
		`x=a; f() { declare -g $1=push; }; f x; git $x`, `x=a; f() { local -n r=$1; r=push; }; f x; git $x`, `declare -i x; x='y'; y=3; git $x`,
		`declare -a x=push; git $x`, `x=push; declare -r y=$x; git $y`, `declare -x x=push; git $x`,
		`x=a; for i in 1 2; do git $x; declare -n r=x; r=push; done`, `x=a; while ! test -e y; do git $x; declare -n r=x; r=push; : > y; done`,
		`x=a; for i in 1 2; do git $x; printf -v x push; done`, `x=a; for i in 1 2; do git $x; command printf -v x push; done`,
		`x=a; for i in 1 2; do git $x; eval x=push; done`, `x=a; for i in 1 2; do git $x; eval 'x=push'; done`,
		`x=a; for i in 1 2; do git $x; : ${x:=push}; done`, `x=a; for i in 1 2; do git $x; unset x; done`,
		`x=a; for i in 1 2; do git $x; f; done; f() { x=push; }`, `x=; for i in 1 2; do git $x; : $((x=5)); done`,
		`x=a; for i in 1 2; do git $x; let x=5; done`, `x=a; for i in 1 2; do git $x; exec {x}>f; done`, `x=a; for i in 1 2; do git $x; read -r "x"; done`,
		`x=a; for i in 1 2; do git $x; coproc x { ls; }; done`, `x=a; for i in 1 2; do git $x; source f; done`,
		`x=a; for i in 1 2; do git $x; v=x; read $v; done`, `x=a; f() { x=push; }; while ! test -e y; do git $x; f; : > y; done`,
		`x=status; trap "git \$x" EXIT; x=push`, `x=status; trap 'git $x' EXIT; x=push`, "x=a; alias b='x=push'; shopt -s expand_aliases\nb\ngit $x",
		`declare -n r; for r in x y; do r=push; done; git $x`, `x=a; declare -n r=x; for r in y x; do r=push; done; git $x $y`,
		`declare -n r=IFS; r=u; x=aub; git "$x"`, `x=a; f() { local -n r=$1; r=push; }; f x; git $x`,
		`y=b; x=a; declare -n r=y; unset -n r; declare -n r=x; r=push; git $x $y`, `x=a; printf -v "${y:-x}" push; git $x`,
		`x=a; read -p "$y" x <<< push; git $x`, `x=a; read -rp "$y" z <<< push; git $x`,
		`x=a; while IFS== read -r k v; do export "$k=$v"; done <<< x=push; git $x`,
		`x=a; while IFS== read -r k v; do printf -v "$k" %s "$v"; done <<< x=push; git $x`, `typeset -u x; for x in push; do git $x; done`,
		`declare -l x; read x <<< PUSH; git $x`, `x=5; declare -i x; x+=1; git $x`, `declare -i x=5; x+=2; git $x`, `x=a; declare x+=push; git $x`,
		`x=a; declare +i x; git $x`, `x=a; y=x; : "${!y:=push}"; x=; : "${!y:=push}"; git $x`,
	} {
		a := shellscript.Analyze(text, shellscript.Options{Dir: "/w"})
		var known []*regexp.Regexp
		for i := range a.Commands {
			words := a.Commands[i].String()
			known = append(known, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(words), "…", ".*")+"$"))
		}
		for _, line := range runs(t, text) {
			ran++
			if len(a.Doubts) == 0 && !slices.ContainsFunc(known, func(r *regexp.Regexp) bool { return r.MatchString(line) }) {
				t.Errorf("%s: bash ran %q, and the analysis knows %q", text, line, known)
			}
		}
	}
	t.Logf("bash ran %d commands", ran)
}

// runs returns the commands of git that a script runs with bash.
func runs(t *testing.T, text string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"git": "#!/bin/sh\nprintf 'git %s\\n' \"$*\" >> \"$LOG\"\n", "f": "x=push\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "log")
	cmd := exec.Command("bash", "--norc", "--noprofile", "-c", text)
	cmd.Dir, cmd.Env = dir, []string{"LC_ALL=C.UTF-8", "LOG=" + log, "PATH=" + dir + ":/usr/bin:/bin"}
	cmd.Stdin = strings.NewReader("1\n")
	_ = cmd.Run() // ignore the error: some scripts fail
	out, _ := os.ReadFile(log)
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// TestOracleAttributes checks that what cannot be known because of the attributes of a variable is named.
func TestOracleAttributes(t *testing.T) {
	for text, want := range map[string]string{
		`declare -n r=z; z=push; git $r`: "the variable r stands for another one (declare -n)", `f() { local -n r=$1; r=push; }`: "the variable r stands for another one (local -n)",
		`command typeset -gn r`: "the variable r stands for another one (typeset -gn)", `declare -l x=PUSH; git $x`: "the variable x changes the values that it gets (declare -l)",
		`declare -i x=1`: "the variable x changes", `read $(cat f)`: "read sets a variable whose name is unknown", `declare "$(cat f)=push"`: "declare sets a variable whose name is unknown",
		`export "$k=$v"`: "export sets a variable whose name is unknown", `printf -v "$k" x`: "printf sets a variable whose name is unknown", `export -n x`: "", `declare -x x=1`: "", `read -p "$y" x`: "", `printf "$y" "$z"`: "", `local -r x=1`: "",
	} {
		a := shellscript.Analyze(text, shellscript.Options{Dir: "/w"})
		if got := strings.Join(a.Unknown, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: unknown: %q, wanted %q", text, got, want)
		}
	}
}
