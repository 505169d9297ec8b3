package privilege

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
)

// reader returns a function that loads a configuration from a text. In the text, braces stand for blocks. The result
// "dir" is the directory of the configuration.
func reader(t *testing.T) (read func(text string) *config.Config, dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	bundled := t.TempDir()
	for name, profile := range map[string]string{"bash": `{"exec": true}`, "read": `{"roots": "read-only"}`} {
		text := fmt.Sprintf(`{"name": %q, "version": "1.0.0", "binary": "x", "bundled": {"profile": %s}}`, name, profile)
		if err := os.WriteFile(filepath.Join(bundled, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(text string) *config.Config {
		text = strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(text)
		path := filepath.Join(dir, "x.hcl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, config.Environment{BundledDir: bundled})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return c
	}, dir
}

// changes lists pairs of configurations. The field want is the expected increase if the configuration changes from
// narrow to wide. The field back is the expected increase for the opposite change. DIR stands for the configuration's
// directory.
var changes = []struct{ narrow, wide, want, back string }{
	{"", "", "", ""},
	{`sandbox { workspace = "read-only" }`, ``, "sandbox.workspace was read-only and is read-write", ""},
	{``, `sandbox { root "a" {} }`, "tools may read in DIR/a", ""},
	{`sandbox { root "a" {} }`, `sandbox { root "a" { writable = true } }`, "tools may write in DIR/a", ""},
	{`sandbox { paths = "strict" }`, ``, "sandbox.paths was strict and is contained", ""},
	{`sandbox { allow = ["/a/**"] }`, ``, "paths no longer have to match sandbox.allow", ""},
	{`sandbox { allow = ["/a/**"] }`, `sandbox { allow = ["/b/**"] }`, "sandbox.allow has /b/**", "sandbox.allow has /a/**"},
	{`sandbox { deny = ["/a", "/b"] }`, `sandbox { deny = ["/b"] }`, "permissions.paths.deny lacks /a", ""},
	{`sandbox { backend = "ns" }`, ``, "sandbox.backend was ns and is auto", ""},
	{`sandbox { enforce = "require" }`, `sandbox { enforce = "off" }`, "sandbox.enforce was require and is off", ""},
	{`permissions { policy = "careful" }`, ``, "permissions.policy was careful and is open", ""},
	{`permissions { policy = "careful" }`, `permissions { policy = "open" }`, "permissions.policy was careful and is open", ""},
	{`permissions { policy = "listed" }`, `permissions { policy = "careful" }`, "permissions.policy was listed and is careful", ""},
	{`permissions { policy = "listed" }`, ``, "permissions.policy was listed and is open", ""},
	{`permissions { policy = "listed" }`, "permissions {\n policy = \"listed\"\n programs {\n allow = [\"x *\"]\n}\n}", "permissions.programs.allow has x *", "permissions.programs.allow has ls *, cat *, head *, tail *, wc *, nl *, tac *, cut *, paste *, tr *, uniq, uniq ?*, uniq -?* ?*, uniq -?* -?* ?*, comm *, join *, fold *, column *, rev *, seq * and 69 more"},
	{"permissions {\n programs {\n mode = \"listed\"\n allow = [\"ls\"]\n}\n}", "permissions {\n programs {\n mode = \"listed\"\n allow = [\"ls\"]\n ask = [\"rm *\"]\n}\n}", "permissions.programs.ask has rm *", "permissions.programs.ask lacks rm *"},
	{"permissions {\n default = \"ask\"\n}", "permissions {\n default = \"ask\"\n policy = \"listed\"\n}", "permissions.programs.allow has ls *, cat *, head *, tail *, wc *, nl *, tac *, cut *, paste *, tr *, uniq, uniq ?*, uniq -?* ?*, uniq -?* -?* ?*, comm *, join *, fold *, column *, rev *, seq * and 69 more", "permissions.policy was listed and is open"},
	{``, `sandbox { repositories = "off" }`, "sandbox.repositories was quarantine and is off", ""},
	{`plugin "p" {}`, `plugin "p" { sandbox { exec = true } }`, "plugin p may start programs", ""},
	{`plugin "read" {}`, `plugin "read" { sandbox { roots = "read-write" } }`, "plugin read may write in writable roots", ""},
	{`plugin "p" {}`, `plugin "p" { sandbox { network = true } }`, "plugin p reaches the network", ""},
	{`plugin "p" { calls = ["a"] }`, `plugin "p" { calls = ["a", "b*"] }`, "plugin p may call b*", ""},
	{``, `plugin "p" { calls = ["a"] }`, "plugin p may call a", ""},
	{`plugin "p" {}`, `plugin "p" { sandbox { read = ["/x"] } }`, "plugin p may read /x", ""},
	{`plugin "p" {}`, `plugin "p" { sandbox { write = ["/x"] } }`, "plugin p may write /x", ""},
	{`plugin "p" {}`, `plugin "p" { sandbox { enforce = "off" } }`, "enforce of plugin p was auto and is off", ""},
	{`plugin "p" { sandbox { limits { cpu = "1s" } } }`, `plugin "p" { sandbox { limits { cpu = "2s" } } }`, "the limit cpu of plugin p was 1 and is 2", ""},
	{``, `plugin "p" {}`, "", ""},
	{`plugin "p" { sandbox { network = ["a.org"] } }`, `plugin "p" { sandbox { network = ["a.org", "b.org"] } }`, "plugin p reaches b.org", ""},
	{`plugin "p" { sandbox { network = ["a.org"] } }`, `plugin "p" { sandbox { network = true } }`, "plugin p reaches the network", ""},
	{`plugin "p" { sandbox { roots = "none" } }`, `plugin "p" { sandbox { roots = "read-only" } }`, "plugin p may read in the roots", ""},
	{`plugin "p" {}`, `plugin "p" { sandbox { git = "read-write" } }`, "plugin p may write the hooks and settings of repositories", ""},
	{`plugin "p" { sandbox { limits { total { cpus = 1 } } } }`, `plugin "p" { sandbox { limits { total { cpus = 2 } } } }`, "the limit cpus of plugin p in all was 1 and is 2 (0 means none)", ""},
	{`trust { definitions = "approve" }`, ``, "trust.definitions was approve and is report", ""},
	{``, `plugin "bash" {}`, "plugin bash may start programs", ""},
	{``, `field "f" { mcp { url = "https://x" } }`, "plugin f reaches the network", ""},
	{`permissions { default = "ask" }`, ``, "permissions.default was ask and is allow", ""},
	{`permissions { commands = "allow-list" }`, ``, "commands that no rule allows may run", ""},
	{"permissions { programs { mode = \"listed\"\n ask = [\"rm *\"]\n allow = [\"ls *\"] } }", "permissions { programs { ask = [\"rm *\"]\n allow = [\"ls *\"] } }", "programs that are not listed may run", ""},
	{"permissions { programs { mode = \"listed\"\n allow = [\"ls *\"] } }", "permissions { programs { mode = \"listed\"\n allow = [\"ls *\", \"cat *\"] } }", "permissions.programs.allow has cat *", ""},
	{"permissions { commands = \"allow-list\"\n allow \"a\" { command = \"ls\" } }", "permissions { programs { mode = \"listed\" }\n allow \"a\" { command = \"ls\" } }", "", ""},
	{`permissions { programs { deny = ["rm *"] } }`, ``, "permissions.programs.deny lacks rm *", ""},
	{`permissions { paths { deny = [".env", "a/**"] } }`, `permissions { paths { deny = ["a/**"] } }`, "permissions.paths.deny lacks .env", ""},
	{`permissions { paths { protect = ["a/**"] } }`, ``, "permissions.paths.protect lacks a/**", ""},
	{``, `permissions { paths { writable = [".vscode"] } }`, "permissions.paths.writable has .vscode", ""},
	{``, `permissions { ask "r" { builtin = ["remove-system"] } }`, `the rule ask "r" is new or changed`, `the rule ask "r" was removed`},
	{``, `permissions { builtin = false }`, "permissions.builtin was true and is false", ""},
	{`permissions { ask "r" { tool = "x" } }`, ``, `the rule ask "r" was removed`, ""},
	{`permissions { deny "r" { tool = "x" } }`, `permissions { deny "r" { tool = "y" } }`, `the rule deny "r" changed`, `the rule deny "r" changed`},
	{``, `permissions { allow "r" { tool = "x" } }`, `the rule allow "r" is new or changed`, ""},
	{"hook \"h\" {\n on = [\"before_call\"]\n command = [\"/x\"]\n}", ``, `the hook "h" was removed`, ""},
	{`host { on_ask = "deny" }`, `host { on_ask = "prompt" }`, "host.on_ask was deny and is prompt", ""},
	{`host { max_calls = 2 }`, ``, "host.max_calls was 2 and is unlimited", ""},
	{`host { max_parallel = 2 }`, `host { max_parallel = 3 }`, "host.max_parallel was 2 and is 3", ""},
	{`tool "t" { enabled = false }`, ``, `tool "t".enabled was false and is not set`, ""},
	{``, `tool "t" { enabled = true }`, `tool "t".enabled was not set and is true`, ""},
	{`tool "t" { max_concurrent = 1 }`, `tool "t" { max_concurrent = 2 }`, `tool "t".max_concurrent was 1 and is 2`, ""},
	{``, `audit { enabled = false }`, "audit.enabled was true and is false", ""},
	{``, `audit { on_failure = "continue" }`, "audit.on_failure was stop and is continue", ""},
	{``, `reload { changes = "any" }`, "reload.changes was compatible and is any", ""},
	{`reload { privilege_increases = "approve" }`, ``, "reload.privilege_increases was approve and is explicit", ""},
	{``, `sandbox { allow_root = ["/a"] }`, "sandbox.allow_root has /a", ""},
	{`plugin "p" { sandbox { limits { temporary = "1GiB" } } }`, `plugin "p" { sandbox { limits { temporary = "2GiB" } } }`, "the limit temporary of plugin p was 1073741824 and is 2147483648", ""},
	{`endpoint "e" { tools = ["a"] }`, `endpoint "e" { tools = ["a", "b"] }`, `endpoint "e".tools has b`, ""},
	{`endpoint "e" { principals = ["anonymous"] }`, `endpoint "e" {}`, `endpoint "e".principals was removed`, ""},
	{`quota "principal:*" { breaker { failures = 2 } }`, `quota "principal:*" { breaker { failures = 3 } }`, `quota "principal:*".breaker.failures was 2 and is 3`, ""},
	{`quota "principal:*" { breaker { pause = "2s" } }`, `quota "principal:*" { breaker { pause = "1s" } }`, `quota "principal:*".breaker.pause was 2s and is 1s`, ""},
	{`trust { untrusted = "refuse" }`, ``, "trust.untrusted was refuse and is narrow", ""},
	{`workspace { limits { layer = "1MiB" } }`, `workspace { limits { layer = "2MiB" } }`, "workspace.limits.layer was 1048576 and is 2097152", ""},
	{`workspace { limits { files = 10 } }`, `workspace { limits { files = 20 } }`, "workspace.limits.files was 10 and is 20", ""},
	{``, `audit { max_size = "1KiB" }`, "audit.max_size was 67108864 and is 1024", ""},
	{``, `audit { max_age = "1h" }`, "audit.max_age was 2160h0m0s and is 1h0m0s", ""},
	{`host { timeout = "1m" }`, `host { timeout = "1h" }`, "", ""},
	{``, "issuer \"i\" { url = \"https://a\"\naudience = \"b\" }", "tokens of issuer i are accepted", ""},
	{``, `principal "a" {}`, "there is a principal a", ""},
	{`principal "a" { rights = ["log"] }`, `principal "a" { rights = ["log", "answer"] }`, "principal a has the right answer", ""},
	{`principal "a" {}`, `principal "a" { workspaces = ["/x"] }`, "principal a may work in /x", "principal a may work in another workspace"},
	{`principal "a" { tools = ["x"] }`, `principal "a" { tools = ["x", "y"] }`, `principal "a".tools has y`, ""},
	{`principal "a" { tools = ["x"] }`, `principal "a" { tools = ["y"] }`, `principal "a".tools has y`, `principal "a".tools has x`},
	{`principal "a" { tools = ["x"] }`, `principal "a" {}`, `principal "a".tools was removed`, ""},
	{`principal "a" { limits { calls = 1 } }`, `principal "a" {}`, `principal "a".limits.calls was 1 and is unlimited`, ""},
	{`quota "principal:*" { parallel = 1 }`, ``, `quota "principal:*".parallel was 1 and is unlimited`, ""},
}

func TestIncreases(t *testing.T) {
	read, dir := reader(t)
	for _, tc := range changes {
		narrow, wide := read(tc.narrow), read(tc.wide)
		if got := strings.Join(Increases(narrow, wide, nil), "; "); got != strings.ReplaceAll(tc.want, "DIR", dir) {
			t.Errorf("from\n%s\nto\n%s\n got %q\nwant %q", tc.narrow, tc.wide, got, tc.want)
		}
		if got := strings.Join(Increases(wide, narrow, nil), "; "); got != tc.back {
			t.Errorf("back from\n%s\nto\n%s\n got %q\nwant %q", tc.wide, tc.narrow, got, tc.back)
		}
	}
}

// TestBundledPlugins checks that a reload increases privileges if it adds or enables bundled plugins, whatever their
// permissions are.
func TestBundledPlugins(t *testing.T) {
	bundled := t.TempDir()
	for name, text := range map[string]string{"read.json": `{"name": "read", "version": "1.0.0", "binary": "read", "bundled": {"default": 1, "profile": {"roots": "read-only"}}}`, "read": ""} {
		if err := os.WriteFile(filepath.Join(bundled, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	read := func(text string) *config.Config {
		c, err := config.Parse([]byte(text), "x.hcl", config.Environment{BundledDir: bundled})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const off = "plugin \"read\" {\n  enabled = false\n}\n"
	for _, tc := range []struct{ old, now, want string }{
		{"", "", ""},
		{"", "bundled = false", ""},
		{"", off, ""},
		{"bundled = false", off, ""},
		{"bundled = false", "", "the plugin read is no longer turned off"},
		{"bundled = false", "bundled = false\nplugin \"read\" {}", "the plugin read is no longer turned off"},
		{off, "", "the plugin read is no longer turned off"},
		{off, "plugin \"read\" {}", "the plugin read is no longer turned off"},
	} {
		if got := strings.Join(Increases(read(tc.old), read(tc.now), nil), "; "); got != tc.want {
			t.Errorf("from %q to %q: %q, want %q", tc.old, tc.now, got, tc.want)
		}
	}
	if got := Increases(read(off), read(""), map[string]bool{"read": true}); len(got) > 0 {
		t.Errorf("a plugin that was unregistered stays unregistered: %q", got)
	}
}
