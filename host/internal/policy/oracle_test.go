//go:build !race

package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/internal/policy"
)

// generator generates random scripts from words and commands that can hide another command.
type generator struct {
	r     *rand.Rand
	depth int
}

func (g *generator) pick(of ...string) string { return of[g.r.IntN(len(of))] }

func (g *generator) variable() string {
	return g.pick("x", "y", "i", "PATH", "PS4", "a", "IFS", "_", "BASH_ENV", "RANDOM", "HOME")
}

// literal returns a random text without quotes.
func (g *generator) literal() string {
	return g.pick("1", "0", "-v", "-n", "=", "-eq", "x", "y", "a[$(touch R)]", "$(touch R)", "touch R", "touch", "R", "-exec", ";", ".", "./*", "-i", "b", "-le", "s/a/b/e", "1e touch R", "BEGIN{system(\"touch R\")}",
		"--", "+1", "{}", "-c", "-p", "-a", "!", "(", ")", "x=1", "PATH=.", "-S", "5", "i+1", "x[0]", "a b", "'", "\"", "\\", "$x", "`touch R`", "-e", "-f", "-o", "*", "?", "[a]", "~")
}

func (g *generator) word() string {
	if g.depth > 4 {
		return "x"
	}
	g.depth++
	defer func() { g.depth-- }()
	switch g.r.IntN(16) {
	case 0, 1, 2:
		return "'" + strings.ReplaceAll(g.literal(), "'", `'\''`) + "'"
	case 3:
		return `"` + g.pick("$x", "$y", "${x}", "$i", "a", "${x:-"+g.word()+"}", "$(ls)", "\\$(touch R)", "${#x}") + `"`
	case 4:
		return g.pick("$x", "$y", "$i", "${x@P}", "${!x}", "${x:=b}", "${x:-c}", "${x:i}", "${a[x]}", "${x/b/c}", "$_", "$@", "${x@Q}", "${x%b}", "$#", "$?")
	case 5:
		return "$((" + g.pick("x", "i", "1", "i+1", "$x", "$i*2", "x=1", "i++", "'a[$(touch R)]'", "a[i]", "5/0", "_") + "))"
	case 6:
		return "$(" + g.command() + ")"
	case 7:
		return "$'" + g.pick(`a`, `\x74ouch`, `a\'`, `\n`, `-v`) + "'"
	case 8:
		return g.pick("ls", "touch", "R", "b*", "{ls,R}", "l\\s", "to''uch", "-n", "-v", "<(ls)", "+(a)", "@(touch R)", "~/x")
	}
	return g.pick("x", "b", "1", "R", "-n", "b.txt", "./b", "-l", "i", "y", "=", "-eq", "-f", "!", "a")
}

func (g *generator) assignment() string {
	return g.variable() + g.pick("=", "=", "=", "+=", "[0]=", "[x]=") + g.pick(g.word(), g.word(), "1", "5", "(1 2)")
}

func (g *generator) command() string {
	if g.depth > 4 {
		return "ls"
	}
	g.depth++
	defer func() { g.depth-- }()
	words := func(n int) string {
		var out []string
		for range g.r.IntN(n + 1) {
			out = append(out, g.word())
		}
		return strings.Join(out, " ")
	}
	switch g.r.IntN(30) {
	case 0, 1, 2:
		return g.assignment()
	case 3:
		return g.assignment() + "; " + g.command()
	case 4:
		return g.pick("declare", "export", "local", "typeset", "readonly") + " " + g.pick("", "-i ", "-n ", "-x ", "-a ") + g.pick(g.assignment(), g.word())
	case 5:
		return "[ " + g.pick("", "! ") + words(3) + " ]"
	case 6:
		return "test " + words(3)
	case 7:
		return "[[ " + g.pick("-v", "-n", "!", "-f") + " " + g.word() + " ]]"
	case 8:
		return "[[ " + g.word() + " " + g.pick("-eq", "==", "=~", "-lt") + " " + g.word() + " ]]"
	case 9:
		return g.pick("read ", "read -r ", "printf ", "printf -v ", "unset ", "getopts a ", "wait ", "let ", "mapfile ", "shift ", "set -- ", "set ", "cd ", "type ", "eval ", "trap ", "hash ", "exec ", "source ", ". ") + words(2) + g.pick("", " <<< "+g.word())
	case 10:
		return "find . -maxdepth 0 " + words(4)
	case 11:
		return g.pick("awk ", "sed ", "sort ", "env ", "timeout 1 ", "nice ", "command ", "builtin ", "bash -c ", "sh -c ", "xargs ", "nohup ", "time ") + words(3)
	case 12:
		return "if " + g.command() + "; then " + g.command() + g.pick("", "; else "+g.command()) + "; fi"
	case 13:
		return "for " + g.variable() + " in " + words(3) + "; do " + g.command() + "; done"
	case 14:
		return "case " + g.word() + " in " + g.pick("x", "*", "b|R", "'a'") + ") " + g.command() + ";; esac"
	case 15:
		return g.pick("f", "ls", "cd", "g") + "() { " + g.command() + "; }; " + g.pick("f", "g", "ls") + " " + words(2)
	case 16:
		return g.pick("{ "+g.command()+"; }", "( "+g.command()+" )", "! "+g.command(), g.command()+" &")
	case 17:
		return g.command() + g.pick(" | ", " && ", " || ", "; ", "\n", " & ") + g.command()
	case 18:
		return "((" + g.pick("i++", "x", "i=1", "x=a[0]", "PATH=1", "i<3") + "))"
	case 19:
		return "cat <<" + g.pick("E", "'E'", "\\E", "\"E\"", "-E") + "\n" + g.pick("$(touch R)", "$x", "${x@P}", "a", "`ls`", "$((x))") + "\nE\n"
	case 20:
		return g.assignment() + " " + g.pick("ls", "cat b.txt", "echo")
	case 21:
		return g.word() + " " + words(2)
	case 22:
		return "for ((i=" + g.pick("0", "x", "1") + ";i<2;i++)); do " + g.command() + "; done"
	}
	return g.pick("ls", "cat", "echo", "git status", "ls -l", "echo a") + " " + words(3) + g.pick("", "", "", " > b.txt", " 2>/dev/null", " < b.txt", " {x}>b.txt", " >&2")
}

// mutate changes single characters of a script. Parsers disagree most about damaged scripts.
func (g *generator) mutate(s string) string {
	for range g.r.IntN(3) {
		if s == "" {
			return s
		}
		at := g.r.IntN(len(s))
		c := g.pick("'", `"`, `\`, "$", "(", ")", "{", "}", "[", "]", ";", "|", "&", "<", ">", "#", "!", "\n", " ", "\t", "=", "*", "?", "-", "`", "\r", "@", "x", "1")
		switch g.r.IntN(3) {
		case 0:
			s = s[:at] + c + s[at:]
		case 1:
			s = s[:at] + s[at+1:]
		default:
			s = s[:at] + c + s[at+1:]
		}
	}
	return s
}

// prime is a listed script that stores code in variables. In a session, an earlier call can do the same.
const prime = `x='a[$(touch R)]'; y='-v'; i='$(touch R)'; a='touch R'; echo 'touch R' > b`

// TestOracleListed runs random scripts that the policy allows, and checks that bash executes only listed programs. The
// environment variable TOOLHOST_FUZZ sets the number of rounds.
func TestOracleListed(t *testing.T) {
	rounds := 500
	if n, err := strconv.Atoi(os.Getenv("TOOLHOST_FUZZ")); err == nil {
		rounds = n
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("the test compares the policy with bash: ", err)
	}
	dir, programs := t.TempDir(), t.TempDir()
	log := filepath.Join(programs, "log")
	// All programs come from the system. Only touch is replaced: it is not listed, and it logs its name.
	allowed := []string{"ls", "cat", "find", "awk", "sed", "sort", "xargs", "bash", "sh", "nohup", "env", "timeout", "nice", "git"}
	for _, name := range allowed {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(programs, "touch"), []byte("#!"+bash+"\necho touch >> '"+log+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	patterns := []string{"ls *", "cat *", "find *", "awk *", "sed *", "sort *", "xargs *", "sh *", "git status *", "echo *"}
	p := rules(t, policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, patterns...)}})
	seed := uint64(time.Now().UnixNano())
	g := &generator{r: rand.New(rand.NewPCG(seed, 1))}
	ran, seen := 0, 0
	for range rounds {
		session := []string{prime}
		if d := p.Judge(command(t, dir, prime)); d.Effect != policy.Allow {
			t.Fatalf("%+v", d)
		}
		for range 1 + g.r.IntN(4) {
			script := g.command()
			if g.r.IntN(2) == 0 {
				script = g.mutate(script)
			}
			if seen++; p.Judge(command(t, dir, script)).Effect == policy.Allow {
				session = append(session, script)
			}
		}
		if len(session) == 1 {
			continue
		}
		ran += len(session) - 1
		runSession(t, bash, dir, programs, session)
		if text, err := os.ReadFile(log); err == nil {
			t.Fatalf("seed %d: an unlisted program ran (%s):\n%s", seed, strings.TrimSpace(string(text)), strings.Join(quotedAll(session), "\n"))
		}
	}
	t.Logf("%d of %d scripts were allowed", ran, seen)
	if ran < rounds/5 {
		t.Errorf("only %d of %d scripts were allowed: the test shows nothing", ran, seen)
	}
}

// runSession runs scripts in sequence in the same shell and ends all processes that the scripts start. The call depth
// of functions is limited, because functions can call themselves in subshells.
func runSession(t *testing.T, bash, dir, programs string, session []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, bash, slices.Concat([]string{"-c", `for script; do eval "$script"; done`, "session"}, session)...)
	c.Dir, c.Env = dir, []string{"PATH=" + programs, "HOME=" + dir, "FUNCNEST=8"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 100 * time.Millisecond
	_ = c.Run() // ignore the error: a random script can fail
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

func quotedAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = fmt.Sprintf("%q", s)
	}
	return out
}
