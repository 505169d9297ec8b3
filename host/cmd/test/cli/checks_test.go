package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// sameChecks returns configurations with one mistake each.
func sameChecks(dir string) []check {
	permissions := func(text string) string { return "permissions {\n  " + text + "\n}\n" }
	return []check{
		{permissions(`deny "x" { path = "Read(./.env)" }`), `"Read(./.env)" is a rule of another program, which matches nothing here. Write path = [".env"]`, false},
		{permissions(`ask "x" { command = ["ls", "Bash(git push *)"] }`), `Write command = ["git push *"]`, false},
		{permissions(`ask "x" { domain = "WebFetch(domain:example.org)" }`), `Write domain = ["example.org"]`, false},
		{permissions("paths {\n    protect = [\"Edit(docs/**)\"]\n  }"), `Write path = ["docs/**"]`, false},
		{"sandbox {\n  deny = [\"Read(secrets/**)\"]\n}\n", `Write path = ["secrets/**"]`, false},
		{permissions(`deny "x" { tool = "raed" }`), `Unknown tool "raed". Did you mean "read"?`, false},
		{permissions(`deny "x" { tool = "Bash(rm *)" }`), `write "bash"`, false},
		{"hook \"x\" {\n  on      = [\"before_call\"]\n  tools   = [\"raed\"]\n  command = [\"/bin/true\"]\n  trial   = false\n}\n", `Unknown tool "raed"`, false},
		{"record {\n  dir = \"tapes\"\n}\n", "the directory of recordings " + dir + "/tapes is in " + dir + ", where tools can write. In record { dir }, name a directory outside of it", true},
		{fmt.Sprintf("sandbox {\n  root %q { writable = true }\n}\n", dir+".state"), "the state directory " + dir + ".state is in " + dir + ".state, where tools can write", false},
		{"tool \"raed\" { enabled = false }\n", `The block tool "raed" has no effect. Unknown tool "raed". Did you mean "read"?`, false},
		{"tool \"raed\" { max_concurrent = 1 }\n", `Unknown tool "raed"`, false},
		{"tool \"read\" {}\ntool \"Read\" { enabled = false }\n", `The block tool "read" is about the same tool`, false},
		{"tool \"raed\" { timeout = \"9s\" }\n", `Unknown tool "raed". Did you mean "read"?`, true},
		{"tool \"read\" {\n  fallback { tool = \"gerp\" }\n}\n", `The fallback of tool "read" has no effect. Unknown tool "gerp". Did you mean "grep"?`, true},
		{"tool \"read\" {\n  fallback { tool = \"Grep\" }\n}\ntool \"Grep\" {\n  fallback { tool = \"tool:read\" }\n}\n", `The fallbacks do not end. They are read, grep, and then read again`, true},
		{"alias \"look\" { tool = \"raed\" }\n", `Alias "look" has no effect`, true},
		{"principal \"x\" { tools = [\"raed\"] }\n", `Unknown tool "raed". Did you mean "read"?`, true},
		{"principal \"x\" { fields = [\"tset\"] }\n", `Unknown field "tset". Did you mean "test"?`, true},
		{"endpoint \"x\" { tools = [\"raed\"] }\n", `Unknown tool "raed"`, true},
		{"endpoint \"x\" { core = [\"raed\"] }\n", `Unknown tool "raed"`, true},
	}
}

// check is a configuration with a mistake, and what each command reports about it.
type check struct {
	text, want string
	// off reports that a host starts without the wrong part, which restricts nothing.
	off bool
}

// TestSameChecks checks that the same mistakes of a configuration are refused by validate and by a reload, with the
// same words. A start refuses them, too, or turns the wrong part off and reports it in the same words.
func TestSameChecks(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	file := filepath.Join(dir, "toolhost.hcl")
	good, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.StartServer(t, dir, nil, "--listen", "127.0.0.1:0")
	toolhost := hosttest.NewResident(t)
	run := func(args ...string) (out string, status int) {
		t.Helper()
		stdout, stderr, status := toolhost.Toolhost(t, dir, args...)
		return stdout + stderr, status
	}
	for _, tc := range sameChecks(dir) {
		for command, args := range map[string][]string{"validate": {"config", "validate"}, "reload": {"config", "reload"}, "run": {"run", "read notes.txt"}, "status": {"status"}, "doctor": {"doctor"}} {
			hosttest.Must(t, os.WriteFile(file, append([]byte(tc.text), good...), 0o600))
			out, status := run(args...)
			if !strings.Contains(out, tc.want) || (status == 0) != (tc.off && command == "run") && command != "status" && command != "doctor" {
				t.Errorf("%s\n%s: exit status %d\n%s", tc.text, command, status, out)
			}
		}
	}
	for _, text := range []string{
		"tool \"Bash\" { timeout = \"9s\" }\n", "tool \"tool:read\" { enabled = true }\n", "tool \"field:test echo\" { timeout = \"9s\" }\n",
		"principal \"x\" {\n  tools  = [\"Read\", \"field:test\"]\n  fields = [\"field:test\"]\n}\n", "endpoint \"x\" {\n  tools = [\"Bash\", \"read\"]\n  core  = [\"Bash\"]\n}\n", "",
	} {
		hosttest.Must(t, os.WriteFile(file, append([]byte(text), good...), 0o600))
		for _, args := range [][]string{{"config", "validate"}, {"config", "reload"}, {"run", "read notes.txt"}} {
			if out, status := run(args...); status != 0 || strings.Contains(out, "no effect") {
				t.Errorf("%s\n%s: exit status %d\n%s", text, args, status, out)
			}
		}
	}
}

// TestUncheckedNames checks that validate reports that it cannot check names before the plugins were loaded.
func TestUncheckedNames(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	args := []string{"config", "validate", "--state", t.TempDir()}
	c := hosttest.Toolhost(t, dir, args...)
	c.Stderr = nil
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "the names of tools and fields were not checked: these plugins are not loaded: ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := hosttest.Toolhost(t, dir, append(args, "--json")...).Output(); err != nil || !strings.Contains(string(out), `"unchecked":"these plugins are not loaded: `) {
		t.Errorf("%v\n%s", err, out)
	}
}
