package privilege

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
)

// located is an attribute with the blocks that contain it.
type located struct {
	config.Attribute
	in []*config.Block
}

func (a *located) path() string { return strings.TrimPrefix(a.in[len(a.in)-1].Path+"."+a.Name, ".") }

// attributes lists all attributes of a configuration.
func attributes() (out []located) {
	var walk func(in []*config.Block)
	walk = func(in []*config.Block) {
		b := in[len(in)-1]
		for _, a := range b.Attributes {
			out = append(out, located{a, in})
		}
		for _, inner := range b.Blocks {
			walk(append(slices.Clone(in), inner))
		}
	}
	walk([]*config.Block{config.Schema()})
	return out
}

// labels contains labels for blocks, where "x" cannot be one. others contains what a block needs beside an attribute.
var (
	labels = map[string]string{"quota": "principal:*", "sandbox.root": "a", "tool": "read"}
	others = map[string][]string{
		"file": {"issuer \"i\" {\nurl = \"https://a\"\naudience = \"b\"\n}\nissuer \"j\" {\nurl = \"https://c\"\naudience = \"d\"\n}\nplugin \"y\" {}\n"}, "principal": {`role = "approver"`, `issuer = "i"`, `claims = { sub = "a" }`},
		"hook": {`on = ["before_call"]`, `command = ["/bin/true"]`}, "issuer": {`url = "https://a"`, `audience = "b"`, `client_id = "c"`},
		"permissions.deny": {`tool = "t"`}, "permissions.ask": {`tool = "t"`}, "permissions.allow": {`tool = "t"`}, "field": {"mcp {\ncommand = [\"x\"]\n}"},
		"permissions": {`default = "ask"`, "ask \"any\" {\ntool = \"t\"\n}"}, "permissions.programs": {`allow = ["ls *"]`},
	}
)

// write returns a configuration with a value of an attribute. An empty value means that the attribute is absent.
func (a *located) write(value string) string { return a.beside(value, others) }

// beside returns a configuration with a value of an attribute, and with other lines of the blocks that contain it.
func (a *located) beside(value string, others map[string][]string) string {
	text := ""
	if value != "" {
		text = a.Name + " = " + value + "\n"
	}
	for _, b := range slices.Backward(a.in) {
		for _, line := range others[b.Path] {
			if name, _, _ := strings.Cut(line, " "); name != a.Name && !strings.Contains(value, "\n"+name+" =") {
				text += line + "\n"
			}
		}
		if b.Path == "" {
			return text + strings.Join(others["file"], "")
		}
		head := b.Name
		for range b.Labels {
			label, known := labels[b.Path]
			if !known {
				label = "x"
			}
			head += fmt.Sprintf(" %q", label)
		}
		text = head + " {\n" + text + "}\n"
	}
	return text
}

// values contains a value and another one that permits more, for the attributes whose other properties do not determine
// such values.
var values = map[string][2]string{
	"plugin.enabled": {"false", "true"}, "plugin.calls": {`["a"]`, `["a", "b"]`}, "tool.enabled": {"false", "true"},
	"sandbox.allow": {`["/a/**"]`, ""}, "sandbox.deny": {`["/a"]`, ""}, "sandbox.root.writable": {"false", "true"}, "sandbox.allow_root": {`["/a"]`, `["/a", "/b"]`},
	"audit.secrets":      {`["PATH", "HOME"]`, `["PATH"]`},
	"permissions.policy": {`"careful"`, `"open"`}, "permissions.default": {`"deny"`, `"allow"`}, "permissions.commands": {`"allow-list"`, `"rules"`},
	"permissions.builtin": {"true", "false"}, "permissions.programs.mode": {`"listed"`, `"open"`}, "permissions.programs.deny": {`["a"]`, `[]`},
	"permissions.programs.ask": {`["a", "b"]`, `["a"]`}, "permissions.programs.allow": {"", `["x *"]`}, "permissions.paths.deny": {`["a"]`, ""}, "permissions.paths.protect": {`["a"]`, ""},
	"permissions.deny.show": {`"command"`, `"diff"`}, "permissions.ask.show": {`"command"`, `"diff"`}, "permissions.allow.show": {`"command"`, `"diff"`},
	"permissions.paths.writable": {"", `[".vscode"]`},
	"principal.role":             {`"viewer"`, `"administrator"`}, "principal.rights": {"[\"log\"]\nrole = null", "[\"log\", \"call\"]\nrole = null"}, "principal.answers_for": {`["x"]`, `["x", "anonymous"]`}, "principal.issuer": {`"i"`, `"j"`}, "principal.workspaces": {`["/a"]`, `["/a", "/b"]`},
	"principal.users": {"", `["1"]`},
	"plugin.version":  {"\"1\"\nsource = \"registry.example.org/a/b\"", "\"2\"\nsource = \"registry.example.org/a/b\""}, "plugin.source": {`"registry.example.org/a/b"`, `"registry.example.org/a/c"`},
	"reload.widening": {`"approve"`, `"explicit"`}, "host.log_level": {`"warn"`, `"info"`}, "host.aliases": {"[]", `["codex"]`}, "plugin.depends_on": {"[]", `["y"]`}, "workspace.backend": {`"auto"`, `"copy"`}, "tracing.endpoint": {`"http://a"`, `"http://b"`},
	"tool.fallback.params": {"{ a = \"b\" }\ntool = \"t\"", "{ a = \"c\" }\ntool = \"t\""}, "tracing.sample": {"0", "1"}, "tool.queue": {"1\nmax_concurrent = 1", "2\nmax_concurrent = 1"},
	"plugin.sandbox.roots": {`"read-only"`, `"read-write"`}, "plugin.sandbox.network": {`["a.org"]`, "true"}, "plugin.sandbox.enforce": {`"require"`, `"off"`},
	"plugin.sandbox.git": {`"protected"`, `"read-write"`},
	"hook.on":            {`["before_call"]`, `["after_call"]`}, "hook.on_failure": {`"deny"`, `"allow"`}, "hook.command": {`["/a"]`, `["/b"]`}, "hook.trial": {"true", "false"},
	"endpoint.principals": {`["anonymous"]`, `["anonymous", "start-token"]`}, "issuer.url": {`"https://a"`, `"https://c"`}, "issuer.resource": {`"https://a"`, `"https://c"`},
}

// narrowAndWide returns two configurations that differ in the attribute. The second one permits more.
func (a *located) narrowAndWide(t *testing.T) (narrow, wide string) {
	t.Helper()
	pair := a.values(t)
	return a.write(pair[0]), a.write(pair[1])
}

// values returns two values of the attribute. The second one permits more.
func (a *located) values(t *testing.T) [2]string {
	t.Helper()
	pair, known := values[strings.Replace(a.path(), "field.", "plugin.", 1)]
	switch {
	case known:
	case len(a.Order) > 0:
		pair = [2]string{fmt.Sprintf("%q", a.Order[len(a.Order)-1]), fmt.Sprintf("%q", a.Order[0])}
	default:
		pairs := map[string][2]string{
			"bool": {"false", "true"}, "number": {"1000", "2000"}, "size": {`"1GiB"`, `"2GiB"`}, "duration": {`"1h"`, `"2h"`},
			"list(string)": {`["a"]`, `["a", "b"]`}, "map(string)": {`{ a = "b" }`, `{ a = "c" }`}, "string": {`"a"`, `"b"`},
			"list of strings": {`["a"]`, `["b"]`}, "object": {`{ a = 1 }`, `{ a = 2 }`}, "any": {"1", "2"}, "type": {"string", "number"}, "list(number)": {"[1]", "[2]"},
		}
		if pair, known = pairs[a.Type]; !known {
			t.Fatalf("%s: no values of the type %s", a.path(), a.Type)
		}
		if a.Falls() {
			slices.Reverse(pair[:])
		}
	}
	return pair
}

// ofProjects lists the attributes that a project file can set before a person trusts it.
var ofProjects = []string{
	"bundled", "sandbox.workspace", "sandbox.paths", "sandbox.deny", "sandbox.enforce", "plugin.enabled", "tool.enabled", "tool.max_concurrent",
	"permissions.policy", "permissions.default", "permissions.commands", "permissions.programs.mode", "permissions.programs.ask", "permissions.programs.deny",
	"permissions.paths.deny", "permissions.paths.protect",
}

// TestProjectsOnlyRestrict checks which attributes a project file that nobody trusts can set: those of ofProjects, to a
// value that permits less. What such a file says about them holds, and with any other attribute it needs trust.
func TestProjectsOnlyRestrict(t *testing.T) {
	read, dir := reader(t)
	path := filepath.Join(dir, "project.hcl")
	project := func(text string) *config.Narrowing {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.ReadNarrowing(path)
	}
	var settable []string
	for _, a := range attributes() {
		if top := a.in[min(2, len(a.in)-1)].Path; slices.Contains([]string{"permissions.deny", "permissions.ask", "permissions.test"}, top) {
			continue // such a block as a whole restricts, or nothing does
		}
		pair := a.values(t)
		n := project(a.beside(pair[0], nil))
		if !n.Complete || pair[0] == "" {
			continue
		}
		if settable = append(settable, a.path()); a.path() == "plugin.enabled" { // the operator's own plugin x stays on
			continue
		}
		narrow, wide := a.narrowAndWide(t)
		cfg := read(wide)
		n.Apply(cfg)
		if more := more(Increases(read(narrow), cfg, nil)); len(more) > 0 || !a.Restricts() {
			t.Errorf("%s restricts: %t, and %q is permitted although a project file restricts it", a.path(), a.Restricts(), more)
		}
	}
	if !slices.Equal(settable, ofProjects) {
		t.Errorf("a project file can set %q, want %q", settable, ofProjects)
	}
}

// TestEveryAttribute changes each attribute that limits tools to a value that permits more. The change must be an
// increase of privileges, and the intersection of both configurations must not have the wider value.
func TestEveryAttribute(t *testing.T) {
	read, _ := reader(t)
	seen := 0
	for _, a := range attributes() {
		if !a.Restricts() || a.path() == "bundled" || a.path() == "hook.plugin" || a.path() == "permissions.allow.show" { // TestBundledPlugins shows the first one; hooks are compared as a whole; an allow rule shows nothing
			continue
		}
		seen++
		narrow, wide := a.narrowAndWide(t)
		old, now := read(narrow), read(wide)
		if len(Increases(old, now, nil)) == 0 {
			t.Errorf("%s: this is no increase: from\n%sto\n%s", a.path(), narrow, wide)
		}
		both, taken := Intersect(now, old)
		if more := more(Increases(old, both, nil)); len(more) > 0 || len(taken) == 0 && !strings.HasPrefix(a.path(), "hook.") {
			t.Errorf("%s: the intersection takes away %q, and increases %q", a.path(), taken, more)
		}
		stays(t, &a, old, now)
	}
	if seen < 90 {
		t.Errorf("only %d attributes limit tools", seen)
	}
}

// stays checks that the narrow value of an attribute holds if only what is stored of its configuration is left. A lost
// configuration leaves the principals and endpoints of others, and no secrets.
func stays(t *testing.T, a *located, narrow, wide *config.Config) {
	t.Helper()
	if slices.Contains([]string{"hook", "principal", "issuer", "endpoint"}, a.in[min(1, len(a.in)-1)].Name) || a.path() == "audit.secrets" {
		return
	}
	text, err := json.Marshal(Stored(narrow))
	if err != nil {
		t.Fatal(err)
	}
	stored, left := new(config.Config), *wide
	if err := json.Unmarshal(text, stored); err != nil {
		t.Fatal(err)
	}
	KeepStored(&left, stored)
	if more := more(Increases(narrow, &left, nil)); len(more) > 0 {
		t.Errorf("%s: what is stored permits %q", a.path(), more)
	}
	same := *narrow
	if KeepStored(&same, stored); a.Name != "set" && len(Increases(&same, narrow, nil)) > 0 { // a stored rule sets nothing
		t.Errorf("%s: what is stored takes away %q", a.path(), Increases(&same, narrow, nil))
	}
}

// TestProcessOfEveryAttribute changes each attribute of a plugin and of the sandbox. The change must restart the
// plugin, unless the row of the attribute says that only the host uses it. Attributes of other blocks restart nothing.
func TestProcessOfEveryAttribute(t *testing.T) {
	read, _ := reader(t)
	for _, a := range attributes() {
		path := a.path()
		top, _, _ := strings.Cut(path, ".")
		ofProcess := top == "plugin" || top == "sandbox"
		if !ofProcess && !slices.Contains([]string{"host", "reload", "audit", "trust", "tool", "quota", "workspace", "tracing"}, top) {
			continue
		}
		// A plugin with optional or enabled can be absent. The attributes of a rollout are those of the host.
		if path == "plugin.optional" || path == "plugin.enabled" || strings.HasPrefix(path, "plugin.rollout.") {
			continue
		}
		one, other := a.narrowAndWide(t)
		if top != "plugin" {
			one, other = one+"plugin \"x\" {}\n", other+"plugin \"x\" {}\n"
		}
		want := !ofProcess || a.Host
		if strings.HasPrefix(path, "sandbox.deny") { // its globs are also denied paths of the sandbox
			want = false
		}
		if got := read(one).SameProcess(read(other), "x"); got != want {
			t.Errorf("%s: the same process: %t, want %t", path, got, want)
		}
	}
}

// TestEverySecret checks that no view of a configuration shows the value of an attribute whose row says that it is a
// secret.
func TestEverySecret(t *testing.T) {
	read, _ := reader(t)
	seen := 0
	for _, a := range attributes() {
		if !a.Secret {
			continue
		}
		seen++
		value := `"t0psecret"`
		if a.Type == "map(string)" {
			value = `{ a = "t0psecret" }`
		}
		c := read(a.write(value))
		if shown := c.Tree(config.TreeOptions{Defaults: true}).HCL(); strings.Contains(shown, "t0psecret") || !strings.Contains(shown, a.Name) {
			t.Errorf("%s is shown:\n%s", a.path(), shown)
		}
		for _, text := range Increases(read(""), c, nil) {
			if strings.Contains(text, "t0psecret") {
				t.Errorf("%s is in %q", a.path(), text)
			}
		}
	}
	if seen < 2 {
		t.Errorf("only %d secrets", seen)
	}
}

// TestAuditSecretsStayHidden checks that the description of a restriction has no value that the audit log masks.
func TestAuditSecretsStayHidden(t *testing.T) {
	t.Setenv("ATTRIBUTES_SECRET", "t0psecret")
	read, _ := reader(t)
	with, without := read(`audit { secrets = ["ATTRIBUTES_SECRET"] }`), read("")
	_, taken := Intersect(without, with)
	for _, text := range append(Increases(with, without, nil), taken...) {
		if !strings.HasPrefix(text, "audit.secrets ") || strings.Contains(text, "t0psecret") {
			t.Errorf("a restriction is described as %q", text)
		}
	}
	if len(taken) != 1 {
		t.Errorf("taken away: %q", taken)
	}
}
