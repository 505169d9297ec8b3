package admission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/trust"
)

// TestCheckStart changes the files of trusted programs one by one. Each change must prevent the start of the changed
// program, but not of other programs.
func TestCheckStart(t *testing.T) {
	f := newFixture(t)
	f.write("toolhost.hcl", `
field "m" {
  mcp {
    command = ["server", "main.js"]
    env     = { PATH = "`+f.ws+`/first:`+f.ws+`/second", NODE_OPTIONS = "--require ./hook.js" }
  }
}
field "f" {
  function {
    command     = ["sh", "fn.sh"]
    cwd         = "tools"
    definitions = jsonencode([{ name = "g", description = "d", parameters = { type = "object" } }])
  }
}
field "p" {
  mcp {
    command = ["true"]
    env     = { PATH = "`+f.ws+`/first:/usr/bin:/bin" }
  }
}
hook "h" {
  on      = ["before_call"]
  command = ["sh", "-c", ". `+f.ws+`/lib.sh"]
}
`, 0o600)
	for _, dir := range []string{"first", "second", "tools"} {
		if err := os.Mkdir(filepath.Join(f.ws, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"second/server", "main.js", "hook.js", "tools/fn.sh", "lib.sh"} {
		f.write(name, "#!/bin/sh\n", 0o700)
	}
	s := f.source(filepath.Join(f.ws, "toolhost.hcl"))
	r := f.trust(s)
	if len(r.Programs) != 5 {
		t.Errorf("the review lists %v, want five programs", r.Programs)
	}
	cfg := f.open(s)
	if cfg.Untrusted != "" {
		t.Fatal(cfg.Untrusted)
	}
	check := s.CheckStart(cfg)
	starts := []trust.Start{{Block: `field "m"`}, {Block: `field "f"`, PerCall: true}, {Block: `hook "h"`}}
	for _, c := range []struct{ file, block string }{
		{"main.js", `field "m"`}, {"hook.js", `field "m"`}, {"tools/fn.sh", `field "f"`}, {"lib.sh", `hook "h"`},
	} {
		f.write(c.file, "#!/bin/sh\n: changed\n", 0o700)
		for _, start := range starts {
			err := check(start)
			if changed := start.Block == c.block; changed != (err != nil) || changed && !strings.Contains(err.Error(), filepath.Join(f.ws, c.file)+" of "+c.block+" changed since it was trusted") {
				t.Errorf("%s changed: the start of %s: %v", c.file, start.Block, err)
			}
		}
		f.write(c.file, "#!/bin/sh\n", 0o700)
	}
	f.write("first/true", "#!/bin/sh\n", 0o700) // PATH now finds another program
	if err := check(trust.Start{Block: `field "p"`}); err == nil || !strings.Contains(err.Error(), "it is not trusted") {
		t.Errorf("PATH: %v", err)
	}
	if err := os.Remove(filepath.Join(f.ws, "first/true")); err != nil {
		t.Fatal(err)
	}
	// A new decision must apply immediately.
	f.write("lib.sh", "#!/bin/sh\n: changed\n", 0o700)
	f.trust(s)
	if err := check(starts[2]); err != nil {
		t.Error(err)
	}
}

// TestLoadedFiles checks that the trusted content includes files that a command runs without naming them.
func TestLoadedFiles(t *testing.T) {
	for file, command := range map[string]string{
		"package.json":     `["npm", "start"]`,
		"index.js":         `["node", "."]`,
		"app/index.js":     `["node", "app"]`,
		"server.py":        `["python3", "-m", "server"]`,
		"pkg/__main__.py":  `["python3", "-m", "pkg"]`,
		"a/b.py":           `["python3", "-m", "a.b"]`,
		"Makefile":         `["make", "serve"]`,
		"pyproject.toml":   `["uv", "run", "serve"]`,
		"justfile":         `["env", "just", "serve"]`,
		"pack/__main__.py": `["python3", "pack"]`,
	} {
		t.Run(file, func(t *testing.T) {
			f := newFixture(t)
			path := f.write("toolhost.hcl", "field \"m\" {\n  mcp { command = "+command+" }\n}", 0o600)
			if err := os.MkdirAll(filepath.Dir(filepath.Join(f.ws, file)), 0o700); err != nil {
				t.Fatal(err)
			}
			f.write(file, "one", 0o600)
			f.trust(f.source(path))
			cfg := f.open(f.source(path))
			check := f.source(path).CheckStart(cfg)
			if err := check(trust.Start{Block: `field "m"`}); err != nil {
				t.Error(err)
			}
			f.write(file, "two", 0o600)
			if err := check(trust.Start{Block: `field "m"`}); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("the start with a changed file: %v", err)
			}
			if cfg := f.open(f.source(path)); cfg.Untrusted == "" {
				t.Error("the configuration is still trusted")
			}
		})
	}
}
