package engine

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"
)

// TestAdaptiveTimeout checks that the adaptive mode shortens the timeout of a tool once its calls were short often
// enough, and only while the mode is on.
func TestAdaptiveTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "host {\n adaptive = true\n}\ntool \"hold\" {\n max_concurrent = 7\n}\n")
		adapted := func() (timeout, most float64) {
			t.Helper()
			for _, s := range f.Stats().Tools {
				if s.Name == "hold" && s.Adaptive != nil {
					return s.Adaptive.Timeout, s.Adaptive.TimeoutMost
				}
			}
			return 0, 0
		}
		f.Programs.Gate("open").Open()
		for n := range 20 {
			succeeds(t, f.call("a", "hold", `{"gate":"open"}`), "passed")
			if timeout, most := adapted(); n < 19 && (timeout != 120_000 || most != 120_000) {
				t.Errorf("after %d calls: %v of %v ms", n+1, timeout, most)
			}
		}
		if timeout, most := adapted(); timeout != 5_000 || most != 120_000 {
			t.Errorf("after 20 calls: %v of %v ms", timeout, most)
		}
		began := time.Now()
		failsWith(t, f.call("a", "hold", `{"gate":"closed"}`), tool.Timeout, "was stopped after 5s, a limit that adaptive mode derived from earlier calls")
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("stopped after %s", took)
		}
		f.Configure(f.Plugin("p", "") + "host {\n adaptive = false\n}\n")
		f.reload()
		if timeout, _ := adapted(); timeout != 0 {
			t.Errorf("the mode is off: %v ms", timeout)
		}
		began = time.Now()
		failsWith(t, f.call("a", "hold", `{"gate":"closed"}`), tool.Timeout, "hold took longer than 2m0s and was stopped")
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("stopped after %s", took)
		}
	})
}

// TestQuotas checks that calls over a limit are refused at once, until the time that the error names.
func TestQuotas(t *testing.T) {
	for name, tc := range map[string]struct {
		limit string
		use   string // the tool whose calls use the quota up, and args are its arguments
		args  string
		calls int           // that are permitted
		code  string        // in the message of the refusal
		after time.Duration // until the next call is permitted
	}{
		"calls":   {"calls_per_minute = 3", "where", "{}", 3, "calls_per_minute", 20 * time.Second},
		"breaker": {"breaker {\n failures = 2\n pause = \"30s\"\n}", "fail", `{"kind":"execution_failed"}`, 2, "breaker", 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := begin(t, "quota \"principal:*\" {\n"+tc.limit+"\n}\n")
				for range tc.calls {
					res := f.call("a", tc.use, tc.args)
					if (res.Error != nil) != (tc.use == "fail") || res.Error != nil && !strings.Contains(res.Error.Message, "it failed") {
						t.Errorf("%v", res.Error)
					}
				}
				res := f.call("a", "where", "{}")
				failsWith(t, res, tool.Unavailable, tc.code)
				if res.Error == nil {
					return
				}
				if left := res.Error.RetryAfter - tc.after; left < 0 || left > 10*time.Millisecond {
					t.Errorf("retry after %s, want %s", res.Error.RetryAfter, tc.after)
				}
				time.Sleep(tc.after - 10*time.Millisecond)
				failsWith(t, f.call("a", "where", "{}"), tool.Unavailable, tc.code)
				time.Sleep(20 * time.Millisecond)
				succeeds(t, f.call("a", "where", "{}"), "pid=")
			})
		})
	}
}
