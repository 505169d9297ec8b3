package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/test/hosttest"
)

// TestSameChecks checks that the same mistakes of a configuration are refused by validate, at a start and by a reload, with the
// same words.
func TestSameChecks(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	file := filepath.Join(dir, "toolhost.hcl")
	good, err := os.ReadFile(file)
	hosttest.Must(t, err)
	hosttest.StartServer(t, dir, nil, "--listen", "127.0.0.1:0")
	for text, want := range map[string]string{
		"permissions {\n  deny \"x\" { path = \"Read(./.env)\" }\n}\n":                  `"Read(./.env)" is a rule of another program, which matches nothing here. Write path = [".env"]`,
		"permissions {\n  ask \"x\" { command = [\"ls\", \"Bash(git push *)\"] }\n}\n":  `Write command = ["git push *"]`,
		"permissions {\n  ask \"x\" { domain = \"WebFetch(domain:example.org)\" }\n}\n": `Write domain = ["example.org"]`,
		"permissions {\n  paths {\n    protect = [\"Edit(docs/**)\"]\n  }\n}\n":         `Write path = ["docs/**"]`,
		"sandbox {\n  deny = [\"Read(secrets/**)\"]\n}\n":                               `Write path = ["secrets/**"]`,
		"permissions {\n  deny \"x\" { tool = \"raed\" }\n}\n":                          `Unknown tool "raed". Did you mean "read"?`,
		"record {\n  dir = \"tapes\"\n}\n":                                              "the directory of recordings " + dir + "/tapes is in " + dir + ", where tools can write. In record { dir }, name a directory outside of it",
		fmt.Sprintf("sandbox {\n  root %q { writable = true }\n}\n", dir+".state"):      "the state directory " + dir + ".state is in " + dir + ".state, where tools can write",
	} {
		for command, args := range map[string][]string{"validate": {"config", "validate"}, "run": {"run", "read notes.txt"}, "reload": {"config", "reload"}} {
			hosttest.Must(t, os.WriteFile(file, append([]byte(text), good...), 0o600))
			c := hosttest.Toolhost(t, dir, args...)
			c.Stderr = nil
			out, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s\n%s: %v\n%s", text, command, err, out)
			}
		}
		hosttest.Must(t, os.WriteFile(file, good, 0o600))
		if out, err := hosttest.Toolhost(t, dir, "config", "validate").Output(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}
