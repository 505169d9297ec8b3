package reload

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/testbuilder"
)

// TestRefusedConfigurations checks that a configuration with a mistake changes nothing, and that its correction is
// applied.
func TestRefusedConfigurations(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"syntax":             {"plugin {", "toolhost.hcl:"},
		"unknown setting":    {"host {\n speed = 9\n}\n", "speed"},
		"a missing program":  {"plugin \"q\" {\n path = \"/nonexistent/q\"\n}\n", "/nonexistent/q does not exist"},
		"a plugin that ends": {"plugin \"q\" {\n path = \"DIR/q\"\n}\n", "the configuration is refused because a part of it does not work"},
		"rejected settings":  {"plugin \"q\" {\n path = \"DIR/p\"\n field = \"q\"\n config {\n  limit = -1\n }\n}\n", "The limit is negative."},
		"a taken name":       {"plugin \"q\" {\n path = \"DIR/p\"\n}\n", "echo"},
		"an unknown tool":    {"permissions {\n allow \"r\" {\n  tool = \"ekho\"\n }\n}\n", `Unknown tool "ekho"`},
		"a rule of no tool":  {"permissions {\n deny \"r\" {\n  tool = \"ekho\"\n }\n}\n", `Unknown tool "ekho"`},
		"a lost switch":      {"tool \"ekho\" {\n enabled = false\n}\n", `Unknown tool "ekho"`},
		"another program":    {"permissions {\n deny \"r\" {\n  path = \"Read(./.env)\"\n }\n}\n", "is a rule of another program"},
		"a misspelled block": {"tool \"ekho\" {\n timeout = \"1s\"\n}\n", "ekho"},
		"a hook":             {"hook \"h\" {\n on = [\"before_call\"]\n command = [\"/nonexistent/hook\"]\n}\n", "/nonexistent/hook"},
		"a hook of no one":   {"hook \"h\" {\n on = [\"before_call\"]\n plugin = \"q\"\n}\n", "q"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "version=1.0.0", "")
				f.version()
				f.Write("q", "name=q start=exit")
				before := f.Current()
				f.Configure(f.Plugin("p", "") + strings.ReplaceAll(tc.text, "DIR", f.Path+"/bin"))
				for _, opts := range []Options{{}, Automatic} {
					r := f.reload(opts)
					if opts.automatic && r.Config.Refused == "" && f.ConfigRefusal() != "" {
						continue // it was refused before
					}
					says(t, "refusal", r.Config.Refused, tc.want)
					if !r.Refused() || r.Config.Changed || f.ConfigRefusal() != r.Config.Refused {
						t.Errorf("%+v", r.Config)
					}
				}
				synctest.Wait()
				f.unchanged(before, "1.0.0")
				if f.published != 0 {
					t.Error("the configuration was published")
				}
				f.Configure(f.Plugin("p", "") + "host {\n timeout = \"9s\"\n}\n")
				if r := f.reload(Options{}); !r.Config.Changed || r.Refused() || f.ConfigRefusal() != "" || f.published != 1 {
					t.Errorf("%+v, refusal %q", r, f.ConfigRefusal())
				}
			})
		})
	}
}

// TestEmptyConfiguration checks that a file that is empty for a moment does not remove everything.
func TestEmptyConfiguration(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	before := f.Current()
	if err := os.WriteFile(f.Config(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, "refusal", f.reload(Options{}).Config.Refused, "is empty; it is being written")
	f.unchanged(before, "1.0.0")
}

// TestPluginsOfAConfiguration checks what a reload does with added, changed and removed plugins.
func TestPluginsOfAConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0", "")
		f.version()
		f.Write("q", "name=q version=7.0.0")
		f.Configure(f.Plugin("p", "") + f.Plugin("q", `field = "q"`))
		if p := one(t, f.reload(Options{}), Added); p.Name != "q" || p.To != "7.0.0" || f.Current().Registry.Find("q:echo") == nil {
			t.Errorf("%+v", p)
		}
		first := f.Programs.Running()[0]
		f.Configure(f.Plugin("p", "config {\n greeting = \"hi\"\n}") + f.Plugin("q", `field = "q"`))
		if p := one(t, f.reload(Options{}), Swapped); p.Name != "p" {
			t.Errorf("%+v", p)
		}
		says(t, "where", f.call("where", "{}").Output, "greeting=hi")
		f.Configure(f.Plugin("p", "config {\n greeting = \"hi\"\n}") + "# only a comment\n")
		if p := one(t, f.reload(Options{}), Removed); p.Name != "q" || p.From != "7.0.0" || f.Current().Registry.Find("q:echo") != nil {
			t.Errorf("%+v", p)
		}
		synctest.Wait()
		if n := len(f.Programs.Running()); n != 1 || !first.Ended() {
			t.Errorf("%d programs run", n)
		}
	})
}

// TestPartOfAConfigurationFails checks that no part of a configuration is applied if one of its plugins fails, but that
// a changed program of another plugin is.
func TestPartOfAConfigurationFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0", "")
		f.version()
		f.Write("p", "version=2.0.0")
		f.Write("q", "start=exit")
		f.Configure(f.Plugin("p", "") + f.Plugin("q", "") + "host {\n timeout = \"9s\"\n}\n")
		r := f.reload(Options{})
		if len(r.Plugins) != 1 || r.Plugins[0].Name != "p" || r.Plugins[0].Outcome != Swapped || r.Config.Changed || r.Config.Refused == "" {
			t.Errorf("%+v", r)
		}
		if v := f.version(); v != "2.0.0" || f.Current().Plugin("q") != nil {
			t.Errorf("version %s", v)
		}
	})
}

// TestRestrictionsOfARefusedConfiguration checks that a refused configuration takes rights away, and that its
// correction is applied as a whole.
func TestRestrictionsOfARefusedConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0", "")
		f.version()
		restricted := "tool \"echo\" {\n enabled = false\n}\n"
		f.Configure(f.Plugin("p", "") + restricted + "plugin \"q\" {\n path = \"/nonexistent/q\"\n}\n")
		r := f.reload(Options{})
		says(t, "refusal", r.Config.Refused, "/nonexistent/q does not exist", "The restrictions in it apply already")
		if len(r.Config.Restricted) != 1 || f.Current().Registry.Find("echo").Enabled || !f.Current().Registry.Find("where").Enabled {
			t.Errorf("%+v", r.Config)
		}
		if res := f.call("echo", `{"text":"x"}`); res.Error == nil {
			t.Error("the tool can be called")
		}
		f.Configure(f.Plugin("p", "") + restricted)
		if r := f.reload(Options{}); r.Refused() || f.ConfigRefusal() != "" || f.Current().Registry.Find("echo").Enabled {
			t.Errorf("%+v", r.Config)
		}
		// The old configuration enables the tool again, which increases privileges.
		f.Configure(f.Plugin("p", ""))
		says(t, "refusal", f.reload(Automatic).Config.Refused, "increases privileges")
		if r := f.reload(Options{}); r.Refused() || !f.Current().Registry.Find("echo").Enabled {
			t.Errorf("%+v", r.Config)
		}
	})
}

// TestPluginWithoutItsRights checks that a plugin that does not start without a right is stopped if a refused
// configuration takes the right away.
func TestPluginWithoutItsRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "version=1.0.0 needs=exec", "sandbox {\n exec = true\n}")
		f.version()
		f.Configure(f.Plugin("p", "") + "plugin \"q\" {\n path = \"/nonexistent/q\"\n}\n")
		f.reload(Options{})
		synctest.Wait()
		if n := len(f.Programs.Running()); n != 0 {
			t.Errorf("%d programs run", n)
		}
		if res := f.call("where", "{}"); res.Error == nil {
			t.Error("the plugin serves calls")
		}
		contains(t, "problems", f.Current().Problems, "takes rights away from it, and it does not start without them")
	})
}

// TestPrivilegeIncreases checks which reloads apply a configuration that allows more. The configuration that serves
// decides.
func TestPrivilegeIncreases(t *testing.T) {
	const more = "sandbox {\n  exec = true\n}"
	for name, tc := range map[string]struct {
		old, new string
		opts     Options
		refused  string // empty if the configuration is applied
	}{
		"automatic":                          {"", "", Automatic, "To apply it, run toolhost config reload"},
		"requested":                          {"", "", Options{}, ""},
		"allowed":                            {"allow", "", Automatic, ""},
		"not approved":                       {"approve", "", Options{}, "To apply it, run toolhost config reload --approve-privileges"},
		"approved":                           {"approve", "", Options{ApprovePrivileges: true}, ""},
		"it cannot allow itself":             {"", "allow", Automatic, "increases privileges"},
		"it cannot drop the need to approve": {"approve", "explicit", Options{}, "increases privileges"},
	} {
		t.Run(name, func(t *testing.T) {
			setting := func(value string) string {
				if value == "" {
					return ""
				}
				return "reload {\n privilege_increases = \"" + value + "\"\n}\n"
			}
			f := begin(t, "version=1.0.0", "")
			if tc.old != "" {
				f.Configure(f.Plugin("p", "") + setting(tc.old))
				f.reload(Options{})
			}
			f.Configure(f.Plugin("p", more) + setting(tc.new))
			r := f.reload(tc.opts)
			exec := f.Current().Plugin("p").Confinement.Exec
			if applied := exec != nil && *exec; applied != (tc.refused == "") || r.Refused() == applied {
				t.Errorf("applied: %t, %+v", applied, r.Config)
			}
			says(t, "refusal", r.Config.Refused, tc.refused)
		})
	}
}

// TestApproval checks that a version with changed definitions is refused until they are approved, if the configuration
// demands it.
func TestApproval(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	f.Configure(f.Plugin("p", "") + "trust {\n definitions = \"approve\"\n}\n")
	f.reload(Options{})
	f.version()
	f.Write("p", "version=2.0.0 reword=yes")
	p := one(t, f.reload(Options{}), Refused)
	says(t, "refusal", p.Refused, "differ from the approved ones", "toolhost plugin approve p")
	if v := f.version(); v != "1.0.0" {
		t.Errorf("version %s", v)
	}
	// Another host that starts with this version withholds the tool.
	other := start(t, f.Dir)
	if e := other.Current().Registry.Find("echo"); e.PendingApproval == "" {
		t.Errorf("%+v", e)
	}
	if err := f.Builder.Approvals(nil).Approve("p", other.Current().Plugin("p").Description().Tools); err != nil {
		t.Fatal(err)
	}
	other.Renew()
	if e := other.Current().Registry.Find("echo"); e.PendingApproval != "" {
		t.Errorf("%+v", e)
	}
	one(t, f.reload(Options{}), Swapped)
}

// TestRoleOfUnapprovedTool checks that a new tool that is not approved takes no role from a tool of another plugin, not
// even the one that follows from its name.
func TestRoleOfUnapprovedTool(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "only=yes add=other")
	d.Write("q", "only=yes add=peek role=read")
	d.Configure(d.Plugin("p", "") + d.Plugin("q", "") + "trust {\n definitions = \"approve\"\n}\n")
	start(t, d)
	d.Write("p", "version=2.0.0 only=yes add=read")
	r := start(t, d).Current().Registry
	if e := r.Find("read"); e == nil || e.PendingApproval == "" || r.RoleName(tool.RoleRead) != "peek" {
		t.Errorf("%q has the role", r.RoleName(tool.RoleRead))
	}
}

// TestReloadsAreRecorded checks the entries of reloads in the audit log.
func TestReloadsAreRecorded(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	f.reload(Automatic) // it changes nothing, and nobody requested it
	f.Write("p", "version=2.0.0")
	f.reload(Options{By: "alice"})
	f.Write("p", "start=exit")
	f.reload(Options{By: "bob", Plugins: []string{"p"}})
	entries := f.audited("(reload)")
	if len(entries) != 2 {
		t.Fatalf("%+v", entries)
	}
	for i, want := range []struct{ by, decision, text string }{{"alice", "allow", "p swapped"}, {"bob", "deny", `"requested":["p"]`}} {
		if e := entries[i]; e.Principal != want.by || e.Decision != want.decision || e.Layer != LayerAdministration || !strings.Contains(string(e.Arguments), want.text) {
			t.Errorf("%+v, %s", e, e.Arguments)
		}
	}
}

// audited returns the entries of the audit log about an action, oldest first.
func (f *fixture) audited(what string) (out []state.AuditEntry) {
	f.t.Helper()
	if err := f.Builder.State.Flush(); err != nil {
		f.t.Fatal(err)
	}
	all, err := f.Builder.State.AuditLog(state.AuditQuery{Limit: 100})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range all {
		if e.Tool == what {
			out = append(out, e)
		}
	}
	return out
}

// TestStartWithInvalidRules checks that a host with rules that do not match its tools does not start.
func TestStartWithInvalidRules(t *testing.T) {
	f := begin(t, "version=1.0.0", "")
	f.Configure(f.Plugin("p", "") + "permissions {\n deny \"r\" {\n  tool = \"ekho\"\n }\n}\n")
	other, cfg := prepared(t, f.Dir)
	launcher, err := other.Builder.Launcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(t.Context(), cfg, launcher); err == nil || other.Current() == nil {
		t.Errorf("%v", err)
	}
}
