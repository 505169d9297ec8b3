package calls

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/test/hosttest"
)

// TestAdaptiveUnderLoad checks the adaptive mode (requirement D6) through the program's interfaces. Load on a running
// server must lower the timeout of a tool and change its limit of concurrent calls. The statistics must show both
// values with their bounds. A call that exceeds the lower timeout must be stopped.
func TestAdaptiveUnderLoad(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), fmt.Appendf(nil, "host {\n  adaptive = true\n}\nplugin \"testplugin\" {\n  path = %q\n}\ntool \"nap\" {\n  max_concurrent = 16\n  timeout = \"20s\"\n}\n", filepath.Join(hosttest.Bin, "testplugin")), 0o600))
	base, token := hosttest.Serve(t, dir)
	c := hosttest.NewClient(t, base, token)
	type limits struct {
		Timeout, TimeoutMost float64
		Limit, LimitMost     int
		Raised, Lowered      uint64
	}
	stats := func() (out limits) {
		var s host.Stats
		hosttest.Must(t, json.Unmarshal([]byte(c.Want(200, "", "GET", "/v1/stats", "")), &s))
		for _, tool := range s.Tools {
			if tool.Name == "nap" && tool.Adaptive != nil {
				return limits(*tool.Adaptive)
			}
		}
		t.Fatal("the statistics have no limits of nap")
		return out
	}
	load := func(calls, ms int) {
		var batch strings.Builder
		for i := range calls {
			fmt.Fprintf(&batch, `{"id":%d,"session":"s%d","command":"tool:nap --alone --ms %d"}`+"\n", i, i%32, ms)
		}
		if out := c.Want(200, "", "POST", "/v1/batch", batch.String()); strings.Count(out, `"success":true`) != calls {
			t.Errorf("%d of %d calls succeeded", strings.Count(out, `"success":true`), calls)
		}
	}
	load(1, 1)
	first := stats()
	if first.TimeoutMost != 20_000 || first.Timeout != 20_000 || first.LimitMost != 16 || first.Limit < 1 || first.Limit > 16 {
		t.Errorf("the limits before any load: %+v", first)
	}
	for range 250 { // the limiter compares later durations with these durations under low load
		load(1, 5)
	}
	for range 60 { // concurrent calls wait for each other, so each call takes longer
		load(64, 5)
		if s := stats(); s.Lowered > 0 {
			break
		}
	}
	for range 2 {
		load(64, 5)
		s := stats()
		if s.Limit < 1 || s.Limit > s.LimitMost || s.LimitMost != 16 || s.Timeout < 5_000 || s.Timeout > s.TimeoutMost {
			t.Errorf("out of bounds: %+v", s)
		}
	}
	if s := stats(); s.Lowered == 0 {
		t.Errorf("the limit was never lowered: %+v", s)
	}
	if s := stats(); s.Timeout != 5_000 {
		t.Errorf("the timeout after many short calls is not 5 s: %+v", s)
	}
	c.Want(200, "was stopped after 5s, a limit that adaptive mode", "POST", "/v1/run", `{"command":"tool:nap --ms 15000"}`)
	if metrics := c.Want(200, "", "GET", "/metrics", ""); !strings.Contains(metrics, "nap") {
		t.Error("the metrics have no calls of nap")
	}
}
