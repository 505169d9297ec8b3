package calls

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tool"
)

const statsConfig = `
plugin "read" {}
plugin "bash" {}
plugin "test" { path = %q }
tool "nap" { timeout = "300ms" }
tool "off" { enabled = false }
permissions {
  deny "counting" { tool = "count" }
}
`

// TestStats checks the statistics after a known sequence of calls, in all output formats.
func TestStats(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	if err := os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, statsConfig, filepath.Join(hosttest.Bin, "testplugin")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := hosttest.Toolhost(t, dir, "stats").Output()
	if err != nil || !strings.Contains(string(out), "No host runs with this state directory") || !strings.Contains(string(out), "toolhost serve") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := hosttest.Toolhost(t, dir, "--json", "stats").Output(); err != nil || strings.TrimSpace(string(out)) != "[]" {
		t.Errorf("%v: %s", err, out)
	}
	base, token := hosttest.Serve(t, dir)
	c := hosttest.NewClient(t, base, token)
	c.Want(200, `"tools":[]`, "GET", "/v1/stats", "")

	for _, call := range []struct{ request, answer string }{
		{`{"command":"tool:echo one"}`, `"success":true`},
		{`{"name":"echo","arguments":{"text":"two"}}`, `"success":true`},
		{`{"name":"echo","arguments":{"txt":"three"}}`, `"invalid_arguments"`},
		{`{"command":"tool:fail --kind conflict"}`, `"conflict"`},
		{`{"command":"tool:nap --ms 60000"}`, `"timeout"`},
		{`{"command":"tool:count"}`, `"permission_denied"`},
		{`{"command":"tool:off"}`, `"permission_denied"`},
		{`{"command":"tool:dieonce --marker died"}`, `survived`},
		{`{"name":"nothing","arguments":{}}`, `"not_found"`},
		{`{"command":"help echo"}`, `"success":true`},
		{`{"command":"tool:echo three | cat; tool:fail --kind internal; true"}`, `three`}, // the commands in this string make two more calls
	} {
		c.Want(200, call.answer, "POST", "/v1/run", call.request)
	}
	c.Want(403, "not allowed to work in /nonexistent", "POST", "/v1/run", `{"name":"nothing","workspace":"/nonexistent"}`)
	// The second call must wait for the first.
	c.Want(200, `"id":2`, "POST", "/v1/batch", `{"id":1,"command":"sleep 1; echo a"}`+"\n"+`{"id":2,"command":"exit 3"}`+"\n")

	check := func(t *testing.T) host.Stats {
		t.Helper()
		var s host.Stats
		if err := json.Unmarshal([]byte(c.Want(200, "", "GET", "/v1/stats", "")), &s); err != nil {
			t.Fatal(err)
		}
		checkStats(t, s)
		return s
	}
	t.Run("API", func(t *testing.T) { checkUsage(t, check(t)) })
	t.Run("Prometheus", func(t *testing.T) {
		hosttest.NewClient(t, base, "wrong").Want(401, "Authorization: Bearer TOKEN", "GET", "/metrics", "")
		checkMetrics(t, c.Want(200, "", "GET", "/metrics", ""), check(t))
	})
	t.Run("command", func(t *testing.T) {
		out, err := hosttest.Toolhost(t, dir, "--json", "stats").Output()
		if err != nil {
			t.Fatal(err)
		}
		var hosts []admin.RemoteStats
		if err := json.Unmarshal(out, &hosts); err != nil || len(hosts) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		if h := hosts[0]; h.PID == 0 || h.Workspace != dir || time.Since(h.Began) > time.Hour {
			t.Errorf("%+v", h)
		}
		checkStats(t, hosts[0].Stats)
		out, err = hosttest.Toolhost(t, dir, "stats").Output()
		if err != nil {
			t.Fatal(err)
		}
		rows := make(map[string][]string) // rows by name; for a tool and a plugin with the same name, the tool comes first
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 2 && rows[f[0]] == nil {
				rows[f[0]] = f
			}
		}
		for name, want := range map[string]string{"echo": "echo 4 1", "bash": "bash 3 1", "(none)": "(none) 3 2", "nap": "nap 1 1"} {
			if got := strings.Join(rows[name][:min(3, len(rows[name]))], " "); got != want {
				t.Errorf("%q, want %q in\n%s", got, want, out)
			}
		}
		for _, want := range []string{"timeout 1", "1/1.0", "MiB", "in " + dir} {
			if !strings.Contains(string(out), want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
	t.Run("after a reload", func(t *testing.T) {
		if out, err := hosttest.Toolhost(t, dir, "plugin", "reload", "test").Output(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s := check(t)
		if p := find(s.Plugins, func(p host.PluginStats) bool { return p.Name == "test" }); p.Starts < 3 || p.Crashes != 1 {
			t.Errorf("%+v", p)
		}
	})
}

func find[T any](in []T, is func(T) bool) (found T) {
	for _, v := range in {
		if is(v) {
			return v
		}
	}
	return found
}

// checkStats compares s with the expected statistics of TestStats.
func checkStats(t *testing.T, s host.Stats) {
	t.Helper()
	type errs = map[tool.Kind]uint64
	seen := 0
	for _, want := range []struct {
		name               string
		calls, ran, waited uint64
		errors             errs
		retries            uint64
	}{
		{"(none)", 3, 0, 0, errs{tool.NotFound: 1, tool.PermissionDenied: 1}, 0},
		{"bash", 3, 3, 1, errs{tool.ExecutionFailed: 1}, 0},
		{"count", 1, 0, 0, errs{tool.PermissionDenied: 1}, 0},
		{"dieonce", 1, 1, 0, errs{}, 1},
		{"echo", 4, 3, 0, errs{tool.InvalidArguments: 1}, 0},
		{"fail", 2, 2, 0, errs{tool.Conflict: 1, tool.Internal: 1}, 0},
		{"nap", 1, 1, 0, errs{tool.Timeout: 1}, 0},
		{"off", 1, 0, 0, errs{tool.PermissionDenied: 1}, 0},
	} {
		got := find(s.Tools, func(s host.ToolStats) bool { return s.Name == want.name })
		var failures uint64
		for _, n := range want.errors {
			failures += n
		}
		if got.Calls != want.calls || got.Execution.Count != want.ran || got.Queue.Count != want.ran || got.Waited != want.waited || got.Retries != want.retries ||
			got.Failures != failures || got.Successes != want.calls-failures || !maps.Equal(got.Errors, want.errors) || got.Running != 0 {
			t.Errorf("%+v, want %+v", got, want)
		}
		most := 0
		if want.ran > 0 {
			most = 1
		}
		if x := got.Execution; got.RunningMax != most || want.ran > 0 && (x.Max <= 0 || x.P50 > x.P95 || x.P95 > x.P99 || x.P99 > x.Max || x.Average > x.Max) {
			t.Errorf("%+v", got)
		}
		seen++
	}
	if len(s.Tools) != seen {
		t.Errorf("%d tools, want %d: %+v", len(s.Tools), seen, s.Tools)
	}
	if nap := find(s.Tools, func(s host.ToolStats) bool { return s.Name == "nap" }); nap.Execution.Max < 100 {
		t.Errorf("%+v", nap)
	}
	if bash := find(s.Tools, func(s host.ToolStats) bool { return s.Name == "bash" }); bash.Queue.Max < 500 || bash.Execution.Max < 1000 {
		t.Errorf("%+v", bash)
	}
}

func checkUsage(t *testing.T, s host.Stats) {
	t.Helper()
	p := find(s.Plugins, func(p host.PluginStats) bool { return p.Name == "test" })
	if p.Starts < 2 || p.Crashes != 1 || len(p.PIDs) != 1 {
		t.Errorf("%+v", p)
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil && (p.Usage == nil || p.Usage.Memory < 1<<20) {
		t.Errorf("%+v", p.Usage)
	}
}

// checkMetrics parses the metrics with the parser of Prometheus and compares the metrics with s.
func checkMetrics(t *testing.T, text string, s host.Stats) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	get := func(family string, labels ...string) *dto.Metric {
		t.Helper()
		for _, m := range families[family].GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if strings.Join(have, ",") == strings.Join(labels, ",") { // parsed labels are sorted by name
				return m
			}
		}
		t.Errorf("there is no %s %s", family, labels)
		return nil
	}
	for _, want := range s.Tools {
		for kind, n := range want.Errors {
			if got := get("toolhost_tool_calls_total", string(kind), want.Name).GetCounter().GetValue(); got != float64(n) {
				t.Errorf("%s %s: %g", want.Name, kind, got)
			}
		}
		if got := get("toolhost_tool_calls_total", "success", want.Name).GetCounter().GetValue(); got != float64(want.Successes) {
			t.Errorf("%s: %g", want.Name, got)
		}
		h := get("toolhost_tool_execution_seconds", want.Name).GetHistogram()
		if h.GetSampleCount() != want.Execution.Count || h.GetSampleSum() < want.Execution.Sum/1000-1e-6 || h.GetSampleSum() > want.Execution.Sum/1000+1e-6 {
			t.Errorf("%s: %v, want %+v", want.Name, h, want.Execution)
		}
		if b := h.GetBucket(); len(b) < 10 || b[len(b)-1].GetCumulativeCount() != want.Execution.Count {
			t.Errorf("%s: %v", want.Name, b)
		}
	}
	if got := get("toolhost_tool_calls_waited_total", "bash").GetCounter().GetValue(); got != 1 {
		t.Errorf("%g", got)
	}
	if got := get("toolhost_tool_retries_total", "dieonce").GetCounter().GetValue(); got != 1 {
		t.Errorf("%g", got)
	}
	if got := get("toolhost_plugin_crashes_total", "test").GetCounter().GetValue(); got != 1 {
		t.Errorf("%g", got)
	}
	if got := get("toolhost_info", host.Version).GetGauge().GetValue(); got != 1 {
		t.Errorf("%g", got)
	}
	if len(families["go_goroutines"].GetMetric()) != 1 {
		t.Error("the metrics lack the host's own process")
	}
}
