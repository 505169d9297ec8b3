package router_test

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/router"
)

// bash returns the words into which the program bash splits the arguments of a command.
func bash(t *testing.T, args string) (words []string, ok bool) {
	t.Helper()
	cmd := exec.Command("bash", "--norc", "--noprofile", "-c", "set -f\nprintf '%s\\0' x "+args)
	cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		return nil, false
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")[1:], true
}

// TestQuoteRemovalIsBashs checks that Parse and bash remove quotes in the same way. The test words contain no
// expansions.
func TestQuoteRemovalIsBashs(t *testing.T) {
	pieces := []string{
		"a", "b c", "'", `"`, `\`, " ", "'x y'", `"x y"`, `\'`, `\"`, `\\`, `\$`, "\\`", `\n`, `'\'`, `"\n\\\""`, `$'\n\x41\u00e9\'\\'`,
		"\\\n", "'a\nb'", "\"a\\\nb\"", "é", "日本", "#", "a#b", "=", "--x=y", "''", `""`, "!", `"!"`, "]", "^", "%", ",", ":", "@", `\*`, `\?`, `"$"`, `"a$ b"`, "-", "\t", `"\a\$"`, "$'a\\tb'",
		`$"x"`, "\u00a0", "{", "}", `"'"`, `'"'`, "a\\\n b", "$'\\e[0m'", `$'\101\0'`,
	}
	rng := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for range 600 {
		var b strings.Builder
		for range 1 + rng.IntN(6) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		args := b.String()
		if strings.Contains(args, "$$") || strings.HasSuffix(args, `\`) && strings.Contains(args, "\n") {
			continue // skip expansions, and skip texts in which "bash -c" drops the last backslash
		}
		want, ok := bash(t, args)
		if !ok {
			continue
		}
		c := router.Parse("tool:open -- "+args, tools, options)
		if c.Error != nil && c.Layer == router.Native {
			// Parse is allowed to refuse a text that bash accepts, but must not change the meaning of the text.
			t.Errorf("%q is refused: %v; bash makes %q of it", args, c.Error, want)
			continue
		}
		if c.Layer == router.Native {
			t.Errorf("%q went to the shell: %s", args, c.Reason)
			continue
		}
		compared++
		got := c.Args
		if c.Error != nil {
			got = got[1:] // the words of a refused command begin with "--"
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\n  is %q\nbash %q", args, got, want)
		}
	}
	if compared < 200 {
		t.Errorf("only %d commands could be compared", compared)
	}
}

// TestHeredocsAreBashs checks that Parse and bash read the same text from a heredoc if the heredoc contains no
// expansions.
func TestHeredocsAreBashs(t *testing.T) {
	pieces := []string{"a", "\n", "\t", " ", `\`, `\\`, "'", `"`, "é", "E", "EO", "\n\n", "\\\n", "<<X", "#", "|", "&&", ")", "(", "{", "\\t", "\n\tEO F\n", "\r\n"}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, op := range []string{"<<EOF", "<<'EOF'", `<<"EOF"`, `<<\EOF`, "<<-EOF", "<<-'EOF'"} {
		for range 50 {
			var b strings.Builder
			for range rng.IntN(12) {
				b.WriteString(pieces[rng.IntN(len(pieces))])
			}
			body := b.String()
			for body != "" && !strings.HasSuffix(body, "\n") || strings.HasSuffix(body, "\\\n") {
				body += "\n"
			}
			cmd := exec.Command("bash", "--norc", "--noprofile", "-c", "cat "+op+"\n"+body+"EOF\n")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			c := router.Parse("write f "+op+"\n"+body+"EOF\n", tools, options)
			if c.Error != nil {
				t.Errorf("%s %q is refused: %v", op, body, c.Error)
				continue
			}
			var got string
			if err := json.Unmarshal(c.Kwargs["content"], &got); err != nil {
				t.Fatal(err)
			}
			if got != string(out) {
				t.Errorf("%s %q\n  is %q\nbash %q", op, body, got, out)
			}
		}
	}
}
