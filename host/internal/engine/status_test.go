package engine

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/help"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/testbuilder"
)

// alarms returns the kinds of the current alarms.
func (f *fixture) alarms() (kinds []string) {
	for _, a := range f.Signals().Alarms {
		kinds = append(kinds, a.Kind)
	}
	return kinds
}

// TestAlarms checks about what an operator is informed, and that an alarm ends with its cause.
func TestAlarms(t *testing.T) {
	for name, tc := range map[string]struct {
		make, end func(f *fixture)
		kind      string
	}{
		"nothing": {func(*fixture) {}, func(*fixture) {}, ""},
		"a refused configuration": {
			func(f *fixture) { f.Configure("nonsense"); f.reload() },
			func(f *fixture) { f.Configure(f.Plugin("p", "")); f.reload() }, AlarmConfig,
		},
		"a refused program": {
			func(f *fixture) { f.Write("p", "start=exit"); f.reload() },
			func(f *fixture) { f.Write("p", "version=1.0.0"); f.reload() }, AlarmRefused,
		},
		"a suspended plugin": {
			func(f *fixture) {
				f.Write("p", "start=exit")
				for range 6 {
					if res := f.call("a", "die", "{}"); res.Error == nil {
						f.t.Error("the call succeeded")
					}
				}
			},
			func(f *fixture) {
				f.Write("p", "version=1.0.0")
				time.Sleep(time.Minute)
				succeeds(f.t, f.call("a", "where", "{}"), "pid=")
			}, AlarmSuspended,
		},
		"an unhealthy plugin": {
			func(f *fixture) { f.Programs.Running()[0].Sicken("hot") },
			func(f *fixture) { f.Programs.Running()[0].Sicken("") }, AlarmStuck,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "")
				succeeds(t, f.call("a", "where", "{}"), "pid=")
				tc.make(f)
				time.Sleep(signalsLife)
				seen := f.Signals()
				if (len(seen.Alarms) == 0) != (tc.kind == "") || tc.kind != "" && seen.Alarms[0].Kind != tc.kind {
					t.Fatalf("%+v", seen.Alarms)
				}
				time.Sleep(time.Minute)
				if tc.kind != "" {
					if now := f.Signals().Alarms; len(now) != 1 || !now[0].Since.Equal(seen.Alarms[0].Since) {
						t.Errorf("%+v", now)
					}
				}
				tc.end(f)
				time.Sleep(signalsLife)
				if kinds := f.alarms(); len(kinds) != 0 {
					t.Errorf("alarms after the end: %q", kinds)
				}
			})
		})
	}
}

func (f *fixture) reload() *ReloadReport {
	f.t.Helper()
	r, err := f.Reload(f.t.Context(), ReloadOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// TestSignalsAreCached checks that many readers ask the plugins only every two seconds.
func TestSignalsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "")
		succeeds(t, f.call("a", "where", "{}"), "pid=")
		f.Signals()
		f.Programs.Running()[0].Sicken("hot")
		time.Sleep(signalsLife - time.Millisecond)
		if kinds := f.alarms(); len(kinds) != 0 {
			t.Errorf("%q", kinds)
		}
		time.Sleep(time.Millisecond)
		if kinds := f.alarms(); !slices.Equal(kinds, []string{AlarmStuck}) {
			t.Errorf("%q", kinds)
		}
	})
}

// TestStatus checks the state of a host with a plugin that runs and one that is missing.
func TestStatus(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "version=1.0.0")
	d.Write("q", "start=exit")
	d.Configure(d.Plugin("p", "") + d.Plugin("q", `field = "q"`) + "tool \"echo\" {\n enabled = false\n}\nquota \"principal:*\" {\n calls_per_minute = 10\n}\n")
	f := open(t, d, Options{})
	succeeds(t, f.call("a", "count", "{}"), "1")
	st := f.Status()
	if st.Version != Version || len(st.Plugins) != 2 || len(st.Sessions) != 1 || len(st.Problems) != 1 || len(st.Calls) != 0 || len(st.Quotas) == 0 {
		t.Fatalf("%+v", st)
	}
	if p := st.Plugins[0]; !p.Running || p.Starts != 1 || p.Version != "1.0.0" || p.Health == nil || p.Health.Status != tool.Healthy || !slices.Contains(p.Tools, "echo") {
		t.Errorf("%+v", p)
	}
	if p := st.Plugins[1]; p.Running || p.Error == "" || p.Health != nil {
		t.Errorf("%+v", p)
	}
	contains(t, "problems", st.Problems, "exit status 3")
	if s := f.StatusFor(&principal.Principal{Name: "other"}); len(s.Sessions) != 0 {
		t.Errorf("another principal sees %+v", s.Sessions)
	}
	stats := f.Stats()
	if len(stats.Tools) != 1 || stats.Tools[0].Name != "count" || len(stats.Plugins) != 2 {
		t.Errorf("%+v", stats)
	}
	tools := f.Tools()
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.FullName == "echo" })
	if i < 0 || tools[i].Enabled || tools[i].FunctionName != "echo" || !slices.Equal(tools[i].Parameters(), []string{"text"}) {
		t.Errorf("%+v", tools)
	}
	if n := len(slices.Collect(f.AllTools())); n != len(tools) {
		t.Errorf("%d of %d tools", n, len(tools))
	}
}

// TestNewProblems checks that a host with a short life reports a broken plugin only once.
func TestNewProblems(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "start=exit")
	d.Configure(d.Plugin("p", ""))
	f := open(t, d, Options{})
	if first, again := f.NewProblems(), f.NewProblems(); len(first) != 1 || len(again) != 0 {
		t.Errorf("%q, then %q", first, again)
	}
}

// TestControl checks the operations that other processes request.
func TestControl(t *testing.T) {
	f := begin(t, "")
	do := func(op string, args any) (any, error) {
		t.Helper()
		b, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return f.control(t.Context(), op, b)
	}
	ok := func(op string, args any) any {
		t.Helper()
		out, err := do(op, args)
		if err != nil {
			t.Errorf("%s: %v", op, err)
		}
		return out
	}
	ok(control.OpEnable, control.EnableArgs{Name: "echo"})
	if f.Current().Registry.Find("echo").Enabled {
		t.Error("the tool is enabled")
	}
	f.Write("p", "version=2.0.0")
	if p, _ := ok(control.OpPlan, nil).(*reload.Plan); p == nil || len(p.Plugins) != 1 {
		t.Errorf("%+v", p)
	}
	if r, _ := ok(control.OpReload, reload.Options{}).(*reload.Report); r == nil || len(r.Plugins) != 1 || r.Plugins[0].Outcome != reload.Swapped {
		t.Errorf("%+v", r)
	}
	ok(control.OpRenew, nil)
	if st, _ := ok(control.OpStatus, nil).(RemoteStatus); st.PID == 0 || len(st.Plugins) != 1 {
		t.Errorf("%+v", st)
	}
	if st, _ := ok(control.OpStats, nil).(RemoteStats); st.PID == 0 || len(st.Plugins) != 1 {
		t.Errorf("%+v", st)
	}
	ok(control.OpSupervises, nil)
	for op, args := range map[string]any{
		control.OpEnable: control.EnableArgs{Name: "unknown"}, control.OpRollback: control.RollbackArgs{ID: 4711}, control.OpRollout: control.RolloutArgs{Plugin: "p", Action: "abort"},
		control.OpFleet: map[string]string{"operation": "status"}, "unknown": nil, control.OpReload: "text",
	} {
		if _, err := do(op, args); err == nil {
			t.Errorf("%s: no error", op)
		}
	}
}

// TestSearch checks that a search finds only tools that the caller may call.
func TestSearch(t *testing.T) {
	f := begin(t, "endpoint \"small\" {\n tools = [\"where\"]\n}\npermissions {\n deny \"r\" {\n tool = \"fail\"\n }\n}\n")
	search := func(words, endpoint string) (names []string) {
		t.Helper()
		found, err := f.Search(SearchQuery{Query: help.Query{Words: words, Limit: 20}, Endpoint: endpoint})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found.Tools {
			names = append(names, x.FullName)
		}
		return names
	}
	if got := search("echo", ""); len(got) == 0 || got[0] != "echo" {
		t.Errorf("%q", got)
	}
	if got := search("echo", "small"); slices.Contains(got, "echo") {
		t.Errorf("%q", got)
	}
	if got := search("fail", ""); slices.Contains(got, "fail") {
		t.Errorf("%q", got)
	}
	if _, err := f.Search(SearchQuery{Query: help.Query{Namespace: "jira"}}); err == nil {
		t.Error("an unknown namespace was searched")
	}
	if _, err := f.Search(SearchQuery{Endpoint: "big"}); err == nil {
		t.Error("an unknown endpoint was searched")
	}
	succeeds(t, f.call("", "where", "{}"), "pid=")
	if err := f.State().Flush(); err != nil {
		t.Fatal(err)
	}
	if uses := f.Uses(); uses["where"] != 1 {
		t.Errorf("%v", uses)
	}
}

// TestPermissionTests checks the tests of a configuration, which run nothing.
func TestPermissionTests(t *testing.T) {
	const rules = `permissions {
  deny "no-echo" {
    tool = "echo"
  }
  test "right" {
    command = "echo x"
    expect  = "deny"
    rule    = "no-echo"
  }
  test "wrong" {
    command = "where"
    expect  = "deny"
  }
  test "another rule" {
    command = "echo x"
    expect  = "deny"
    rule    = "other"
  }
}
`
	f := begin(t, rules)
	starts := len(f.Programs.Started())
	for _, pt := range f.PermissionTests() {
		if err := f.TestPermissions(pt); (err == nil) != (pt.Name == "right") {
			t.Errorf("%s: %v", pt.Name, err)
		}
	}
	if d, err := f.Judge(Request{Command: "echo x"}); err != nil || d.Effect != policy.Deny {
		t.Errorf("%+v, %v", d, err)
	}
	if c := f.Explain(Request{Command: "where"}); c.Error != nil {
		t.Error(c.Error)
	}
	if n := len(f.Programs.Started()); n != starts {
		t.Errorf("%d programs were started", n-starts)
	}
}

// TestSeal checks that only this host's key opens a sealed value, for one purpose.
func TestSeal(t *testing.T) {
	f := begin(t, "")
	text, err := f.Seal([]byte("value"), []byte("purpose"))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Unseal(text, []byte("purpose")); err != nil || string(v) != "value" {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := f.Unseal(text, []byte("another")); !errors.Is(err, ErrSealed) {
		t.Errorf("%v", err)
	}
	if _, err := begin(t, "").Unseal(text, []byte("purpose")); !errors.Is(err, ErrSealed) {
		t.Errorf("another host: %v", err)
	}
}
