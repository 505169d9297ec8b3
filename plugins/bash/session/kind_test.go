package session

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestStateless(t *testing.T) {
	for _, c := range []string{
		"true", "go test ./...", "ls -l | head -3 && echo done", "cd-to x", "(cd /; x=1)", "echo $HOME \"${#x}\" '$x'", "cat <<E\n$x\nE", "cat <<<$x >out 2>&1", "git status; git log &",
		"echo $(x=1; echo $x)", "diff <(ls a) <(ls b)", "time make", "! grep -q x f", "{ ls; pwd; }", "./configure --prefix=/usr", "[ -f x ] && echo x", "tool:read x", "echo a=1", "# nothing\ntrue",
	} {
		if (&State{}).Kind(c) == Ordinary {
			t.Errorf("%q is stateless", c)
		}
	}
	for _, c := range []string{
		"", "#", "x=1", "x=1 ls", "x+=1 true", "cd /", "builtin cd /", "command cd /", "ls; cd /", "true && export x=1", "f() { :; }", "function f { :; }", "alias l=ls", ". lib", "source lib",
		"eval x=1", "exec ls", "exec 3<f", "read x <f", "ls | read x", "mapfile a <f", "set -o noglob", "shopt -s extglob", "umask 0", "pushd /", "unset x", "declare x", "local x", "printf -v x y", "let x=1", "((x++))",
		"for x in a; do :; done", "while read x; do :; done", "case a in a) x=1;; esac", "if x=1; then :; fi", "[[ a =~ a ]]", "coproc ls", "ls {fd}>f", "echo ${x:=1}", "echo $((x=1))", "echo ${!x}", "echo ${a[x=1]}",
		"echo \"${x:=1}\"", "cat <<E\n${x:=1}\nE", "cat <${x:=1}", "echo $?", "echo \"$?\"", "echo $BASH_COMMAND", "trap 'x=1' USR1", "wait", "exit", "return", "\\cd /", "'cd' /", "c\"d\" /", "$x", "`echo cd` /", "{ x=1; }",
		"ls \\", "ls \\\n", "echo 'unclosed", "cat <<E\nx", "echo ${ x=1; }", "time x=1", "! cd /", "enable -n cd", "[ -v 'x[y=1]' ]", "test -v x[y=1]", "[ '-v' x ]", "test \"-R\" x", "[ \\-v x ]", "hash -r", "kill 1",
		"echo " + strings.Repeat("x", maxStateless),
	} {
		if (&State{}).Kind(c) != Ordinary {
			t.Errorf("%q is not stateless", c)
		}
	}
	for name, n := range map[string]Snapshot{
		"function":        {Functions: "g () \n{ \n    x=1\n}\nls () \n{ \n    x=1\n}\n"},
		"alias":           {Variables: "declare -A BASH_ALIASES=([ls]=\"x=1; ls\" )\n"},
		"reference":       {Variables: "declare -n x=\"a[b=1]\"\n"},
		"frozen":          {Variables: "declare -a y\ndeclare -nr x=\"a[b=1]\"\n"},
		"harmless's name": {Functions: "true () \n{ \n    x=1\n}\n"},
	} {
		if s := (State{Snapshot: &n}); s.Kind("ls $x; true") != Ordinary {
			t.Error(name)
		}
	}
	if s := (State{Snapshot: &Snapshot{Variables: "declare -A BASH_ALIASES=()\ndeclare -x x=\"-n\"\n", Functions: "lsx () \n"}}); s.Kind("ls $x") != NoBackground {
		t.Error("an ordinary state")
	}
}

// TestNoBackground checks the kinds of commands. If the shell of a command can still have children at its end, the
// command must not have the kind NoBackground.
func TestNoBackground(t *testing.T) {
	for c, want := range map[string]Kind{
		"true": BuiltinOnly, "echo a b": BuiltinOnly, "echo \"$x\" 'y' >f 2>&1 && [ -f f ] || pwd; ! false": BuiltinOnly, "cat <<<x | cat": NoBackground, "echo x | :": NoBackground, "echo $(:)": NoBackground, "(:)": NoBackground, "{ echo x; }": BuiltinOnly, "echo x\nls": NoBackground, "time echo": BuiltinOnly,
		"ls -l a=b,c ./x": NoBackground, "ls | cat && (cd /; ls)": NoBackground, "echo $(ls) >f 2>&1": NoBackground, "time ls": NoBackground, "{ ls; }": NoBackground, "cat <<<x": NoBackground,
		"ls &": Stateless, "ls & true": Stateless, "(ls &)": Stateless, "echo $(ls & true)": Stateless, "cat <(ls)": Stateless, "ls > >(cat)": Stateless, "{ ls | cat & }": Stateless, "cat <<E\n$(ls &)\nE": Stateless,
		"x=1": Ordinary, "cd": Ordinary, "cd /": Ordinary, "-x y": Ordinary, " ": Ordinary, "a=b c": Ordinary, "wait x": Ordinary,
	} {
		if got := (&State{}).Kind(c); got != want {
			t.Errorf("%q is %d, want %d", c, got, want)
		}
	}
	for _, c := range []string{"(echo $?)", "echo $(true; echo \"$?\")", "(echo $SECONDS)", "(echo $((SECONDS + 1)))", "echo $_", "(set)", "(set >f)", "echo $(declare -p)", "(export)", "(compgen -v)", "(echo $BASH_COMMAND)", "echo $__toolhost_script", "[ -n \"$TOOLHOST_CALL\" ]"} {
		if got := (&State{}).Kind(c); got != Ordinary {
			t.Errorf("%q is %d: it shows what is different", c, got)
		}
	}
	for _, c := range []string{"(set -e; ls)", "(export x=1; ls)", "(declare -p x)", "(. lib; ls)", "(trap 'echo x' EXIT; ls)"} {
		if got := (&State{}).Kind(c); got != NoBackground {
			t.Errorf("%q is %d", c, got)
		}
	}
	if s := (State{Snapshot: &Snapshot{Functions: "builtin () \n{ \n    :\n}\n"}}); s.Kind("ls") != Ordinary {
		t.Error("the end of a stateless command is not what a session has made of builtin")
	}
}

// TestPlainWords checks that Kind returns the same result with and without the parser.
func TestPlainWords(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, seed))
	words := slices.Concat(builtins, harmless, []string{"ls", "a/b", "-l", "a=b", "x+=1", "1", "a,b", "@", ":", "+x", "tool:read", "f", "g.h", "--", "=", ",", "."})
	s := State{Snapshot: &Snapshot{Functions: "f () \n{ \n    x=1\n}\n"}}
	plain := 0
	for range 20000 {
		var c []string
		for range 1 + r.IntN(3) {
			c = append(c, words[r.IntN(len(words))])
		}
		command := strings.Join(c, " ")
		if name, is := plainWords(command); is && s.changesNothing(name) {
			plain++
			if s.Kind(command+";") != s.Kind(command) { // the semicolon forces Kind to use the parser
				t.Errorf("%q is %d by the parser", command, s.Kind(command+";"))
			}
		}
	}
	if plain < 1000 {
		t.Errorf("only %d are plain", plain)
	}
	for c := range 256 {
		if _, is := plainWords("ls a" + string([]byte{byte(c)}) + "b"); is != strings.ContainsRune("+-./0123456789:=,@ ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz", rune(c)) {
			t.Errorf("%q: %v", rune(c), is)
		}
	}
}

// TestBuiltins checks that the list of builtins is complete, because a missing builtin would be treated as a
// program.
func TestBuiltins(t *testing.T) {
	if !slices.IsSorted(builtins) || !slices.IsSorted(harmless) {
		t.Error("the lists are not in order")
	}
	out, err := exec.Command("bash", "-c", "compgen -bk").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if isCommandName(name) && !slices.Contains(builtins, name) {
			t.Errorf("%s is not known", name)
		}
	}
}

// TestStatelessChangesNothing generates random commands. For each stateless command, it compares bash's state before
// and after the command.
func TestStatelessChangesNothing(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, seed))
	pieces := []string{
		"true", "ls /", "echo $x", "echo ${#x} \"$x\"", "echo a=1", "(cd /; x=2)", "echo $(x=3)", "cat <<<$x", "cat <(x=4)", "x=5", "x=6 true", "cd /", "read x <<<q", "export e=1", "echo ${y:=2}", "echo $((z=1))",
		"f() { :; }", "f", "shopt -s nullglob", "umask 077", "pushd / >f", "[ a = a ]", "[[ a = a ]]", "set -f", "unset x", "for i in 1 2; do echo $i; done", "printf -v p q", "let l=1", "hash ls", "nosuch", "no/such",
		"echo \"${w:=1}\"", "((v=1))", "mapfile m <<<q", "alias a=b", "command cd /", "builtin cd /", "\\cd /", "time true", "trap : USR1",
	}
	joints := []string{"; ", " && ", " || ", " | ", "\n", " & "}
	var tried []string
	for range 1500 {
		var c strings.Builder
		for i := range 1 + r.IntN(3) {
			piece := pieces[r.IntN(len(pieces))]
			switch r.IntN(8) {
			case 0:
				piece = "{ " + piece + "; }"
			case 1:
				piece = "( " + piece + "; )"
			case 2:
				piece = "! " + piece
			}
			if i > 0 {
				c.WriteString(joints[r.IntN(len(joints))])
			}
			c.WriteString(piece)
		}
		command := c.String()
		state := State{Snapshot: &Snapshot{Functions: "f () \n{ \n    u=1\n}\n"}}
		if state.Kind(command) == Ordinary || slices.Contains(tried, command) {
			continue
		}
		tried = append(tried, command)
	}
	if len(tried) < 90 {
		t.Fatalf("only %d commands are stateless", len(tried))
	}
	const script = `snapshot() {
	declare -p | grep -vE "^declare -[^ ]+ ($1)(=|\$)"; declare -f; declare -F; shopt -p; set +o; alias; umask; pwd; trap; dirs -l
}
skip=$1; shift
for command; do
	(
		x=0; f() { u=1; }
		before=$(snapshot "$skip"; echo E)
		eval "$command" >/dev/null 2>&1 </dev/null
		[[ $(snapshot "$skip"; echo E) == "$before" ]] && echo same || echo changed
	)
done`
	passed := slices.DeleteFunc(slices.Clone(notKept), func(name string) bool { return strings.HasPrefix(name, "__") })
	cmd := exec.Command("bash", append([]string{"--norc", "--noprofile", "-c", script, "bash", strings.Join(append(passed, "before"), "|")}, tried...)...)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != len(tried) {
		t.Fatalf("%d of %d commands were run", len(lines), len(tried))
	}
	for i, line := range lines {
		if line != "same" {
			t.Errorf("%q changed something", tried[i])
		}
	}
}
