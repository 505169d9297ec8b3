package main

import (
	"os"
	"strings"
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
		"sdk/c.go": "package b\n\n// The method \"c\" is.\nfunc c() {}\n\n// d is.\n// The method \"c\" is d.\nfunc d() {}\n\n// This method is.\nfunc e() {\n\t// f" + strings.Repeat(" w", 56) +
			"\n\t// g" + strings.Repeat(" w", 57) + "\n\t// 1. a" + strings.Repeat(" w", 57) + "\n\t//\ta" + strings.Repeat(" w", 57) + "\n}\n",
	} {
		if err := os.WriteFile(r.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := "comments use phrases to avoid (CONTRIBUTING.md lists clearer words), do not begin with a name, or comments or code have more than 120 columns:\nhost/a.go:3: // A gives a.\nhost/a.go:4: // is none\n" +
		"sdk/c.go:3: // The method \"c\" is.\nsdk/c.go:10: // This method is.\nsdk/c.go:13: // g" + strings.Repeat(" w", 57)
	if err := r.checkProse(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"host/a.go", "sdk/c.go"} {
		if err := os.Remove(r.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.checkProse(); err != nil {
		t.Error(err)
	}
}
