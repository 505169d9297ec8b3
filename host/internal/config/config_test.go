package config_test

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/habit"
)

// load writes files to a directory and loads the configuration. If the map "files" contains only one file, load loads
// this file. Otherwise it loads the directory.
func load(t *testing.T, files map[string]string) (*config.Config, string, error) {
	t.Helper()
	dir := t.TempDir()
	path := dir
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o700); err != nil { // make the file executable, because some files are plugin binaries
			t.Fatal(err)
		}
		if len(files) == 1 {
			path = p
		}
	}
	c, err := config.Load(path, config.Environment{LookupEnv: func(k string) (string, bool) {
		v, ok := map[string]string{"PORT": "90s", "EMPTY": ""}[k]
		return v, ok
	}})
	return c, dir, err
}

const whole = `
host {
  log_level    = "debug"
  state_dir    = "state"
  on_ask       = "allow"
  timeout      = env("PORT")
  max_wait = "7s"
  max_parallel = 3
}
sandbox {
  workspace = "read-only"
  paths     = "strict"
  allow     = ["/a/**"]
  deny      = ["**/*.key"]
  backend   = "landlock"
  enforce   = "require"
  repositories = "off"
  root "." { writable = true }
  root "/" {}
}
plugin "one" {
  path          = "./bin/../one"
  args          = ["-x", env("EMPTY"), env("NONE", "fallback")]
  env           = { A = "b" }
  field         = "ns"
  start_timeout = "5s"
  config {
    url  = "${config_dir}/x"
    n    = 12
    list = [1, "a", null]
    auth "basic" { user = "u" }
    auth "token" {}
  }
}
tool "read" {
  enabled = false
  timeout = "1m"
}
`

func TestWhole(t *testing.T) {
	c, dir, err := load(t, map[string]string{"toolhost.hcl": whole})
	if err != nil {
		t.Fatal(err)
	}
	if c.Host.LogLevel.String() != "DEBUG" || c.Host.StateDir != dir+"/state" || c.Host.OnAsk != "allow" || c.Host.Timeout != 90*time.Second || c.Host.MaxWait != 7*time.Second || c.Host.MaxParallel != 3 {
		t.Errorf("%+v", c.Host)
	}
	if want := (config.Sandbox{Workspace: "read-only", Strict: true, Allow: []string{"/a/**"}, Deny: []string{"**/*.key"}, Roots: []config.Root{{Path: dir, Writable: true}, {Path: "/"}}, Backend: "landlock", Enforce: "require", Repositories: "off"}); !reflect.DeepEqual(c.Sandbox, want) {
		t.Errorf("%+v", c.Sandbox)
	}
	p := c.Plugins[0]
	if p.Path != dir+"/one" || !reflect.DeepEqual(p.Args, []string{"-x", "", "fallback"}) || p.Env["A"] != "b" || p.Field != "ns" || p.StartTimeout != 5*time.Second {
		t.Errorf("%+v", p)
	}
	if want := `{"auth":[{"labels":["basic"],"user":"u"},{"labels":["token"]}],"list":[1,"a",null],"n":12,"url":"` + dir + `/x"}`; string(p.Config) != want {
		t.Errorf("%s\nwanted %s", p.Config, want)
	}
	if !strings.Contains(p.Missing, "does not exist") {
		t.Errorf("%q", p.Missing)
	}
	if x := c.Tools["read"]; x.Enabled == nil || *x.Enabled || x.Timeout != time.Minute {
		t.Errorf("%+v", x)
	}
}

func TestJSONSyntax(t *testing.T) {
	c, dir, err := load(t, map[string]string{"toolhost.hcl.json": `{"host":{"on_ask":"allow","max_parallel":2},"sandbox":{"root":{".":{"writable":true}}},
		"plugin":{"one":{"path":"one","config":{"n":1,"deep":{"a":[true]}}},"two":{"path":"two"}},"tool":{"read":{"enabled":true,"timeout":"3s"}}}`})
	if err != nil {
		t.Fatal(err)
	}
	if c.Host.OnAsk != "allow" || c.Host.MaxParallel != 2 || len(c.Plugins) != 2 || string(c.Plugins[0].Config) != `{"deep":{"a":[true]},"n":1}` || c.Sandbox.Roots[0].Path != dir || !c.Sandbox.Roots[0].Writable || c.Tools["read"].Timeout != 3*time.Second {
		t.Errorf("%+v", c)
	}
}

func TestDirectory(t *testing.T) {
	c, _, err := load(t, map[string]string{
		"b.hcl": `plugin "b" { path = "b" }`, "a.hcl": `host { on_ask = "allow" }`, "c.hcl.json": `{"plugin":{"c":{"path":"c"}}}`, ".hidden.hcl": `garbage {`, "notes.txt": "garbage {", "a.hcl~": "garbage {",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Plugins) != 2 || c.Plugins[0].Name != "b" || c.Plugins[1].Name != "c" || c.Host.OnAsk != "allow" {
		t.Errorf("%+v", c)
	}
	for _, files := range []map[string]string{
		{"a.hcl": `plugin "x" { path = "x" }`, "b.hcl": "\n\nplugin \"x\" { path = \"y\" }"},
		{"a.hcl": `plugin "x" { path = "x" }`, "b.hcl.json": "{\"plugin\":\n\n{\"x\":{\"path\":\"y\"}}}"},
	} {
		_, dir, err := load(t, files)
		if err == nil || !strings.Contains(err.Error(), `Plugin "x" is configured twice. The first block is at `+dir+"/a.hcl:1") || !strings.Contains(err.Error(), "/b.hcl") || !strings.Contains(err.Error(), ":3:") {
			t.Error(err)
		}
	}
	if _, _, err := load(t, map[string]string{"a.txt": "", "b.txt": ""}); err == nil || !strings.Contains(err.Error(), "has no file that ends in .hcl") {
		t.Error(err)
	}
}

// TestDiagnostics checks the messages for mistakes in every block. A message must contain the position, the problem and
// the line, with a mark under the position.
func TestDiagnostics(t *testing.T) {
	for text, want := range map[string][]string{
		`host { log_level = "loud" }`:                                        {"1:20: ", `"loud" is not allowed here`, "Use one of debug, info, warn, error", `   1 | host { log_level = "loud" }`, "\n     |                    ^^^^^^"},
		`host { on_ask = "maybe" }`:                                          {"1:17: ", `Use one of allow, deny, prompt`},
		`tool "x" { enabled = 0 }`:                                           {"1:22: ", "Bool required, but have number. Write true or false."},
		`host { timeout = "0d" }`:                                            {"1:18: ", "is not a duration"},
		`host { timeout = "99999d" }`:                                        {"1:18: ", "is not a duration"},
		`host { timeout = "soon" }`:                                          {"1:18: ", `"soon" is not a duration`, `"90s"`},
		`host { timeout = "-1s" }`:                                           {"1:18: ", "is not a duration"},
		`host { timeout = "0s" }`:                                            {"1:18: ", "is not a duration"},
		`host { timeout = 5 }`:                                               {"1:18: ", "is not a duration"},
		`host { timeout = ["5s"] }`:                                          {"1:18: "},
		`host { max_parallel = 0 }`:                                          {"1:23: ", "At least one call must be able to run"},
		`host { max_parallel = "many" }`:                                     {"1:24: ", "number is required"},
		`host { max_parallel = 1.5 }`:                                        {"1:23: ", "whole number"},
		`host { nope = 1 }`:                                                  {"1:8: ", `There is no "nope" in host`},
		"host {}\nhost {}":                                                   {"2:1: ", "Duplicate host block"},
		`host { log_level = env("NOPE") }`:                                   {"1:2", "the environment variable NOPE is not set; give a default"},
		`host { log_level = nosuch }`:                                        {"1:20: ", "nosuch"},
		`host { log_level = nosuch() }`:                                      {"1:20: ", "nosuch"},
		`sandbox { workspace = "open" }`:                                     {"1:23: ", "Use one of read-write, read-only"},
		`sandbox { paths = "loose" }`:                                        {"1:19: ", "Use one of contained, strict"},
		`sandbox { deny = ["[a"] }`:                                          {"1:18: ", `"[a" is not a glob`},
		`sandbox { allow = {} }`:                                             {"1:19: ", "List of string required"},
		"sandbox {\n  root \"/none/such\" {}\n}":                             {"2:3: ", "There is no directory /none/such", "or remove this root"},
		"sandbox {\n  root {}\n}":                                            {"2:8: ", "path"},
		`plugin {}`:                                                          {"1:8: "},
		`plugin "Bad Name" { path = "x" }`:                                   {"1:1: ", `"Bad Name" cannot name a plugin`},
		`plugin "x" {}`:                                                      {"1:1: ", `Plugin "x" has no path`},
		`plugin "x" { path = 1 + }`:                                          {"1:", "Invalid expression"},
		`plugin "x" { path = null }`:                                         {"1:1: ", "has no path"},
		"plugin \"x\" {\n  path = \"x\"\n  field = \"A B\"\n}":               {"3:11: ", `"A B" cannot name a field namespace`},
		"plugin \"x\" {\n  path = \"x\"\n  args = \"y\"\n}":                  {"3:11: ", "List of string required"},
		"plugin \"x\" {\n  pth = \"y\"\n}":                                   {"2:3: ", `There is no "pth" in plugin`, `Did you mean "path"?`},
		"plugin \"x\" {\n  path = \"x\"\n  start_timeout = \"\"\n}":          {"3:19: ", "is not a duration"},
		"plugin \"x\" {\n  path = \"x\"\n  config {\n    a = nosuch\n  }\n}": {"4:9: ", "nosuch"},
		"plugin \"x\" {\n  path = \"x\"\n  config {}\n  config {}\n}":        {"4:3: ", "Duplicate config block"},
		"tool \"x\" {}\n\ntool \"x\" {}":                                     {"3:1: ", `Tool "x" is configured twice`, "x.hcl:1. Put both into one"},
		`tool "x" { timeout = "1" }`:                                         {"1:22: ", "is not a duration"},
		`tool "x" { enabled = "perhaps" }`:                                   {"1:23: ", "bool"},
		`unknown "x" {}`:                                                     {"1:1: ", "unknown"},
		"plugin \"x\" {\n":                                                   {"1:12: ", "Unclosed configuration block"},
		"host {\r\n\ton_ask = \"x\"\r\n}":                                    {"2:11: ", "   2 |  on_ask = \"x\"\n     |           ^^^"},
		"host { on_ask = \"\xff\" }":                                         {"1:"},
		"\x00":                                                               {"1:1: "},
		"# " + strings.Repeat("é", 300) + "\nhost { on_ask = \"" + strings.Repeat("y", 500) + "\" }": {"2:17: ", "…"},
	} {
		c, dir, err := load(t, map[string]string{"x.hcl": text})
		var e *config.Error
		if !errors.As(err, &e) || c != nil || e.Problems() == 0 {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), dir+"/x.hcl:"+want[0]) {
			t.Errorf("%q is not at %s:\n%v", text, want[0], err)
		}
		for _, w := range want[1:] {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q:\n%v", text, w, err)
			}
		}
	}
}

func TestEveryProblemIsReported(t *testing.T) {
	_, _, err := load(t, map[string]string{"x.hcl": "host {\n  on_ask = \"x\"\n  timeout = \"y\"\n}\nplugin \"B\" { path = \"x\" }\ntool \"t\" { timeout = \"z\" }\n"})
	var e *config.Error
	if !errors.As(err, &e) || e.Problems() != 4 {
		t.Error(err)
	}
	for _, at := range []string{":2:12: ", ":3:13: ", ":5:1: ", ":6:22: "} {
		if err != nil && !strings.Contains(err.Error(), at) {
			t.Errorf("nothing at %s:\n%v", at, err)
		}
	}
}

func TestJSONDiagnostics(t *testing.T) {
	for text, want := range map[string]string{
		`{"host":{"on_ask":"x"}}`: ":1:19: ",
		`{"host":`:                ":1:",
		"{\"plugin\":\n{\"x\":{\"pth\":1,\"path\":\"x\"}}}": ":2:",
		`"x"`: ":1:1: ",
	} {
		_, dir, err := load(t, map[string]string{"x.json": text})
		if err == nil || !strings.HasPrefix(err.Error(), dir+"/x.json"+want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{dir + "/none": "none does not exist", "/dev/null": "neither a file nor a directory", dir: "has no file that ends in"} {
		if _, err := config.Load(path, config.Environment{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestBinaries(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/plain", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/ok", nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/c.hcl", []byte(`
plugin "ok" {}
plugin "plain" {}
plugin "dir" { path = "." }
plugin "none" {}
plugin "gone" { optional = true }
plugin "device" { path = "/dev/null" }
plugin "through" { path = "ok/x" }
`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(dir+"/c.hcl", config.Environment{BundledDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ok": "", "plain": "chmod +x", "dir": "is a directory", "none": "does not exist", "device": "not a regular file", "through": "not a directory"}
	for _, p := range c.Plugins {
		w, ok := want[p.Name]
		if !ok || (w == "") != (p.Missing == "") || !strings.Contains(p.Missing, w) {
			t.Errorf("%s: %q, wanted %q", p.Name, p.Missing, w)
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("left out: %v", want)
	}
	if at := c.PluginPosition("dir"); at != dir+"/c.hcl:4" || c.PluginPosition("zzz") != "" {
		t.Error(at)
	}
	if text := c.MissingBinary(c.Plugins[1]).Error(); !strings.HasPrefix(text, dir+`/c.hcl:3:1: Plugin "plain" cannot be run`) {
		t.Error(text)
	}
}

func TestAliases(t *testing.T) {
	c, dir, err := load(t, map[string]string{"x.hcl": `
host { aliases = ["claude"] }
alias "file_read" {
  tool   = "read"
  params = { path = "file_path" }
}
alias "Read" { tool = "jira:search" }
`})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]config.Alias)
	for _, a := range c.Aliases {
		if _, twice := got[a.Name]; twice {
			t.Errorf("%s is there twice", a.Name)
		}
		got[a.Name] = a
	}
	if a := got["file_read"]; a.Tool != "read" || a.Params["path"] != "file_path" || a.Preset != "" {
		t.Errorf("%+v", a)
	}
	if a := got["Read"]; a.Tool != "jira:search" {
		t.Errorf("the operator's alias does not go before that of a preset: %+v", a)
	}
	if a := got["Grep"]; a.Role != tool.RoleSearch || a.Tool != "" || a.Preset != "claude" {
		t.Errorf("%+v", a)
	}
	if _, on := got["shell_exec"]; on {
		t.Error("a preset is on that was not asked for")
	}
	if text := c.BadAlias(got["file_read"], errors.New("there is no tool \"read\"")); !strings.HasPrefix(text, dir+`/x.hcl:3:1: Alias "file_read" has no effect. There is no tool "read".`) {
		t.Error(text)
	}
	if c, _, err := load(t, map[string]string{"x.hcl": "host { aliases = [] }"}); err != nil || len(c.Aliases) != 0 {
		t.Errorf("%v %v", c, err)
	}
	for text, want := range map[string]string{
		`host { aliases = ["cluade"] }`: `1:18: There is no set of aliases "cluade". There are: anthropic, claude, codex, common, gemini, opencode. Did you mean "claude"?`,
		`alias "a b" { tool = "read" }`: `1:1: "a b" cannot be an alias`,
		`alias "a" {}`:                  `1:1: Alias "a" stands for nothing. Say which tool it is for`,
		"alias \"a\" { tool = \"x\" }\nalias \"a\" { tool = \"y\" }": `2:1: Alias "a" is configured twice`,
		`alias "a" { tool = 3 + "x" }`:                               `1:24`,
		`alias "a" { tool = "read", }`:                               `1:26`,
		"alias \"a\" {\n tool = \"read\"\n params = [1]\n}":          `3:11`,
	} {
		if _, _, err := load(t, map[string]string{"x.hcl": text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPluginDiagnostics checks problems that a plugin reports about its configuration. The message must contain the
// line of the operator's file.
func TestPluginDiagnostics(t *testing.T) {
	c, dir, err := load(t, map[string]string{"x.hcl": "plugin \"p\" {\n  path = \"x\"\n  config {\n    port = 1\n    auth {\n      user = \"u\"\n    }\n    auth {}\n  }\n}\nplugin \"q\" { path = \"y\" }\ntool \"raed\" {}\n"})
	if err != nil {
		t.Fatal(err)
	}
	for path, at := range map[string]string{"port": "4:12", "auth": "3:3", "auth 0 user": "6:14", "auth 1": "8:5", "auth 1 none": "8:5", "none": "3:3", "": "3:3", "port deeper 3": "4:12"} {
		got := c.At("p", []tool.Diagnostic{{Severity: tool.SeverityError, Summary: "bad", Detail: "Mend it.", Path: strings.Fields(path)}})
		if !strings.HasPrefix(got, dir+"/x.hcl:"+at+": Plugin p: bad. Mend it.") {
			t.Errorf("%q is not at %s: %s", path, at, got)
		}
	}
	if got := c.At("q", []tool.Diagnostic{{Severity: tool.SeverityWarning, Summary: "hm"}}); !strings.HasPrefix(got, dir+"/x.hcl:11:1: warning: Plugin q: hm") {
		t.Error(got)
	}
	if got := c.At("none", []tool.Diagnostic{{Summary: "hm"}}); got != "Plugin none: hm" {
		t.Error(got)
	}
	if got := c.UnusedTool("raed", errors.New("unknown tool \"raed\"")).Error(); !strings.HasPrefix(got, dir+`/x.hcl:12:1: The block tool "raed" has no effect. Unknown tool "raed".`) {
		t.Error(got)
	}
}

func TestDefaults(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"read": "", "read.json": `{"name": "read", "version": "1.0.0", "binary": "read", "bundled": {"default": 1, "profile": {"roots": "none"}}}`} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := config.Host{LogLevel: slog.LevelWarn, Timeout: 2 * time.Minute, MaxWait: 2 * time.Minute, ShutdownTimeout: 30 * time.Second, MaxParallel: 10, AliasPresets: slices.Sorted(maps.Keys(habit.Presets))}
	c, err := config.Load("", config.Environment{BundledDir: dir})
	if err != nil || len(c.Plugins) != 1 || c.Plugins[0].Profile.Roots != "none" || c.Plugins[0].Path != dir+"/read" || c.Source != "built-in" || !reflect.DeepEqual(c.Host, want) {
		t.Errorf("%+v %v", c, err)
	}
	empty, _, err := load(t, map[string]string{"x.hcl": ""})
	if err != nil || !reflect.DeepEqual(empty.Host, want) || empty.Sandbox.Workspace != "read-write" || empty.Sandbox.Strict {
		t.Errorf("%+v %v", empty, err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_CONFIG_HOME", dir+"/xdg")
	t.Setenv(config.EnvVar, "")
	if got := config.Find("", "", os.Getenv); got != "" {
		t.Error(got)
	}
	for _, f := range []string{dir + "/xdg/toolhost/toolhost.hcl", "toolhost.hcl"} {
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := config.Find("", "", os.Getenv); got != f {
			t.Errorf("%q, wanted %q", got, f)
		}
	}
	t.Setenv(config.EnvVar, "/from/env")
	if got := config.Find("", "", os.Getenv); got != "/from/env" {
		t.Error(got)
	}
	if got := config.Find("given", "", os.Getenv); got != "given" {
		t.Error(got)
	}
}

// TestUnlimited checks that "unlimited" removes limits with a default, and that other limits do not accept "unlimited".
func TestUnlimited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolhost.hcl")
	load := func(limits string) (*config.Config, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte("plugin \"p\" {\n  path = \"p\"\n  sandbox {\n    limits {\n"+limits+"\n    }\n  }\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Load(file, config.Environment{})
	}
	all := "memory = \"unlimited\"\nprocesses = \"unlimited\"\nfiles = \"unlimited\"\nfile_size = \"unlimited\"\ntemporary = \"unlimited\"\ntotal {\nmemory = \"unlimited\"\n}"
	c, err := load(all)
	const u = config.Unlimited
	want := config.Limits{Memory: u, Processes: u, Files: u, FileSize: u, Temporary: u, Total: config.Totals{Memory: u}}
	if err != nil || c.Plugins[0].Confinement.Limits != want {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"cpu = \"unlimited\"", "processes = 0", "memory = \"none\"", "total {\nprocesses = \"unlimited\"\n}"} {
		if _, err := load(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestNarrowingLists(t *testing.T) {
	dir := t.TempDir()
	read := func(text string) *config.Narrowing {
		path := filepath.Join(dir, "toolhost.hcl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.ReadNarrowing(path)
	}
	base := func() config.Config {
		path := filepath.Join(dir, "base.hcl")
		if err := os.WriteFile(path, []byte("host {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(path, config.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		return *cfg
	}
	n := read("permissions {\n programs {\n mode = \"listed\"\n ask = [\"rm *\"]\n deny = [\"curl *\"]\n }\n paths {\n deny = [\".env\"]\n protect = [\"deploy/**\"]\n }\n}")
	cfg := base()
	n.Apply(&cfg)
	if p := cfg.Permissions; !n.Complete || !p.Programs.Listed || len(p.Project) != 4 || len(p.Rules) != 0 || len(p.Paths.Protect) != 1 || len(p.Paths.Deny) != 1 {
		t.Errorf("complete %v, %+v", n.Complete, p)
	}
	for word, listed := range map[string]bool{"careful": false, "listed": true} {
		n := read("permissions {\n policy = \"" + word + "\"\n}")
		cfg := base()
		n.Apply(&cfg)
		if p := cfg.Permissions; !n.Complete || n.Empty() || p.Policy != word || p.Programs.Listed != listed || len(p.Rules) > 0 != listed {
			t.Errorf("%s: complete %v, %+v", word, n.Complete, p)
		}
		cfg = base()
		cfg.Permissions.Policy, cfg.Permissions.Default = "listed", "ask"
		if n.Apply(&cfg); cfg.Permissions.Policy != "listed" || len(cfg.Permissions.Rules) > 0 {
			t.Errorf("%s over listed: %+v", word, cfg.Permissions)
		}
	}
	for _, text := range []string{"policy = \"open\"", "policy = \"x\"", "programs {\n allow = [\"ls\"]\n}", "programs {\n mode = \"open\"\n}", "programs {\n other = 1\n}", "paths {\n deny = [\"**\"]\n}", "paths {\n allow = [\"x\"]\n}", "paths {\n writable = [\".vscode\"]\n}"} {
		n := read("permissions {\n" + text + "\n}")
		cfg := base()
		n.Apply(&cfg)
		if n.Complete || cfg.Permissions.Programs.Listed || len(cfg.Permissions.Project) > 0 {
			t.Errorf("%s is taken for a restriction: %+v", text, cfg.Permissions)
		}
	}
}
