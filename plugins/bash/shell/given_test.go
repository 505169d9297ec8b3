package shell

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"toolhost.dev/plugins/bash/session"
)

// TestGivenVariables checks that a new shell does not declare the variables that are already in its environment. It
// also checks that the session keeps all of its variables.
func TestGivenVariables(t *testing.T) {
	bash, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/home/of/user", "LANG=C.UTF-8", "PLAIN=a b", "EMPTY=", "QUOTES=it's \"so\"", "DOLLAR=$HOME `x` \\", "LINES2=a\nb", "FAKE=a\ndeclare -x HOME=\"/evil\"\nb",
		"ESCAPED=a\\$b", "UNICODE=é", "BAD=\xff", "BANG=a!b", "TAB=a\tb", "EQUALS=a=b", "IFS=:", "PS4=> ", "GLOBIGNORE=*.o", "HISTSIZE=5", "HISTCONTROL=ignoredups", "LC_ALL=C", "TZ=UTC", "SHLVL=4", "COLUMNS=40",
		"LINES=7", "RANDOM=5", "SECONDS=9", "MAILCHECK=3", "FUNCNEST=100", "not a name=x", "a.b=y", "TERM=xterm",
	}
	var names []string
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); !strings.ContainsAny(name, " .") && name != "SECONDS" && name != "RANDOM" {
			names = append(names, name)
		}
	}
	show := "for n in " + strings.Join(names, " ") + " OLDPWD OPTERR SHELL x; do declare -p $n 2>/dev/null || echo no $n; done; env | grep -v '^_=\\|^TOOLHOST_\\|^PWD='"
	dir := t.TempDir()
	run := func(text string, state session.State) (string, *Outcome) {
		t.Helper()
		r := NewRunner(0)
		defer r.Close()
		var out bytes.Buffer
		o, err := r.Start("s", Command{Seed: Seed{Bash: bash, Dir: dir, Env: env, State: state}, Text: text, Stdout: &out, Stderr: io.Discard}).Outcome()
		if err != nil || o.Fresh {
			t.Fatalf("%s: %+v %v", text, o, err)
		}
		return out.String(), o
	}
	for _, change := range []string{
		"x=1", "unset PLAIN EMPTY HOME LANG", "unset PATH; PATH=/bin:/usr/bin", "PLAIN=other", "ESCAPED='a$b'", "PS4='> ' SHLVL=4 IFS=:", "PLAIN+=c", "export -n PLAIN HOME", "readonly PLAIN", "declare -l EMPTY", "unset PLAIN; PLAIN='a b'",
		"declare -n x=PLAIN", "export QUOTES=plain DOLLAR=", "unset ${!L*} ${!P*} ${!H*}; PATH=/bin:/usr/bin", "set -a; x=2 PLAIN=3", "declare -a PLAIN; PLAIN[2]=q", "IFS=,; GLOBIGNORE=; unset TZ LC_ALL", "EMPTY='declare -x PLAIN=\"a b\"'",
		"f() { local PLAIN=in; x=$PLAIN; }; f", "alias declare=false builtin=false; unset() { :; }; x=1",
	} {
		want, _ := run(change+"\n"+strings.ReplaceAll(show, "declare", `\builtin declare`), session.State{})
		_, o := run(change, session.State{})
		if o.Snapshot == nil {
			t.Fatalf("%s: %v", change, o.StateErr)
		}
		state := session.State{Snapshot: o.Snapshot, Base: env}
		if got, _ := run(strings.ReplaceAll(show, "declare", `\builtin declare`), state); got != want {
			one, two := strings.Split(want, "\n"), strings.Split(got, "\n")
			i := 0
			for i < min(len(one), len(two))-1 && one[i] == two[i] {
				i++
			}
			t.Errorf("%s: line %d is %q, in one shell %q", change, i, two[i], one[i])
		}
		if s := state.Script(env, ""); strings.Contains(s, "declare -x LANG=") && !strings.Contains(change, "LANG") || strings.Contains(s, "BASH_VERSINFO") {
			t.Errorf("%s: it is declared again:\n%s", change, s)
		}
	}
}
