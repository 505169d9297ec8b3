//go:build !race

package admission

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/host/internal/trust"
)

// TestOracleLoadedFiles checks that the trusted content includes files that a command runs without naming them.
func TestOracleLoadedFiles(t *testing.T) {
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

// TestOracleDataChanges checks which files of a command line are code, which must not change, and which are data. In a
// command, the words that begin with "code" name code, and the words that begin with "data" name data. All are files in
// the workspace, without the extension of code.
func TestOracleDataChanges(t *testing.T) {
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
