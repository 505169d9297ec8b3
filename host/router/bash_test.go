//go:build !race

package router_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/router"
)

// accepts reports whether bash can read a script. It runs nothing. Bash only warns of an open heredoc.
func accepts(t *testing.T, script string) bool {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		need.Missing(t, err)
	}
	cmd := exec.Command("bash", "--norc", "--noprofile", "-n")
	cmd.Stdin, cmd.Env = strings.NewReader(script), []string{"LC_ALL=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	return err == nil && !strings.Contains(string(out), "delimited by end-of-file")
}

// sent returns the script that bash gets for a command.
func sent(t *testing.T, c *router.Command) (script string) {
	t.Helper()
	if err := json.Unmarshal(c.Kwargs["command"], &script); err != nil {
		t.Errorf("%.100q has no script: %v", c.Raw, err)
	}
	return script
}

// TestOracleBashReads checks that each text that bash accepts runs. Most of these texts are refused by the
// host's parser. The others are close to them.
func TestOracleBashReads(t *testing.T) {
	for class, texts := range map[string][]string{
		"a subshell that begins like arithmetic":  {"((cd / && pwd) || true)", "((echo a) | cat)", "if ((ls) && (pwd)); then :; fi", "echo $((ls); (pwd))", `((a "b") 2>/dev/null || (c "d"))`},
		"arithmetic that is checked when it runs": {"((1 + ))", "echo $((3 x))", "(( 1.5 + 2 ))", "echo $[1+]", "echo $((a b))", "((++))", "let", "let ++ x", "echo $((1[2]))", "((x = = 1))", "((0 = 1))"},
		"subscripts":                  {"a[b]", "a[b]+", "a[x y]=1", "echo ${a[x y]}", "unset a[1", "declare -A a=([x]=1 [y])", "a=([x])", "a=([b]=(1))", "a[1]=(2)", "x=(1) env", "a=(b=(1))"},
		"expansions":                  {"echo ${x.y}", "echo ${1a}", "echo ${#x:1}", "echo ${!x#y}", "echo ${x~y}", "echo ${x@}", "echo ${$(ls)}", "echo ${(f)x}", "echo ${x:}", "echo ${x:1:}", "echo ${%x}", "echo ${x|y}", "x=${ ls; }", "x=${ ls }\necho [$x]", "x=${ ~/a }", "echo ${|ls; }", "x=${\tls\n}"},
		"expansions that both accept": {"echo ${x@Q} ${!x*} ${!x@} ${x^^} ${x,,} ${x/a/b} ${x:1:2} ${#x[@]} ${x:-$'a'}"},
		"tests":                       {"[[ $x =~ (a|b) ]]", "[[ a == !(b) ]]", "[[ $x -eq y+1 ]]", "[[ x -nt y && ! -e z ]]", "[[ $x == @(a|b)* ]]", "[[ -v a[1] ]]"},
		"names":                       {"function f-g { ls; }", "f-g() { ls; }", "f.g() { ls; }", "function a/b { ls; }", "f$x() { ls; }", "function 'f g' { ls; }", "export a-b=c", "declare x-y", "for a-b in c; do ls; done", "select a.b in c; do ls; done", "function [ { ls; }"},
		"heredocs":                    {"cat <<$x\na\n$x\n", "cat <<\"E F\"\na\nE F\n", "cat <<'E'\"F\"\na\nEF\n", "cat <<-E\n\ta\n\tE\n", "cat <<\\E\n$x\nE\n", "cat <<E; cat <<F\na\nE\nb\nF\n", "cat <<$(x)\na\n$(x)\n", "cat <<E\n$(seq 10\nE\n", "cat <<E\n${x\nE\necho x", "cat <<E\n`ls\nE\n", "cat <<E\n$((1 +\nE\n", "cat <<E\n${x:-'}\nE\n"},
		"redirects":                   {"ls >&$fd", "exec {fd}>file", "exec {a[1]}>file", "ls |& cat", "ls &>x", "ls &>>x", "ls <>x", "ls 2>&1-", "cat <(ls) >(cat)", "ls >|x"},
		"case":                        {"case x in (a) ls;; esac", "case x in a) ls;& b) pwd;;& *) ;; esac", "case in in in) ls;; esac", "case x in esac"},
		"loops":                       {"for ((;;)); do break; done", "for ((i=0;i<3;i++)) { ls; }", "for i do ls; done", "for i in a b; { ls; }", "select x in a; do ls; done", "until false; do break; done"},
		"keywords":                    {"coproc ls", "coproc X { ls; }", "time -p ls", "time", "! ls", "! ! ls", "! time ls", "time ! ls", "!", "{ ls; }", "f() ( ls )", "f() [[ x ]]", "f() ((1))"},
		"words":                       {"echo $'a\\'b'", `echo $"x"`, "echo !(a) @(b|c) +(d) ?(e)", "echo {a,b}{1..3}", "a=([x]=1 [y]=2)", "a+=(1)", "x=$(<f)", "echo `ls \\`pwd\\``", "!x", "echo a!b", "shopt -s extglob\necho !(x)", "alias x=y\nx"},
		"line endings":                {"ls\r\npwd\r\n", "if true; then\r\nls\r\nfi", "ls \\\n -l\n", "# only\nls # comment"},
	} {
		for _, text := range texts {
			ok := accepts(t, text)
			c := router.Parse(text, tools, options)
			consistent(t, c)
			switch {
			case !ok:
				t.Logf("%s: this bash refuses %q", class, text)
				if c.Error == nil && accepts(t, sent(t, c)) {
					t.Errorf("%s: bash refuses %q and accepts %q", class, text, sent(t, c))
				}
			case c.Error != nil:
				t.Errorf("%s: %q is refused: %s", class, text, c.Error.Message)
			case c.Layer == router.Native && !accepts(t, sent(t, c)):
				t.Errorf("%s: bash gets %q for %q", class, sent(t, c), text)
			}
		}
	}
}

// TestOracleCutOff checks that nothing of a text runs if its end is missing or its syntax is wrong.
func TestOracleCutOff(t *testing.T) {
	for _, text := range []string{
		"touch x\necho 'open", "touch x\necho \"${a}", "touch x\nif [ -f y ]; then", "touch x\ncat <<E\na", "touch x; ((cd / && pwd)", "touch x\n)", "touch x\n[[ a b c", "touch x\necho ${a", "touch x; let i=(",
		"touch x\nfor i in a b; ls; done", "touch x\n((a)) b", "touch x\n}", "touch x\na=(1", "touch x\nf() ", "touch x\n! && ls", "touch x\nexport a=(", "touch x \\", "touch x\ncase x in a[b) ", "touch x\n${x.y} )", "touch x\ncat <<E\n$(ls\n", "touch x\ncat <<E\na\nE\necho 'open", "touch x\ncat <<E\na\nE\necho $(ls", "touch x\ny=${ ls", "touch x\ncat <<E\n${y\nE\n\"open",
	} {
		dir := t.TempDir()
		c := router.Parse(text, tools, options)
		consistent(t, c)
		if c.Error != nil {
			continue
		}
		cmd := exec.Command("bash", "--norc", "--noprofile", "-c", sent(t, c))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if _, made := os.Stat(filepath.Join(dir, "x")); made == nil && err != nil {
			t.Errorf("%q: a part ran: %s", text, out)
		}
	}
}

// shebang matches the first line of a shell script.
var shebang = regexp.MustCompile(`^#! ?(/usr)?/bin/(env )?(ba|da)?sh\b`)

// TestOracleScripts checks that each shell script of the machine runs if bash accepts it.
func TestOracleScripts(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Log(err)
	}
	dirs, err := filepath.Glob(filepath.Join(cache, "toolhost-build", "debian-*"))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, dir := range append(dirs, "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib/git-core", "/usr/libexec", "/etc", "/usr/share", "/var/lib/dpkg/info") {
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			continue // the machine does not have the directory
		}
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error { // ignore the error: what cannot be read is counted
			if err == nil && e.Type().IsRegular() {
				counts[tryScript(t, path)]++
			}
			return nil
		})
	}
	delete(counts, "")
	t.Log(counts)
	if counts["runs"]+counts["refused by bash, too"] == 0 {
		need.Missing(t, "the machine has no shell scripts")
	}
}

// tryScript compares bash and Parse, and returns the result. The result is empty if the file is not a script.
func tryScript(t *testing.T, path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "unreadable"
	}
	head := make([]byte, 64)
	n, _ := f.Read(head) // ignore the error: an empty file is not a script
	_ = f.Close()        // ignore the error: the file was only read
	if !shebang.Match(head[:n]) {
		return ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "unreadable"
	}
	text := string(b)
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") || len(text) > router.MaxCommand {
		return "not a text"
	}
	c := router.Parse(text, tools, options)
	if c.Error == nil && sent(t, c) == text {
		return "runs" // if bash refuses the text, the message is from bash
	}
	ok := accepts(t, text)
	switch {
	case ok && c.Error != nil:
		t.Errorf("%s is refused: %s", path, c.Error.Message)
	case c.Error == nil && ok != accepts(t, sent(t, c)):
		t.Errorf("%s: bash accepts the script: %v, and in braces: %v", path, ok, !ok)
	case ok:
		return "runs"
	}
	return "refused by bash, too"
}
