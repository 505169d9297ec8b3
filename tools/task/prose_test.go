package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAvoid(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"// Latest gives the dispatcher that has replaced this one.":       true,
		"// Empty: the default.":                                           true,
		"// nil: none will.":                                               true,
		"// commandNotFound is the status for a command that there is not": true,
		"// Restart limits how a plugin that comes to nothing is started":  true,
		"// it has them called in turn":                                    true,
		"// Latest returns the current dispatcher. A nil one is an error":  false,
		"// The user gives a name.":                                        false,
		"// A plugin may be restarted by the supervisor.":                  false,
	} {
		if avoid.MatchString(line) != want {
			t.Errorf("%s: %t", line, !want)
		}
	}
}

func TestCountProse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go":    "package a\n\n// A gives a.\nfunc A() string { return \"A gives a.\" } // is none\n",
		"a.pb.go": "// A gives a.\npackage a\n",
		"a.txt":   "// A gives a.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := countProse(dir); err != nil || n != 2 {
		t.Errorf("%d lines, %v", n, err)
	}
}

func TestProseLimit(t *testing.T) {
	t.Parallel()
	r, _ := repository(t, nil)
	r.Root = t.TempDir()
	for _, dir := range []string{"host", "sdk", "plugins", "tools/task"} {
		if err := os.MkdirAll(r.Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(r.Path("sdk/a.go"), []byte("// A gives a.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[string]string{
		"1\n": "",
		"0\n": "1 comment lines use phrases to avoid, the limit is 0; rewrite what you added (see CONTRIBUTING.md)",
		"2\n": "1 comment lines use phrases to avoid, the limit is 2; lower it in tools/task/prose.txt",
	} {
		if err := os.WriteFile(r.Path(prose), []byte(limit), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.checkProse(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v", limit, err)
		}
	}
}
