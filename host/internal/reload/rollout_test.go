package reload

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/rollout"
)

// halfway is a rollout block without shadow calls and with one step.
const halfway = "rollout {\n shadow = 0\n steps = [50]\n pause = \"1m\"\n calls = 5\n}"

// rolling returns a reloader that applies the rules of rollouts, with the rollout of version 2.0.0 of its plugin.
func rolling(t *testing.T, words, block string) *fixture {
	t.Helper()
	f := begin(t, "version=1.0.0", block)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go f.CheckRollouts(ctx)
	f.version()
	f.Write("p", "version=2.0.0 "+words)
	if p := one(t, f.reload(Options{}), RollingOut); p.From != "1.0.0" || p.To != "2.0.0" {
		t.Errorf("%+v", p)
	}
	return f
}

// allSessions is the number of sessions of a test. With half of the sessions on each version, it is practically
// impossible that one version serves all of them.
const allSessions = 40

// sessions calls a tool in all sessions. It returns the number of sessions that each version served.
func (f *fixture) sessions(name, args string) map[string]int {
	served := make(map[string]int)
	for i := range allSessions {
		res := f.begun(fmt.Sprint("s", i), name, args).Run(f.t.Context(), answer.Nobody{})
		if res.Error != nil && res.Error.Kind != tool.Internal {
			f.t.Errorf("%+v", res.Error)
		}
		served[res.Run.PluginVersion]++
	}
	return served
}

func (f *fixture) state() rollout.Status {
	f.t.Helper()
	all := f.Builder.Calls.Rollouts.Status()
	if len(all) != 1 {
		f.t.Fatalf("%d rollouts", len(all))
	}
	return all[0]
}

// TestPromotion checks that a new version serves a share of the sessions for the time of a step, and then all.
func TestPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rolling(t, "add=extra", halfway)
		first := f.sessions("where", "{}")
		if first["1.0.0"] == 0 || first["2.0.0"] == 0 {
			t.Errorf("%v", first)
		}
		if again := f.sessions("where", "{}"); again["2.0.0"] != first["2.0.0"] {
			t.Errorf("sessions changed their version: %v, then %v", first, again)
		}
		time.Sleep(59 * time.Second)
		if st := f.state(); st.State != rollout.Stepping || st.Share != 50 || f.Current().Registry.Find("extra") != nil {
			t.Errorf("%+v", st)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st := f.state(); st.State != rollout.Promoted || st.Why != "all steps passed" {
			t.Errorf("%+v", st)
		}
		if all := f.sessions("where", "{}"); all["2.0.0"] != allSessions || f.Current().Registry.Find("extra") == nil {
			t.Errorf("%v", all)
		}
		synctest.Wait()
		if running := f.Programs.Running(); len(running) != 1 || running[0].Version() != "2.0.0" {
			t.Errorf("%d programs run", len(running))
		}
		if e := f.audited("(rollout promote)"); len(e) != 1 || e[0].Error != "" {
			t.Errorf("%+v", e)
		}
	})
}

// TestAbort checks that a version that fails more often is stopped, is not tried again automatically, and does not
// start with the next host.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rolling(t, "fails=yes", halfway)
		f.sessions("echo", `{"text":"x"}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st := f.state(); st.State != rollout.Aborted || !strings.HasPrefix(st.Why, "error_ratio: ") {
			t.Errorf("%+v", st)
		}
		says(t, "refusal", f.Refusal("p"), "its rollout was aborted: error_ratio", "also after a restart")
		if all := f.sessions("where", "{}"); all["1.0.0"] != allSessions {
			t.Errorf("%v", all)
		}
		if r := f.reload(Automatic); len(r.Plugins) != 0 {
			t.Errorf("an automatic reload tried it again: %+v", r)
		}
		next := start(t, f.Dir)
		if held := next.Current().Plugin("p").Held(); held == nil || !strings.HasPrefix(held.Aborted, "error_ratio") || next.version() != "1.0.0" {
			t.Errorf("held %+v, version %s", held, next.version())
		}
		says(t, "refusal of the next host", next.Refusal("p"), "its rollout was aborted: error_ratio")
		one(t, f.reload(Options{}), RollingOut)
	})
}

// TestShadow checks that a version with other results never serves a call.
func TestShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rolling(t, "", "rollout {\n shadow = 100\n pause = \"1m\"\n calls = 100\n}")
		for range 25 {
			if v := f.version(); v != "1.0.0" {
				t.Errorf("version %s serves", v)
			}
			time.Sleep(time.Second) // time for the call on the new version
		}
		st := f.state()
		if st.State != rollout.Aborted || !strings.HasPrefix(st.Why, "differences: ") || len(st.Cases) == 0 || st.Cases[0].Tool != "where" {
			t.Errorf("%+v", st)
		}
	})
}

// TestActions checks what an operator can do with a rollout.
func TestActions(t *testing.T) {
	for name, tc := range map[string]struct {
		actions string
		state   rollout.State // after three steps' time
		serves  string        // the version of all sessions; empty if both versions serve
		fails   string        // the error of the last action
	}{
		"pause":            {"pause", rollout.Stepping, "", ""},
		"pause and resume": {"pause resume", rollout.Promoted, "2.0.0", ""},
		"promote":          {"promote", rollout.Promoted, "2.0.0", ""},
		"abort":            {"abort", rollout.Aborted, "1.0.0", ""},
		"after the end":    {"abort promote", rollout.Aborted, "1.0.0", "has ended (aborted: by alice)"},
		"unknown action":   {"promot", rollout.Promoted, "2.0.0", `unknown action "promot"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rolling(t, "", halfway)
				f.sessions("where", "{}")
				var err error
				for action := range strings.FieldsSeq(tc.actions) {
					err = f.Rollout("p", action, "alice")
				}
				if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("%v", err)
				}
				if served := f.sessions("where", "{}"); (tc.actions == "promote" || tc.actions == "abort") && served[tc.serves] != allSessions {
					t.Errorf("right after the action: %v", served)
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if st := f.state(); st.State != tc.state {
					t.Errorf("%+v", st)
				}
				if served := f.sessions("where", "{}"); tc.serves != "" && served[tc.serves] != allSessions || tc.serves == "" && len(served) != 2 {
					t.Errorf("%v", served)
				}
			})
		})
	}
}

// TestActionsWithoutARollout checks the errors for plugins that are unknown or have no rollout.
func TestActionsWithoutARollout(t *testing.T) {
	f := begin(t, "version=1.0.0", halfway)
	for plugin, want := range map[string]string{"p": "plugin p has no rollout", "q": `unknown plugin "q"`} {
		if err := f.Rollout(plugin, rollout.ActionAbort, "alice"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", plugin, err)
		}
	}
}

// TestObsoleteRollout checks that a rollout ends with the version that it is about.
func TestObsoleteRollout(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(f *fixture)
		why    string
		serves string // the only version that serves; empty if another rollout begins
	}{
		"another version": {func(f *fixture) { f.Write("p", "version=3.0.0") }, "another version came", ""},
		"it is restored":  {func(f *fixture) { f.Write("p", "version=1.0.0") }, "the old binary was restored", "1.0.0"},
		"other settings":  {func(f *fixture) { f.Configure(f.Plugin("p", halfway+"\nconfig {\n greeting = \"hi\"\n}")) }, "the plugin was replaced or removed", "1.0.0"},
		"no rollout": {func(f *fixture) {
			f.Configure(f.Plugin("p", ""))
			f.Write("p", "version=3.0.0")
		}, "the plugin was replaced or removed", "3.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rolling(t, "", halfway)
				f.sessions("where", "{}")
				first := f.Builder.Calls.Rollouts.Last("p")
				tc.change(f)
				f.reload(Options{})
				synctest.Wait()
				if st := first.Status(); st.State != rollout.Aborted || st.Why != tc.why {
					t.Errorf("%+v", st)
				}
				for _, p := range f.Programs.Running() {
					if p.Version() == "2.0.0" {
						t.Error("the candidate runs")
					}
				}
				if served := f.sessions("where", "{}"); tc.serves != "" && served[tc.serves] != allSessions || served["2.0.0"] != 0 {
					t.Errorf("%v", served)
				}
			})
		})
	}
}

// TestRolloutInterrupted checks that the next host continues with the old version and begins the rollout again.
func TestRolloutInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rolling(t, "", halfway)
		f.Close()
		next := start(t, f.Dir)
		if held := next.Current().Plugin("p").Held(); held == nil || held.Aborted != "" || next.version() != "1.0.0" {
			t.Errorf("%+v", held)
		}
		begun := false
		next.DiskChanged(func() { begun = true })
		if !begun {
			t.Error("the first check of the files finds no change")
		}
		one(t, next.reload(Automatic), RollingOut)
	})
}

// TestDependentsOfACandidate checks that a reload of another plugin does not end a rollout.
func TestDependentsOfACandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rolling(t, "", halfway)
		f.Write("q", "name=q")
		f.Configure(f.Plugin("p", halfway) + f.Plugin("q", `field = "q"`))
		if r := f.reload(Options{}); len(r.Plugins) != 1 || r.Plugins[0].Outcome != Added {
			t.Errorf("%+v", r)
		}
		if st := f.state(); st.State != rollout.Stepping {
			t.Errorf("%+v", st)
		}
	})
}
