package calls

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestAnswersAtTheTerminal checks that a user can answer permission requests at a terminal. Lasting answers must be
// saved and listed, and it must be possible to revoke them.
func TestAnswersAtTheTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	config := filepath.Join(dir, "toolhost.hcl")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(`
plugin "bash" {}
permissions {
  ask "greet" { command = "echo hello *" }
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	toolhost := func(typed string, args ...string) (string, bool) {
		t.Helper()
		c := hosttest.Command(append([]string{"--config", config, "--workspace", work, "--state", hosttest.KeptState(t, filepath.Join(dir, "state"))}, args...)...)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if typed != "" {
			person, program := hosttest.TerminalPair(t)
			c.Stdin = program
			if _, err := person.WriteString(typed + "\n"); err != nil {
				t.Fatal(err)
			}
		}
		err := c.Run()
		return out.String(), err == nil
	}
	for _, tc := range []struct {
		typed, command, want string
		ok                   bool
	}{
		{"y", "echo hello once", "Run bash?\n  echo hello once\n", true}, {"n", "echo hello once", "the user declined", false}, {"what\n", "echo hello once", "Unknown answer \"what\". Type y, s, a, n or v.", false},
		{"a", "echo hello always", "hello always", true}, {"", "echo hello always", "hello always", true}, {"v", "echo hello never", "declined, for good", false}, {"y", "echo hello never", "was denied by answer 2 for the workspace ", false},
		{"s", "echo hello session", "hello session", true}, {"", "echo hello session", "hello session", true}, {"", "echo hello other", "standard input is no terminal", false},
	} {
		out, ok := toolhost(tc.typed, "--on-ask", "prompt", "run", tc.command)
		if ok != tc.ok || !strings.Contains(out, tc.want) {
			t.Errorf("%s, answered %q: %v\n%s", tc.command, tc.typed, ok, out)
		}
	}
	if out, ok := toolhost("", "--session", "another", "--on-ask", "prompt", "run", "echo hello session"); ok {
		t.Errorf("an answer for one session also applies in another session:\n%s", out)
	}
	out, _ := toolhost("", "policy", "list")
	for _, want := range []string{"1   allow   bash  bash  echo hello always   workspace", "never   bash  bash  echo hello never", "echo hello session  session"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list does not contain %q:\n%s", want, out)
		}
	}
	if out, ok := toolhost("", "policy", "revoke", "1"); !ok || !strings.Contains(out, "Forgotten: 1.") {
		t.Error(out)
	}
	for _, wrong := range [][]string{{"policy", "revoke", "1"}, {"policy", "revoke"}, {"policy", "revoke", "x"}, {"policy", "revoke", "1", "--all"}} {
		if out, ok := toolhost("", wrong...); ok {
			t.Errorf("%v: %s", wrong, out)
		}
	}
	if out, ok := toolhost("", "--on-ask", "prompt", "run", "echo hello always"); ok {
		t.Errorf("a revoked answer still applies:\n%s", out)
	}
	if out, _ := toolhost("", "policy", "revoke", "--all"); !strings.Contains(out, "Forgotten: 2.") {
		t.Error(out)
	}
	if out, _ := toolhost("", "policy", "list", "--json"); out != "[]\n" {
		t.Error(out)
	}
}

// TestOutsideAtTheTerminal checks a path outside of the roots (requirement E3). If a person can answer, the host must
// ask about the path. If the person agrees, the path must also become accessible in the plugin's sandbox. In all other
// cases, it must stay inaccessible.
func TestOutsideAtTheTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	work, outside := filepath.Join(dir, "work"), filepath.Join(dir, "outside")
	for _, d := range []string{work, outside, filepath.Join(outside, "sub")} {
		hosttest.Must(t, os.Mkdir(d, 0o700))
	}
	file, other := filepath.Join(outside, "file"), filepath.Join(outside, "sub", "other")
	hosttest.Must(t, os.WriteFile(file, []byte("found\n"), 0o600))
	hosttest.Must(t, os.WriteFile(other, []byte("found\n"), 0o600))
	config := filepath.Join(dir, "toolhost.hcl")
	for _, tc := range []struct {
		config, typed, onAsk, command, want string
		ok                                  bool
	}{
		{"", "n", "prompt", "read " + file, "Let read use files outside of the roots?\n  " + file, false},
		{"", "n", "prompt", "read " + file, "the user declined", false},
		{"", "y", "prompt", "read " + file, "found", true},
		{"", "", "prompt", "read " + file, "is outside of the roots", false}, // no terminal, so no question
		{"", "y", "deny", "read " + file, "is outside of the roots", false},
		{"", "y", "allow", "read " + file, "is outside of the roots", false}, // --on-ask=allow is not the answer of a person
		{"", "y", "prompt", "write " + filepath.Join(outside, "new") + " --content x", "Created", true},
		// A tool that a command calls asks as the direct call does.
		{"", "n", "prompt", "true; tool:read " + file, "Let read use files outside of the roots?\n  " + file, false},
		{"", "n", "prompt", "true; tool:read " + file, "the user declined", false},
		{"", "y", "prompt", "true; tool:read " + file, "found", true},
		{"", "", "prompt", "true; tool:read " + file, "is outside of the roots", false},
		{"", "y", "allow", "true; tool:read " + file, "is outside of the roots", false},
		{"", "s", "prompt", "read " + other, "found", true},
		{"", "n", "prompt", "read " + other, "found", true}, // the answer from the previous case applies in this session
		{"", "", "prompt", "read " + other, "found", true},  // also where nobody can be asked
		{"", "", "deny", "read " + other, "found", true},
		{"", "", "deny", "true; tool:read " + other, "found", true},
		{"sandbox {\n  deny = [\"**/file\"]\n}\n", "y", "prompt", "read " + file, "is denied by", false},
		{"permissions {\n  deny \"x\" { path = \"" + file + "\" }\n}\n", "y", "prompt", "read " + file, "is denied by", false},
		{"permissions {\n  deny \"x\" { kind = \"external_directory\" }\n}\n", "y", "prompt", "read " + file, "is denied by", false},
		{"permissions {\n  default = \"deny\"\n}\n", "y", "prompt", "read " + file, "denied", false},
	} {
		hosttest.Must(t, os.WriteFile(config, []byte(tc.config), 0o600))
		c := hosttest.Command("--config", config, "--workspace", work, "--state", hosttest.KeptState(t, filepath.Join(dir, "state")), "--session", "s", "--on-ask", tc.onAsk, "run", tc.command)
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if tc.typed != "" {
			person, program := hosttest.TerminalPair(t)
			c.Stdin = program
			_, err := person.WriteString(tc.typed + "\n")
			hosttest.Must(t, err)
		}
		err := c.Run()
		if (err == nil) != tc.ok || !strings.Contains(out.String(), tc.want) || !tc.ok && strings.Contains(out.String(), "found") {
			t.Errorf("%s%s, on_ask %s, answered %q: %v\n%s", tc.config, tc.command, tc.onAsk, tc.typed, err, out.String())
		}
		if tc.ok && tc.command == "read "+other { // what the policy expects is what happens
			for _, args := range [][]string{{"policy", "check", tc.command}, {"explain", tc.command}, {"--json", "explain", tc.command}, {"log"}} {
				check := hosttest.Command(append([]string{"--config", config, "--workspace", work, "--state", filepath.Join(dir, "state"), "--session", "s"}, args...)...)
				if text, err := check.Output(); err != nil || !strings.Contains(string(text), "allow") || tc.onAsk != "prompt" && !strings.Contains(string(text), "remembered (answer 1 for the session ") {
					t.Errorf("%q: %v\n%s", args, err, text)
				}
			}
		}
	}
}
