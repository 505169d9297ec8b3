package admission

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/confinement"
)

const restricting = `
variable "glob" { default = "**/.env" }
locals { off = false }
host { on_ask = "deny" }
permissions {
  default = local.off ? "allow" : "ask"
  policy  = local.off ? "open" : "careful"
  deny "env" { path = [var.glob] }
}
sandbox {
  workspace = local.off ? "read-write" : "read-only"
  deny      = [var.glob]
}
tool "read" {
  enabled        = local.off
  max_concurrent = 2
}
plugin "read" {
  sandbox {
    network = local.off
    limits { memory = "1GiB" }
  }
}
trust { definitions = "approve" }
`

// TestRestrictionsStay makes a trusted configuration untrusted, in every way that a tool can. The restrictions of the
// trusted content must remain, even those that depend on variables.
func TestRestrictionsStay(t *testing.T) {
	remove := func(f *fixture) {
		if err := os.Remove(filepath.Join(f.ws, "toolhost.hcl")); err != nil {
			f.t.Fatal(err)
		}
	}
	for name, change := range map[string]func(*fixture){
		"variables":     func(f *fixture) { f.write("toolhost.hclvars", `glob = "none"`, 0o600) },
		"other file":    func(f *fixture) { f.write("toolhost.hcl", `plugin "bash" {}`, 0o600) },
		"empty file":    func(f *fixture) { f.write("toolhost.hcl", "", 0o600) },
		"invalid file":  func(f *fixture) { f.write("toolhost.hcl", "plugin", 0o600) },
		"removed":       remove,
		"another found": func(f *fixture) { remove(f); f.write("toolhost.hcl.json", "{}", 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			t.Chdir(f.ws)
			user := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "toolhost")
			for _, dir := range []string{user, filepath.Join(f.out, "plugins")} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			f.write(filepath.Join(user, "toolhost.hcl"), "plugin \"read\" {\n  sandbox { network = true }\n}\nplugin \"bash\" {}", 0o600)
			for _, plugin := range []string{"read", "bash"} {
				f.write(filepath.Join(f.out, "plugins", plugin), "", 0o700)
			}
			f.write("toolhost.hcl", restricting, 0o600)
			f.trust(f.source(config.Find("", "", os.Getenv)))
			change(f)
			cfg := f.open(f.source(config.Find("", "", os.Getenv)))
			if cfg.Untrusted == "" {
				t.Error("the changed configuration applies")
			}
			p := cfg.Permissions
			if p.Default != "ask" || p.Policy != "careful" || len(p.Project) != 1 || p.Project[0].Name != "env" || p.Project[0].Paths[0] != "**/.env" {
				t.Errorf("the permissions are %+v", p)
			}
			if s := cfg.Sandbox; s.Workspace != "read-only" || len(s.Deny) != 1 || cfg.Host.OnAsk != "deny" || !cfg.Trust.Approve {
				t.Errorf("the sandbox is %+v, on_ask %q, approve %t", s, cfg.Host.OnAsk, cfg.Trust.Approve)
			}
			if on := cfg.Tools["read"].Enabled; on == nil || *on {
				t.Error("the tool read is enabled")
			}
			if len(cfg.Plugins) != 1 || cfg.Plugins[0].Name != "read" {
				t.Fatalf("the plugins are %v", cfg.Plugins)
			}
			if is := confinement.Profile(&cfg.Plugins[0]); is.Network || is.Limits.Memory != 1<<30 {
				t.Errorf("the profile of read is %+v", is)
			}
			if name != "empty file" {
				return
			}
			// If a person accepts the change, the changed file applies completely.
			f.trust(f.source("toolhost.hcl"))
			if cfg := f.open(f.source("toolhost.hcl")); cfg.Untrusted != "" || cfg.Host.OnAsk != "" || len(cfg.Plugins) != 2 {
				t.Errorf("the accepted change does not apply: %s", cfg.Untrusted)
			}
		})
	}
}

// TestHooksStay checks that a lost hook denies the calls that it judged, and no others.
func TestHooksStay(t *testing.T) {
	f := newFixture(t)
	hook := func(name, more string) string {
		return "hook \"" + name + "\" {\n  command = [\"/bin/true\"]\n  " + more + "\n}\n"
	}
	path := f.write("toolhost.hcl", hook("guard", `on = ["before_call"]`)+hook("result", "on = [\"after_call\"]\n  tools = [\"bash\"]")+hook("notice", `on = ["register"]`), 0o600)
	f.trust(f.source(path))
	f.write("toolhost.hclvars", "", 0o600)
	lost := func() (out string) {
		for _, h := range f.open(f.source(path)).Hooks {
			if !strings.Contains(h.Refused, "toolhost.hclvars changed since it was trusted") {
				t.Errorf("hook %s is refused for %q", h.Name, h.Refused)
			}
			out += fmt.Sprintf("%s%s%s ", h.Name, h.On, h.Tools)
		}
		return out
	}
	if is, want := lost(), "guard[before_call][] result[before_call][bash] "; is != want {
		t.Errorf("the hooks are %q, want %q", is, want)
	}
	// A decision that another version wrote in another form is no reason to apply no restrictions.
	store := filepath.Join(f.state, "trust.json")
	text, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	f.write(store, strings.Replace(string(text), `"permits"`, `"other"`, 1), 0o600)
	if _, err := f.source(path).Open(); err == nil || !strings.Contains(err.Error(), "another version of toolhost wrote them") {
		t.Errorf("the error is %v", err)
	}
}
