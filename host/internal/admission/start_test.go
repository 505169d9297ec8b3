package admission

import (
	"os"
	"path/filepath"
	"regexp"
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
		// A command can change its directory.
		"weather/run":          `["uv", "--directory", "weather", "run", "run"]`,
		"weather/server.py":    `["uv", "--directory=weather", "run", "server.py"]`,
		"front/package.json":   `["npm", "--prefix", "front", "start"]`,
		"shell/package.json":   `["bash", "-lc", "cd shell && npm start"]`,
		"deep/er/code":         `["bash", "-c", "cd deep; cd er; exec python3 code"]`,
		"chdir/code":           `["env", "-C", "chdir", "python3", "code"]`,
		"build/Makefile":       `["make", "-C", "build", "serve"]`,
		"classes/a/Main.class": `["java", "-cp", "classes", "a.Main"]`,
		"plib/My/Server.pm":    `["perl", "-Iplib", "-MMy::Server", "-e", "run"]`,
		"rlib/serve.rb":        `["ruby", "-Irlib", "-rserve", "-e", "1"]`,
		"tilde/run.x":          `["sh", "-c", "exec sh ~/somewhere/tilde/run.x"]`,
		"expanded/run.x":       `["sh", "-c", "exec sh \"$HOME/expanded/run.x\""]`,
		// An interpreter completes a name.
		"server.js":    `["node", "server"]`,
		"dist/main.js": `["node", "dist/main"]`,
		"attached.py":  `["python3", "-mattached"]`,
		"combined.py":  `["python3", "-um", "combined"]`,
		"asgi.py":      `["uvicorn", "asgi:app"]`,
		"pk/wsgi.py":   `["uv", "run", "gunicorn", "pk.wsgi:app"]`,
		// A runner can be behind other words. It prefers what is installed in the directory.
		"Gemfile":     `["timeout", "-k", "5", "5m", "bundle", "exec", "serve"]`,
		"bunfig.toml": `["env", "A=1", "bun", "run", "serve"]`,
		".npmrc":      `["sudo", "-u", "me", "npm", "start"]`,
		"node_modules/@scope/served/package.json": `["npx", "-y", "@scope/served@1.2", "data"]`,
		"node_modules/.bin/served":                `["npx", "served"]`,
		"cmd/server/main.go":                      `["go", "run", "./cmd/server"]`,
		"src/main.rs":                             `["cargo", "run"]`,
		"p.csproj":                                `["dotnet", "run"]`,
		"compose.yaml":                            `["docker-compose", "run", "server"]`,
	} {
		t.Run(file, func(t *testing.T) {
			f := newFixture(t)
			path := f.write("toolhost.hcl", "field \"m\" {\n  mcp { command = "+command+" }\n}", 0o600)
			if err := os.MkdirAll(filepath.Dir(filepath.Join(f.ws, file)), 0o700); err != nil {
				t.Fatal(err)
			}
			f.write(file, "one", 0o600)
			if r := f.trust(f.source(path)); r.Programs[filepath.Join(f.ws, file)] == "" {
				t.Errorf("the review lists only %v", r.Programs)
			}
			cfg := f.open(f.source(path))
			check := f.source(path).CheckStart(cfg)
			if err := check(trust.Start{Block: `field "m"`}); err != nil {
				t.Error(err)
			}
			f.write(file, "two", 0o600)
			if err := check(trust.Start{Block: `field "m"`}); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("the start with a changed file: %v", err)
			}
			if cfg := f.open(f.source(path)); cfg.Untrusted != "" || !strings.Contains(cfg.Plugins[len(cfg.Plugins)-1].Refused, file) {
				t.Errorf("untrusted: %q, the field is refused for %q", cfg.Untrusted, cfg.Plugins[len(cfg.Plugins)-1].Refused)
			}
		})
	}
}

// TestDataChanges checks which files of a command line are code, which must not change, and which are data. In a command,
// the words that begin with "code" name code, and the words that begin with "data" name data. All are files in the
// workspace, without the extension of code.
func TestDataChanges(t *testing.T) {
	for _, tc := range []struct{ command, env string }{
		{command: `["python3", "code", "data"]`},
		{command: `["python3", "-u", "-W", "ignore", "-X", "code1", "code2", "--memory", "data1", "--other=data2"]`},
		{command: `["python3.12", "-m", "server", "--memory", "data1", "--other=data2"]`},
		{command: `["/usr/bin/python3", "--", "code", "data"]`},
		{command: `["node", "--require", "code1", "--enable-source-maps", "-r", "code2", "--import=code3", "code4", "data"]`},
		{command: `["node", "--unknown", "code1", "code2", "data"]`},
		{command: `["deno", "run", "-A", "--allow-read=data.d", "--config", "code1", "code2", "data"]`},
		{command: `["bun", "run", "--preload", "code1", "code2", "data"]`},
		{command: `["tsx", "watch", "code", "data"]`},
		{command: `["uv", "run", "--with", "mcp", "code", "data"]`},
		{command: `["uv", "run", "--directory", ".", "python", "code", "data"]`},
		{command: `["uvx", "--from", "code", "server", "data"]`},
		{command: `["npx", "-y", "@scope/server", "data"]`},
		{command: `["npx", "tsx", "code", "data"]`},
		{command: `["env", "FILE=data1", "PYTHONPATH=code1", "python", "code2", "data2"]`},
		{command: `["env", "-u", "X", "nice", "-n", "5", "python", "code", "data"]`},
		{command: `["timeout", "5m", "node", "code", "data"]`},
		{command: `["env", "unknown", "code"]`},
		{command: `["direnv", "exec", ".", "python", "code", "data"]`},
		{command: `["poetry", "run", "python", "code", "data"]`},
		{command: `["stdbuf", "-oL", "unknown", "code"]`},
		{command: `["proxy", "--log", "data1", "--", "python", "code", "data2"]`},
		{command: `["proxy", "--stdio", "node code data"]`},
		{command: `["bash", "-euo", "pipefail", "-c", "exec node code data"]`},
		{command: `["rbash", "code", "data"]`},
		{command: `["fish", "-C", "source code1", "code2", "data"]`},
		{command: `["tclsh", "code", "data"]`},
		{command: `["awk", "-f", "code1", "-fcode2", "-f", "code3"]`},
		{command: `["java", "@code1", "code2", "data"]`},
		{command: `["node", "inspect", "code", "data"]`},
		{command: `["php", "-dauto_prepend_file=code1", "-S", "localhost:1", "code2"]`},
		{command: `["just", "--justfile", "code"]`},
		{command: `["java", "-Xmx1g", "-cp", "code1", "-jar", "code2", "data"]`},
		{command: `["ruby", "-I", "code1", "code2", "data"]`},
		{command: `["perl", "-w", "code", "data"]`},
		{command: `["php", "-f", "code", "data"]`},
		{command: `["make", "-f", "code1", "code2"]`},
		{command: `["docker", "run", "-v", "./data1:/data", "image", "data2"]`},
		{command: `["server", "--memory", "data"]`},
		{command: `["bash", "code", "data"]`},
		{command: `["bash", "-o", "pipefail", "--rcfile", "code1", "code2", "data"]`},
		{command: `["sh", "-c", "exec python3 code1 --memory data1 2>> data2 < code2", "sh", "code3"]`},
		{command: `["sh", "-ec", ". ./code1; exec \"$@\"", "sh", "code2", "code3"]`},
		{command: `["sh", "-c", "cat code1 | node 'code2' \"data1\" \"$HOME\" data2"]`},
		{command: `["sh", "-c", "node $OPTIONS code1 code2"]`},
		{command: `["sh", "-c", "LIB=code1; . $LIB; unknown code2"]`},
		{command: `["sh", "-c", "if broken code1"]`},
		{command: `["env", "A=1", "sh", "-c", "exec node code data"]`},
		{command: `["python3", "nothing"]`, env: `MEMORY_FILE = "data1", PYTHONSTARTUP = "code1", LD_PRELOAD = "code2:code3", BASH_ENV = "code4", NODE_OPTIONS = "--require ./code5", PERL5LIB = "code6", RUBYOPT = "-r./code7"`},
		{command: `["server"]`, env: `LD_PRELOAD = "code1", CONFIG = "data1", GCONV_PATH = "code2"`},
	} {
		t.Run(tc.command+tc.env, func(t *testing.T) {
			f := newFixture(t)
			path := f.write("toolhost.hcl", "field \"m\" {\n  mcp {\n    command = "+tc.command+"\n    env = { "+tc.env+" }\n  }\n}", 0o600)
			var names []string
			for _, name := range regexp.MustCompile(`\b(code|data)\d?\b`).FindAllString(tc.command+tc.env, -1) {
				names = append(names, name)
				f.write(name, "one", 0o600)
			}
			f.trust(f.source(path))
			check := f.source(path).CheckStart(f.open(f.source(path)))
			for _, name := range names {
				change := []func(){func() { f.write(name, "two", 0o600) }}
				if strings.HasPrefix(name, "data") {
					change = append(change, func() { _ = os.Remove(filepath.Join(f.ws, name)) })
				}
				for _, change := range change {
					change()
					cfg := f.open(f.source(path))
					refused, started := cfg.Plugins[len(cfg.Plugins)-1].Refused, check(trust.Start{Block: `field "m"`})
					if code := strings.HasPrefix(name, "code"); code != (refused != "") || code != (started != nil) || cfg.Untrusted != "" {
						t.Errorf("%s changed: refused for %q, the start fails with %v, untrusted: %q", name, refused, started, cfg.Untrusted)
					}
				}
				f.write(name, "one", 0o600)
			}
		})
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
