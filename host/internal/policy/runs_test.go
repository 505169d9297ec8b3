package policy_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
)

// meanwhile is a person who accepts everything. Before the answer, a file changes.
type meanwhile struct{ change func() }

func (m meanwhile) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	m.change()
	return tool.Answer{Outcome: tool.Accepted}, nil
}

// nothing is a store without answers.
type nothing struct{ known bool }

func (n nothing) Recall(string, string, string) (policy.Remembered, bool) {
	return policy.Remembered{Allow: true, Origin: "answer 1"}, n.known
}
func (nothing) Remember(string, string, string, bool, bool) error { return nil }

// TestChangedScripts checks that a person's answer holds only for the scripts and programs as they were when the person
// was asked.
func TestChangedScripts(t *testing.T) {
	for _, tc := range []struct {
		command, change string
		refused         bool
	}{
		{"sh s", "s", true}, {"bash -x ./s arg", "s", true}, {"/bin/sh -- s", "s", true}, {"python3 -W ignore s data", "s", true}, {"node --require=./s main", "s", true},
		{"./s", "s", true}, {"sub/tool arg", "sub/tool", true}, {"$PWD/s", "s", true}, {"$UNKNOWN/s", "s", false}, {". ./s", "s", true}, {"source s", "s", true},
		{"source other && sh s", "s", true}, {"cat s | sh", "s", true}, {"sh < s", "s", true}, {"bash -s arg <s", "s", true}, {"python3 - <s", "s", true},
		{"timeout 5 sh s", "s", true}, {"env X=1 ./s", "s", true}, {"cd sub && sh tool", "sub/tool", true}, {"(cd sub; ./tool)", "sub/tool", true}, {"bash -c 'sh s'", "s", true},
		{"make", "Makefile", true}, {"make all", "Makefile", true}, {"make -C sub", "sub/Makefile", true}, {"make -fs", "s", true}, {"python3 sub", "sub/__main__.py", true},
		{"awk -f s data", "s", true}, {"sed --file=s data", "s", true}, {"sh link", "s", true}, {"sh new", "new", true},
		{"sh s", "data", false}, {"cat s", "s", false}, {"git push", "s", false}, {"./s data", "data", false}, {"awk '{print}' data", "data", false}, {"cat data | sed p | awk 1; ./s", "data", false},
		{"make", "s", false}, {"ssh host sh s", "s", false},
	} {
		dir := t.TempDir()
		write := func(name, text string) {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"s", "other", "main", "data", "Makefile", "sub/tool", "sub/Makefile", "sub/__main__.py"} {
			write(name, "true\n")
		}
		if err := os.Symlink("s", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		p := policy.New(policy.Rules{Default: policy.Ask})
		check := func(change string, known bool) error {
			req := command(t, dir, tc.command)
			d, err := p.Check(t.Context(), req, meanwhile{func() {
				if change != "" {
					write(change, "false\n# changed\n")
				}
			}}, nothing{known})
			if err != nil {
				t.Fatalf("%s: %v", tc.command, err)
			}
			_, err = p.Recheck(command(t, dir, tc.command), d)
			return err
		}
		if err := check("", false); err != nil {
			t.Errorf("%s: nothing changed: %v", tc.command, err)
		}
		if err := check(tc.change, true); err != nil {
			t.Errorf("%s: a remembered answer: %v", tc.command, err)
		}
		err := check(tc.change, false)
		if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), filepath.Join(dir, tc.change)+" changed after the call was permitted") && tc.command != "sh link" {
			t.Errorf("%s, %s changed: %v", tc.command, tc.change, err)
		}
	}
}

// TestChangedScriptsAtExecution checks the same for a program whose execution a person permits.
func TestChangedScriptsAtExecution(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	for _, refused := range []bool{false, true} {
		if err := os.WriteFile(path, []byte("true\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		p := rules(t, policy.Rules{Rules: []policy.Rule{rule(policy.Ask, "sh *")}})
		call := &tool.Call{Cwd: dir, Roots: []tool.Root{{Path: dir, Writable: true}}}
		j := p.JudgeExecution(&policy.Execution{Path: "/bin/sh", File: "/bin/dash", Args: []string{"sh", "s"}, Dir: dir, Tool: "bash", Call: call, Workspace: dir, Since: time.Time{}})
		if j.Effect != policy.Ask {
			t.Fatalf("%+v", j)
		}
		j, err := policy.ConfirmExecution(t.Context(), "bash", j, nil, meanwhile{func() {
			if refused {
				if err := os.WriteFile(path, []byte("false\n# changed\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
		}}, nothing{})
		if (j.Effect == policy.Deny) != refused || (err != nil) != refused {
			t.Errorf("changed %v: %+v %v", refused, j, err)
		}
	}
}
