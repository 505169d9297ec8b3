package main

import (
	"os"
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

func TestCheckProse(t *testing.T) {
	t.Parallel()
	r, _ := repository(t, nil)
	r.Root = t.TempDir()
	for _, dir := range []string{"branch", "host", "plugins", "sandbox", "sdk", "shellscript"} {
		if err := os.MkdirAll(r.Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"host/a.go":    "package a\n\n// A gives a.\nfunc A() string { return \"A gives a.\" } // is none\n",
		"host/a.pb.go": "// A gives a.\npackage a\n",
		"host/a.txt":   "// A gives a.\n",
		"sdk/b.go":     "// B returns a.\npackage b\n",
	} {
		if err := os.WriteFile(r.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := "comments use phrases to avoid (CONTRIBUTING.md lists clearer words):\nhost/a.go:3: // A gives a.\nhost/a.go:4: // is none"
	if err := r.checkProse(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if err := os.Remove(r.Path("host/a.go")); err != nil {
		t.Fatal(err)
	}
	if err := r.checkProse(); err != nil {
		t.Error(err)
	}
}
