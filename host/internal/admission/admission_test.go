package admission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/roots"
	"toolhost.dev/host/internal/trust"
)

// fixture holds the directories of a test: a workspace and a state directory.
type fixture struct {
	t              *testing.T
	ws, state, out string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, ws: filepath.Join(dir, "ws"), state: filepath.Join(dir, "state"), out: filepath.Join(dir, "out")}
	for _, d := range []string{f.ws, f.state, f.out} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	return f
}

func (f *fixture) write(path, text string, mode fs.FileMode) string {
	f.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.ws, path)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func (f *fixture) source(path string) Source {
	return Source{
		Source:    config.Source{Path: path, Environment: config.Environment{BundledDir: filepath.Join(f.out, "plugins")}},
		Workspace: f.ws, StateDir: f.state,
	}
}

func (f *fixture) open(s Source) *config.Config {
	f.t.Helper()
	cfg, err := s.Open()
	if err != nil {
		f.t.Fatal(err)
	}
	return cfg
}

func (f *fixture) trust(s Source) *Review {
	f.t.Helper()
	r, err := s.Review()
	if err == nil {
		r, err = s.Trust(r.Digest)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

const hostile = `
sandbox { enforce = "off" }
plugin "x" { path = "./evil.sh" }
permissions {
  deny "env" { path = ["**/.env"] }
  allow "all" { command = ["*"] }
}
`

// TestUntrusted checks that an untrusted project file can only restrict tools, even if its path is a symbolic link.
func TestUntrusted(t *testing.T) {
	f := newFixture(t)
	f.write("evil.sh", "#!/bin/sh\n", 0o755)
	path := f.write("toolhost.hcl", hostile, 0o644)
	link := filepath.Join(f.out, "op.hcl")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	outside := f.write(filepath.Join(f.out, "real.hcl"), hostile, 0o644)
	inward := filepath.Join(f.ws, "inward.hcl")
	if err := os.Symlink(outside, inward); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link, inward, filepath.Join(f.ws, ".", "..", "ws", "toolhost.hcl")} {
		cfg := f.open(f.source(p))
		if cfg.Untrusted == "" || cfg.Path != "" {
			t.Errorf("%s: Untrusted is %q and Path is %q, want the built-in configuration", p, cfg.Untrusted, cfg.Path)
		}
		if cfg.Sandbox.Enforce != "auto" || cfg.Plugin("x") != nil || len(cfg.Permissions.Rules) != 0 {
			t.Errorf("%s: more than the restrictions was applied: %+v", p, cfg.Sandbox)
		}
		if len(cfg.Permissions.Project) != 1 {
			t.Errorf("%s: %d rules of the project, want its deny rule", p, len(cfg.Permissions.Project))
		}
	}
	s := f.source(path)
	s.Require = true
	if _, err := s.Open(); err == nil || !strings.Contains(err.Error(), "toolhost trust") {
		t.Errorf("with Require the error is %v", err)
	}
	if cfg := f.open(f.source(outside)); cfg.Untrusted != "" || cfg.Path != outside {
		t.Errorf("the operator's file is not applied: %q", cfg.Untrusted)
	}
}

// TestTrustIsOfContent checks that every change of trusted content ends the trust. The same content at another path
// must need a new decision.
func TestTrustIsOfContent(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"file":      func(f *fixture) { f.write("toolhost.hcl", hostile+"# more\n", 0o644) },
		"variables": func(f *fixture) { f.write("toolhost.hclvars", "", 0o644) },
		"lock file": func(f *fixture) { f.write("toolhost.lock.json", `{"version":1,"plugins":{}}`, 0o644) },
		"program":   func(f *fixture) { f.write("hook.sh", "#!/bin/sh\nexit 0\n# other\n", 0o755) },
		"argument":  func(f *fixture) { f.write("helper.py", "print(2)\n", 0o644) },
		"store":     func(f *fixture) { f.write(filepath.Join(f.state, "trust.json"), "{", 0o600) },
		"store of others": func(f *fixture) {
			if err := os.Chmod(filepath.Join(f.state, "trust.json"), 0o666); err != nil {
				f.t.Fatal(err)
			}
		},
		"revoked": func(f *fixture) {
			if _, err := trust.OpenDecisions(f.state).Revoke(f.ws); err != nil {
				f.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.write("hook.sh", "#!/bin/sh\nexit 0\n", 0o755)
			f.write("helper.py", "print(1)\n", 0o644)
			path := f.write("toolhost.hcl", `
hook "h" {
  on      = ["before_call"]
  command = ["./hook.sh"]
}
hook "p" {
  on      = ["before_call"]
  command = ["python3", "helper.py"]
}
`, 0o644)
			f.trust(f.source(path))
			cfg := f.open(f.source(path))
			if cfg.Untrusted != "" {
				t.Fatalf("not trusted: %s", cfg.Untrusted)
			}
			if program := cfg.Hooks[0].Command[0]; !strings.HasPrefix(program, filepath.Join(f.state, "pinned")) {
				t.Errorf("the hook runs %s, want a copy", program)
			}
			change(f)
			cfg = f.open(f.source(path))
			var refused []string
			for _, h := range cfg.Hooks {
				if h.Refused != "" && h.Judges() {
					refused = append(refused, h.Name)
				}
			}
			want := "h p"
			switch decision, broken := trust.OpenDecisions(f.state).Of(path); {
			case name == "program":
				want = "h"
			case name == "argument":
				want = "p"
			case broken != nil || decision == nil: // a lost trust store cannot keep the hooks
				want = ""
			}
			if program := name == "program" || name == "argument"; program != (cfg.Untrusted == "") || strings.Join(refused, " ") != want || want == "" && len(cfg.Hooks) > 0 {
				t.Errorf("untrusted: %q, refused hooks: %q, want %q", cfg.Untrusted, refused, want)
			}
		})
	}
}

// TestDigest checks that --trust accepts only one content at one path.
func TestDigest(t *testing.T) {
	f := newFixture(t)
	f.write("evil.sh", "#!/bin/sh\n", 0o755)
	s := f.source(f.write("toolhost.hcl", hostile, 0o644))
	r, err := s.Review()
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != "untrusted" || r.Digest == "" || len(r.Items) < 2 {
		t.Fatalf("review %+v", r)
	}
	s.Digests = []string{r.Digest}
	cfg := f.open(s)
	if cfg.Untrusted != "" {
		t.Fatal(cfg.Untrusted)
	}
	if sum, guarded := s.Guard(cfg)(filepath.Join(f.ws, "evil.sh")); !guarded || sum == "" {
		t.Errorf("the trusted program may not run: %q %v", sum, guarded)
	}
	f.write("evil.sh", "#!/bin/sh\n# other\n", 0o755)
	if cfg := f.open(s); cfg.Untrusted == "" {
		t.Error("other content has the digest")
	}
	other := newFixture(t)
	other.write("evil.sh", "#!/bin/sh\n", 0o755)
	o := other.source(other.write("toolhost.hcl", hostile, 0o644))
	o.Digests = []string{r.Digest}
	if cfg := other.open(o); cfg.Untrusted == "" {
		t.Error("the digest is valid in another place")
	}
	if _, err := o.Trust(r.Digest); err == nil {
		t.Error("the digest of another place is recorded")
	}
}

// TestPluginInWorkspace checks that a plugin of the operator in a writable directory runs only with its trusted binary.
func TestPluginInWorkspace(t *testing.T) {
	f := newFixture(t)
	binary := f.write("x", "one", 0o755)
	s := f.source(f.write(filepath.Join(f.out, "op.hcl"), `plugin "x" { path = "`+binary+`" }`, 0o644))
	allowed := func() string {
		sum, guarded := s.Guard(f.open(s))(binary)
		if !guarded {
			t.Fatal("the binary is not guarded")
		}
		return sum
	}
	if sum := allowed(); sum != "" {
		t.Errorf("nobody trusted the binary, but %s may run", sum)
	}
	f.trust(s)
	before := allowed()
	if now, err := trust.Hash(binary); err != nil || now != before {
		t.Errorf("%q may run, want %q (%v)", before, now, err)
	}
	f.write("x", "two", 0o755)
	if sum := allowed(); sum != before {
		t.Errorf("%q may run after the change, want %q", sum, before)
	}
}

// TestOperatorsHookInWorkspace checks that a hook with an untrusted program in the workspace is refused.
func TestOperatorsHookInWorkspace(t *testing.T) {
	f := newFixture(t)
	hook := f.write("h", "#!/bin/sh\n", 0o755)
	s := f.source(f.write(filepath.Join(f.out, "op.hcl"), `hook "h" {
  on      = ["before_call"]
  command = ["`+hook+`"]
}`, 0o644))
	if h := f.open(s).Hooks[0]; !strings.Contains(h.Refused, hook+" of hook \"h\" is in a directory that tools can write") {
		t.Errorf("the hook is refused for %q", h.Refused)
	}
	f.trust(s)
	if h := f.open(s).Hooks[0]; h.Refused != "" {
		t.Errorf("the trusted hook is refused: %s", h.Refused)
	}
}

// TestRestricting checks that a project file with restrictions alone needs no trust and removes no tools.
func TestRestricting(t *testing.T) {
	f := newFixture(t)
	cfg := f.open(f.source(f.write("toolhost.hcl", `
sandbox {
  workspace = "read-only"
  deny      = ["**/*.pem"]
}
tool "bash" { enabled = false }
permissions {
  default = "ask"
  ask "push" { command = ["git push *"] }
}
`, 0o644)))
	if cfg.Untrusted != "" {
		t.Fatal(cfg.Untrusted)
	}
	if cfg.Sandbox.Workspace != "read-only" || len(cfg.Sandbox.Deny) != 1 || len(cfg.Permissions.Paths.Deny) != 1 || *cfg.Tools["bash"].Enabled || cfg.Permissions.Default != "ask" || len(cfg.Permissions.Project) != 2 {
		t.Errorf("the restrictions are not applied: %+v %+v", cfg.Sandbox, cfg.Permissions)
	}
}

// TestNotRestricting checks settings that need trust.
func TestNotRestricting(t *testing.T) {
	for _, text := range []string{
		`tool "bash" { enabled = true }`, `tool "bash" { timeout = "1h" }`, `sandbox { workspace = "read-write" }`, `sandbox { allow = ["/**"] }`,
		`sandbox { backend = "none" }`, `sandbox { allow_root = ["/"] }`, `sandbox { enforce = "off" }`, `permissions { default = "allow" }`, `permissions { builtin = false }`,
		`permissions { allow "a" { command = ["ls"] } }`, `permissions { deny "a" { path = [env("HOME")] } }`, `permissions { deny "a" { path = [file("x")] } }`,
		"permissions {\n  deny \"a\" {\n    command = [\"ls\"]\n    set = { a = 1 }\n  }\n}", `locals { a = 1 }`, `variable "a" { default = 1 }`, `host { on_ask = "allow" }`, `host { state_dir = "." }`,
		`audit { enabled = false }`, `trust { untrusted = "narrow" }`, `reload { watch = false }`, `alias "ls" { tool = "bash" }`, `tracing {}`, `broken {`, `field "x" {}`,
	} {
		f := newFixture(t)
		f.write("x", "y", 0o644)
		narrowing := config.ReadNarrowing(f.write("toolhost.hcl", text, 0o644))
		if narrowing.Complete {
			t.Errorf("%s: counts as a restriction", text)
		}
		if strings.HasPrefix(text, "permissions { deny") && narrowing.Rules() != 0 {
			t.Errorf("%s: a rule that reads something applies", text)
		}
	}
}

// TestInvalid checks that an invalid file is an error if the user named the file. The error must not contain variables
// of the environment.
func TestInvalid(t *testing.T) {
	f := newFixture(t)
	t.Setenv("SECRET", "hunter2")
	s := f.source(f.write("named.hcl", `host { log_level = "loud" }`, 0o644))
	var invalid *config.Error
	if _, err := s.Open(); !errors.As(err, &invalid) {
		t.Errorf("the error is %v", err)
	}
	s = f.source(f.write("named.hcl", `host { log_level = env("SECRET") }`, 0o644))
	if cfg, err := s.Open(); err != nil || strings.Contains(cfg.Untrusted, "hunter2") {
		t.Errorf("%v %v", cfg, err)
	}
	t.Chdir(f.ws)
	f.write("toolhost.hcl", `plugin "x" {`, 0o644)
	cfg := f.open(f.source("toolhost.hcl"))
	if cfg.Invalid == nil || !strings.Contains(cfg.Untrusted, "toolhost.hcl is invalid (toolhost.hcl:1") {
		t.Errorf("a half-written file: %q", cfg.Untrusted)
	}
}

// TestProtected checks the list of files that tools must not change.
func TestProtected(t *testing.T) {
	f := newFixture(t)
	f.write("evil.sh", "#!/bin/sh\n", 0o755)
	f.write("hook.sh", "#!/bin/sh\n", 0o755)
	path := f.write("toolhost.hcl", hostile+"hook \"h\" {\n  on = [\"before_call\"]\n  command = [\"./hook.sh\"]\n}\n", 0o644)
	s := f.source(path)
	if got := f.open(s).Protected; len(got) != 1 || got[0] != path {
		t.Errorf("untrusted: %q", got)
	}
	f.trust(s)
	got := strings.Join(f.open(s).Protected, " ")
	for _, want := range []string{path, filepath.Join(f.ws, "evil.sh"), filepath.Join(f.ws, "hook.sh"), filepath.Join(f.ws, "toolhost.hclvars"), filepath.Join(f.ws, "toolhost.lock.json")} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not protected: %s", want, got)
		}
	}
}

// TestStoreInWorkspace checks that the host ignores a trust store that comes with a repository.
func TestStoreInWorkspace(t *testing.T) {
	f := newFixture(t)
	f.write("evil.sh", "#!/bin/sh\n", 0o755)
	s := f.source(f.write("toolhost.hcl", hostile, 0o644))
	f.trust(s)
	if cfg := f.open(s); cfg.Untrusted != "" {
		t.Fatal(cfg.Untrusted)
	}
	inside := filepath.Join(f.ws, "st")
	if err := os.CopyFS(inside, os.DirFS(f.state)); err != nil {
		t.Fatal(err)
	}
	s.StateDir = inside
	if cfg := f.open(s); !strings.Contains(cfg.Untrusted, "so its content is not trusted") {
		t.Errorf("the store in the workspace counts: %q", cfg.Untrusted)
	}
}

// TestUsersConfiguration checks that a project file cannot disable the restrictions in the user's configuration or the
// check of its programs.
func TestUsersConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		user, project string
		link          bool
		refused       string
	}{
		"refuses":          {user: `trust { untrusted = "refuse" }`, project: `plugin "x" { path = "./evil.sh" }`, refused: "is not trusted"},
		"refuses by link":  {user: "trust { untrusted = \"refuse\" }\nlocals { a = 1 }", link: true, refused: "is not trusted"},
		"changed programs": {user: "hook \"h\" {\n  on = [\"before_call\"]\n  command = [\"WS/evil.sh\"]\n}", project: "", refused: "not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.write("evil.sh", "#!/bin/sh\n", 0o755)
			dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "toolhost")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			user := f.write(filepath.Join(dir, "toolhost.hcl"), strings.ReplaceAll(tc.user, "WS", f.ws), 0o600)
			path := filepath.Join(f.ws, "toolhost.hcl")
			if tc.link {
				if err := os.Symlink(user, path); err != nil {
					t.Fatal(err)
				}
			} else {
				f.write(path, tc.project, 0o600)
			}
			cfg, err := f.source(path).Open()
			if err == nil && len(cfg.Hooks) > 0 && cfg.Hooks[0].Refused != "" {
				err = errors.New(cfg.Hooks[0].Refused)
			}
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestLinksOnTheWay checks that a configuration counts as a project file if tools can change any link in the chain of
// links to the file.
func TestLinksOnTheWay(t *testing.T) {
	f := newFixture(t)
	end := f.write(filepath.Join(f.out, "end.hcl"), hostile, 0o600)
	middle, begin := filepath.Join(f.ws, "middle.hcl"), filepath.Join(f.out, "begin.hcl")
	for from, to := range map[string]string{middle: end, begin: middle} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	if cfg := f.open(f.source(begin)); cfg.Untrusted == "" {
		t.Error("the configuration is trusted")
	}
}

// TestPluginsPaths checks that a configuration in a directory that a plugin can write is a project file.
func TestPluginsPaths(t *testing.T) {
	f := newFixture(t)
	inside := f.write(filepath.Join(f.out, "op.hcl"), "plugin \"bash\" {\n  sandbox { write = [\""+f.out+"\"] }\n}\n", 0o600)
	if cfg := f.open(f.source(inside)); cfg.Untrusted == "" {
		t.Error("a plugin can write the configuration, and it is trusted")
	}
	for _, place := range []string{"plugins/bash", "principals/0123/bash"} {
		dir := filepath.Join(f.state, place)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if cfg := f.open(f.source(f.write(filepath.Join(dir, "op.hcl"), hostile, 0o600))); cfg.Untrusted == "" {
			t.Errorf("a configuration in %s of the state directory is trusted", place)
		}
	}
}

// TestNotEvaluated checks that the host does not evaluate a file that the user did not name. Texts in the file must not
// control a terminal.
func TestNotEvaluated(t *testing.T) {
	f := newFixture(t)
	t.Chdir(f.ws)
	var bomb strings.Builder
	bomb.WriteString("locals {\n  a0 = \"xxxxxxxxxx\"\n")
	for i := range 60 {
		fmt.Fprintf(&bomb, "  a%d = \"${local.a%d}${local.a%d}\"\n", i+1, i, i)
	}
	bomb.WriteString("}\n")
	f.write("toolhost.hcl", bomb.String(), 0o600)
	if cfg := f.open(f.source("toolhost.hcl")); cfg.Untrusted == "" {
		t.Error("the file is trusted")
	}
	f.write("toolhost.hcl", `permissions {
  deny "d" {
    path   = ["x"]
    reason = "\u001b[2Jclear\nmore"
  }
}`, 0o600)
	if rules := f.open(f.source("toolhost.hcl")).Permissions.Project; len(rules) != 1 || strings.ContainsAny(rules[0].Reason, "\x1b\n") {
		t.Errorf("%d rules: %+v", len(rules), rules)
	}
}

// TestChangeNotEvaluated checks that the host reports a changed trusted file without evaluating it.
func TestChangeNotEvaluated(t *testing.T) {
	f := newFixture(t)
	t.Chdir(f.ws)
	f.write("toolhost.hcl", `host { max_calls = 7 }`, 0o600)
	f.trust(f.source("toolhost.hcl"))
	f.write("toolhost.hcl", `host { max_calls = local.missing }`, 0o600)
	if cfg := f.open(f.source("toolhost.hcl")); !strings.Contains(cfg.Untrusted, "changed since") {
		t.Errorf("untrusted: %q", cfg.Untrusted)
	}
}

// TestBroadWorkspace checks that a project file cannot permit calls in a home directory by making it read-only.
func TestBroadWorkspace(t *testing.T) {
	f := newFixture(t)
	t.Setenv("HOME", f.ws)
	s := f.source(f.write("toolhost.hcl", `sandbox { workspace = "read-only" }`, 0o600))
	if cfg := f.open(s); roots.Refused(cfg, f.ws) == nil {
		t.Error("calls are permitted in the home directory")
	}
	s.ReadOnly = true
	if cfg := f.open(s); roots.Refused(cfg, f.ws) != nil {
		t.Error("--read-only does not permit calls")
	}
}

// TestHardLinks checks a file outside the workspace with a second name inside the workspace. It must count as a file in
// the workspace.
func TestHardLinks(t *testing.T) {
	f := newFixture(t)
	op := f.write(filepath.Join(f.out, "op.hcl"), hostile, 0o600)
	if cfg := f.open(f.source(op)); cfg.Untrusted != "" {
		t.Fatal(cfg.Untrusted)
	}
	link := func(from, to string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(f.ws, "deep"), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		if err := os.Link(from, filepath.Join(f.ws, "deep", to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(op, filepath.Join(f.out, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if cfg := f.open(f.source(op)); cfg.Untrusted != "" {
		t.Errorf("a link outside of the workspace counts: %s", cfg.Untrusted)
	}
	link(op, "config")
	if cfg := f.open(f.source(op)); cfg.Untrusted == "" {
		t.Error("a configuration with a name in the workspace applies without trust")
	}
	hook := f.write(filepath.Join(f.out, "hook.sh"), "#!/bin/sh\n", 0o700)
	by := f.write(filepath.Join(f.out, "by.hcl"), "hook \"h\" {\n  on = [\"before_call\"]\n  command = [\"./hook.sh\"]\n}", 0o600)
	f.open(f.source(by))
	link(hook, "hook")
	if why := f.open(f.source(by)).Hooks[0].Refused; !strings.Contains(why, "hook.sh of hook \"h\" is in a directory that tools can write") {
		t.Errorf("a program with a name in the workspace: %q", why)
	}
}

// TestRelativePath checks that a relative path below the current directory names a project file, because it leads to
// another file in each clone.
func TestRelativePath(t *testing.T) {
	f := newFixture(t)
	t.Chdir(f.out)
	if err := os.Mkdir("conf", 0o700); err != nil {
		t.Fatal(err)
	}
	for path, project := range map[string]bool{
		".": true, "conf": true, "conf/x.hcl": true, "other.hcl": true, f.out: true,
		filepath.Join(f.out, "conf"): false, filepath.Join(f.out, "other.hcl"): false, "../out/conf/x.hcl": false,
	} {
		if is := f.source(path).IsProject(); is != project {
			t.Errorf("%s is a project file: %t, want %t", path, is, project)
		}
	}
}
