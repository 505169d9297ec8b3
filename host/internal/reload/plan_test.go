package reload

import (
	"strings"
	"testing"
	"testing/synctest"

	"toolhost.dev/host/internal/testbuilder"
)

// TestPlan checks what a plan reports, and that it changes nothing.
func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		words  string // of the plugin p
		text   string // of the configuration after the block of p
		block  string // in the block of p
		action string // of the only plugin in the plan; empty without a plugin
		// refused is the reason in the plan, or in the plan of the plugin.
		refused string
		check   func(t *testing.T, p *Plan)
	}{
		"nothing": {"version=1.0.0", "", "", "", "", func(t *testing.T, p *Plan) {
			if p.Changes() || p.Fails() {
				t.Errorf("%+v", p)
			}
		}},
		"a new version": {"version=2.0.0 add=extra", "", "", "change", "", func(t *testing.T, p *Plan) {
			if q := p.Plugins[0]; q.From.Version != "1.0.0" || q.To.Version != "2.0.0" || q.From.SHA256 == q.To.SHA256 || q.Configured || len(q.Changes) != 1 || !p.Changes() {
				t.Errorf("%+v", q)
			}
		}},
		"a bad version": {"start=exit", "", "", "refuse", "exit status 3", func(t *testing.T, p *Plan) {
			if p.Changes() || !p.Fails() {
				t.Errorf("%+v", p)
			}
		}},
		"other settings": {"version=1.0.0", "", "config {\n greeting = \"hi\"\n}", "change", "", func(t *testing.T, p *Plan) {
			if q := p.Plugins[0]; !q.Configured || len(p.Settings) != 1 || !strings.Contains(p.Settings[0].Path, "greeting") {
				t.Errorf("%+v, %+v", q, p.Settings)
			}
		}},
		"bad settings":      {"version=1.0.0", "", "config {\n limit = -1\n}", "refuse", "The limit is negative.", nil},
		"a mistake":         {"version=1.0.0", "nonsense", "", "", "toolhost.hcl:", nil},
		"a misspelled tool": {"version=1.0.0", "tool \"ekho\" {\n timeout = \"1s\"\n}\n", "", "", "ekho", nil},
		"more privileges": {"version=1.0.0", "", "sandbox {\n exec = true\n}", "change", "", func(t *testing.T, p *Plan) {
			if len(p.Increases) != 1 || len(p.Widening) != 1 || p.NeedsApproval {
				t.Errorf("%+v", p)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "version=1.0.0", "")
				f.version()
				before := f.Current()
				f.Write("p", tc.words)
				f.Configure(f.Plugin("p", tc.block) + tc.text)
				p, err := f.Plan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				action, refused := "", p.Refused
				if len(p.Plugins) == 1 {
					action = p.Plugins[0].Action
					if p.Plugins[0].Refused != "" {
						refused = p.Plugins[0].Refused
					}
				}
				if len(p.Plugins) > 1 || action != tc.action || (refused == "") != (tc.refused == "") || !strings.Contains(refused, tc.refused) {
					t.Errorf("%+v", p)
				}
				if tc.check != nil {
					tc.check(t, p)
				}
				synctest.Wait()
				if f.Current() != before || f.ConfigRefusal() != "" || f.Refusal("p") != "" || len(f.Programs.Running()) != 1 || f.published != 0 {
					t.Error("the plan changed the host")
				}
			})
		})
	}
}

// TestPlanWithoutAHost checks with what a plan compares a configuration if no host runs: with the one that a host used
// last.
func TestPlanWithoutAHost(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "version=1.0.0")
	d.Write("q", "name=q version=1.0.0")
	plan := func(t *testing.T) *Plan {
		t.Helper()
		f, _ := prepared(t, d)
		source := d.Source()
		empty := source
		empty.Empty = true
		cfg, err := empty.Open()
		if err != nil {
			t.Fatal(err)
		}
		launcher, err := f.Builder.Launcher(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context(), cfg, launcher); err != nil {
			t.Fatal(err)
		}
		p, err := f.PlanFor(t.Context(), source, true)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	d.Configure(d.Plugin("p", "") + d.Plugin("q", `field = "q"`))
	t.Run("no host ran before", func(t *testing.T) {
		if p := plan(t); p.ComparedWith != "" || len(p.Plugins) != 2 || p.Plugins[0].Action != "add" || len(p.Increases) != 0 {
			t.Errorf("%+v", p)
		}
	})
	t.Run("a host runs", func(t *testing.T) { start(t, d).KeepApplied() })
	t.Run("nothing changed", func(t *testing.T) {
		if p := plan(t); p.Changes() || p.Fails() || !strings.HasPrefix(p.ComparedWith, "the last used configuration, of ") {
			t.Errorf("%+v", p)
		}
	})
	d.Configure(d.Plugin("p", "sandbox {\n exec = true\n}"))
	d.Write("p", "version=2.0.0 add=extra")
	t.Run("something changed", func(t *testing.T) {
		p := plan(t)
		if len(p.Plugins) != 2 || len(p.Increases) != 1 {
			t.Fatalf("%+v", p)
		}
		changed, removed := p.Plugins[0], p.Plugins[1]
		if changed.Action != "change" || changed.From.Version != "1.0.0" || changed.To.Version != "2.0.0" || !changed.Configured || len(changed.Changes) != 1 {
			t.Errorf("%+v", changed)
		}
		if removed.Action != "remove" || removed.Name != "q" {
			t.Errorf("%+v", removed)
		}
	})
}
