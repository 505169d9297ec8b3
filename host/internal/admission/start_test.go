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

// TestDirectoryOfData checks that files in a directory that is an argument of a script are data.
func TestDirectoryOfData(t *testing.T) {
	f := newFixture(t)
	path := f.write("toolhost.hcl", "field \"m\" {\n  mcp { command = [\"node\", \"app\", \"project\", \"link\", \"tool\", \"later.py\"] }\n}", 0o600)
	for _, dir := range []string{"app", "project"} {
		if err := os.Mkdir(filepath.Join(f.ws, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		f.write(dir+"/index.js", "one", 0o600)
	}
	f.write("target", "one", 0o600)
	f.write("tool", "one", 0o700)
	f.write("later.py", "one", 0o600)
	if err := os.Symlink("target", filepath.Join(f.ws, "link")); err != nil {
		t.Fatal(err)
	}
	f.trust(f.source(path))
	for file, code := range map[string]bool{"app/index.js": true, "project/index.js": false, "target": false, "tool": true, "later.py": true} {
		mode := map[bool]os.FileMode{true: 0o700, false: 0o600}[file == "tool"]
		f.write(file, "two", mode)
		cfg := f.open(f.source(path))
		if why := cfg.Plugins[len(cfg.Plugins)-1].Refused; code != (why != "") {
			t.Errorf("%s changed: refused for %q", file, why)
		}
		f.write(file, "one", mode)
	}
}

// TestEntryOfPackage checks that the files that a package.json names are code.
func TestEntryOfPackage(t *testing.T) {
	f := newFixture(t)
	path := f.write("toolhost.hcl", "field \"m\" {\n  mcp { command = [\"node\", \".\"] }\n}", 0o600)
	f.write("package.json", `{"main": "out/entry", "bin": {"x": "bin"}}`, 0o600)
	if err := os.Mkdir(filepath.Join(f.ws, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.write("out/entry.js", "one", 0o600)
	f.write("bin", "one", 0o600)
	f.trust(f.source(path))
	for _, file := range []string{"out/entry.js", "bin"} {
		f.write(file, "two", 0o600)
		cfg := f.open(f.source(path))
		if why := cfg.Plugins[len(cfg.Plugins)-1].Refused; !strings.Contains(why, file) {
			t.Errorf("%s changed: refused for %q", file, why)
		}
		f.write(file, "one", 0o600)
	}
}

// TestUnreadableLock checks that a lock file that cannot be read does not prevent the start of a host.
func TestUnreadableLock(t *testing.T) {
	f := newFixture(t)
	path := f.write("toolhost.hcl", "field \"m\" {\n  mcp { command = [\"true\"] }\n}", 0o600)
	project, operator := f.source(path), f.source(path)
	operator.Workspace = f.out
	f.trust(project)
	if err := os.Mkdir(filepath.Join(f.ws, "toolhost.lock.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Open(); err != nil {
		t.Error(err)
	}
	if cfg, err := project.Open(); err != nil || !strings.Contains(cfg.Untrusted, "toolhost.lock.json changed") {
		t.Errorf("%+v, %v", cfg, err)
	}
}
