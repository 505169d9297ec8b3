package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
)

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "p")
	if err := os.WriteFile(bin, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	base := "plugin \"p\" {\n  path = \"p\"\n  config {\n    a = 1\n  }\n}\n"
	load := func(text string) *config.Config {
		t.Helper()
		file := filepath.Join(dir, "c.hcl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file, config.Environment{BundledDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := load(base)
	for name, tc := range map[string]struct {
		text          string
		same, process bool
	}{
		"the same":          {base, true, true},
		"other lines":       {"# a comment\n\n" + base, false, true},
		"a value":           {strings.Replace(base, "a = 1", "a = 2", 1), false, false},
		"another argument":  {strings.Replace(base, "config {", "args = [\"x\"]\n  config {", 1), false, false},
		"a tool":            {base + "tool \"t\" { enabled = false }\n", false, true},
		"a deny glob":       {base + "sandbox { deny = [\"*.x\"] }\n", false, false},
		"strict paths":      {base + "sandbox { paths = \"strict\" }\n", false, true},
		"allowed tools":     {strings.Replace(base, "config {", "calls = [\"a\"]\n  config {", 1), false, true},
		"a denied path":     {base + "permissions {\n paths {\n deny = [\"*.x\"]\n }\n}\n", false, false},
		"a writable name":   {base + "permissions {\n paths {\n writable = [\".vscode\"]\n }\n}\n", false, false},
		"another backend":   {base + "sandbox { backend = \"none\" }\n", false, false},
		"a limit":           {strings.Replace(base, "config {", "sandbox {\n network = true\n }\n  config {", 1), false, false},
		"an age of output":  {base + "retention { output = \"1h\" }\n", false, false},
		"an age of undo":    {base + "retention { undo = \"1h\" }\n", false, false},
		"an age of history": {base + "retention { history = \"1h\" }\n", false, true},
		"it is not there":   {"", false, false},
		"the start timeout": {strings.Replace(base, "config {", "start_timeout = \"3s\"\n  config {", 1), false, false},
	} {
		now := load(tc.text)
		if now.Same(old) != tc.same || now.SameProcess(old, "p") != tc.process {
			t.Errorf("%s: same %t, same process %t", name, now.Same(old), now.SameProcess(old, "p"))
		}
	}
}

// TestKeep checks that an optional plugin remains in the configuration of a running host when its binary disappears.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.hcl")
	text := "plugin \"a\" {\n optional = true\n}\nplugin \"b\" {\n optional = true\n}\nplugin \"c\" {\n optional = true\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(present ...string) *config.Config {
		t.Helper()
		for _, name := range []string{"a", "b", "c"} {
			_ = os.Remove(filepath.Join(dir, name))
		}
		for _, name := range present {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c, err := config.Load(file, config.Environment{BundledDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	names := func(c *config.Config) (out string) {
		for _, p := range c.Plugins {
			out += p.Name
		}
		return out
	}
	all, some := load("a", "b", "c"), load("b")
	if n := len(some.Binaries()); n != 3 {
		t.Errorf("%d binaries are watched for", n)
	}
	some.Keep(all)
	if names(some) != "abc" || !strings.Contains(some.Plugin("a").Missing, "does not exist") || some.Plugin("b").Missing != "" {
		t.Errorf("%s %+v", names(some), some.Plugins)
	}
	none := load()
	none.Keep(load("b"))
	if names(none) != "b" {
		t.Errorf("%s", names(none))
	}
}
