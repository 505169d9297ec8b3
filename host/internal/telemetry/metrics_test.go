package telemetry

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
)

// TestBuckets checks that a duration is between the limits of its bucket.
func TestBuckets(t *testing.T) {
	for i := range buckets - 1 {
		end := limit(i)
		if got := bucketOf(end); got != i {
			t.Fatalf("limit %s of bucket %d is in bucket %d", end, i, got)
		}
		if got := bucketOf(end + 1); got != i+1 {
			t.Fatalf("what comes after %s is in bucket %d, not %d", end, got, i+1)
		}
		if begin := limit(max(0, i-1)); i > perOctave && float64(end-begin) > float64(begin)/perOctave+1 {
			t.Fatalf("bucket %d is too wide: %s to %s", i, begin, end)
		}
	}
	for _, d := range []time.Duration{-1, 0, 1, time.Microsecond} {
		if got := bucketOf(d); got != 0 {
			t.Errorf("%s is in bucket %d", d, got)
		}
	}
	if got := bucketOf(1 << 62); got != buckets-1 {
		t.Errorf("a very long time is in bucket %d", got)
	}
}

func TestQuantiles(t *testing.T) {
	for _, tc := range []struct {
		name               string
		times              func(add func(ms float64))
		p50, p95, p99, max float64
		average            float64
	}{
		{"nothing", func(func(float64)) {}, 0, 0, 0, 0, 0},
		{"one", func(add func(float64)) { add(5) }, 5, 5, 5, 5, 5},
		{"1 to 1000", func(add func(float64)) {
			for i := 1000; i > 0; i-- {
				add(float64(i))
			}
		}, 500, 950, 990, 1000, 500.5},
		{"one in a hundred is slow", func(add func(float64)) {
			for range 99 {
				add(2)
			}
			add(60_000)
		}, 2, 2, 2, 60_000, 601.98},
		{"two in a hundred are slow", func(add func(float64)) {
			for range 98 {
				add(2)
			}
			add(60_000)
			add(60_000)
		}, 2, 2, 60_000, 60_000, 1201.96},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h times
			tc.times(func(ms float64) { h.add(time.Duration(ms * float64(time.Millisecond))) })
			s := h.summary()
			for _, q := range []struct {
				name      string
				got, want float64
			}{{"p50", s.P50, tc.p50}, {"p95", s.P95, tc.p95}, {"p99", s.P99, tc.p99}} {
				if off := q.got - q.want; off > q.want*0.032 || -off > q.want*0.032 {
					t.Errorf("%s is %g, want %g", q.name, q.got, q.want)
				}
			}
			if s.Max != tc.max || s.Average < tc.average-1e-6 || s.Average > tc.average+1e-6 {
				t.Errorf("max %g, average %g; want %g, %g", s.Max, s.Average, tc.max, tc.average)
			}
		})
	}
}

// TestToldBuckets checks that each reported bucket contains the exact number of calls up to its limit.
func TestToldBuckets(t *testing.T) {
	var h times
	limits := []time.Duration{64 * time.Microsecond, 65 * time.Microsecond, 128 * time.Microsecond, time.Second, time.Hour}
	for _, d := range limits {
		h.add(d)
	}
	s := h.summary()
	ends := slices.Sorted(maps.Keys(s.Buckets))
	if len(ends) != lastTold-firstTold+1 {
		t.Fatalf("%d buckets", len(ends))
	}
	for _, end := range ends {
		var want uint64
		for _, d := range limits {
			if d.Seconds() <= end {
				want++
			}
		}
		if s.Buckets[end] != want {
			t.Errorf("%d took at most %g s, want %d", s.Buckets[end], end, want)
		}
	}
}

func TestCounts(t *testing.T) {
	var m Metrics
	for _, c := range []Call{
		{Attempts: 1, Execution: time.Second, Queued: time.Millisecond},
		{Attempts: 3, Execution: 3 * time.Second, Queued: time.Millisecond, Waited: true, Kind: tool.Unavailable},
		{Kind: tool.Timeout, Queued: time.Minute, Waited: true}, // a timeout in the queue
		{Kind: tool.PermissionDenied},                           // a denied call
	} {
		m.Tool("a").Ended(c)
	}
	m.Tool("").Ended(Call{Kind: tool.NotFound})
	var none *Metrics
	none.Tool("a").Ended(Call{})
	none.Tool("a").Begin()()
	s := m.Tools()
	if len(s) != 2 || s[0].Name != None || s[0].Errors[tool.NotFound] != 1 {
		t.Fatalf("%+v", s)
	}
	a := s[1]
	if a.Calls != 4 || a.Successes != 1 || a.Failures != 3 || a.Retries != 2 || a.Waited != 2 || a.Execution.Count != 2 || a.Queue.Count != 3 || a.Execution.Sum != 4000 {
		t.Errorf("%+v", a)
	}
	if want := map[tool.Kind]uint64{tool.Unavailable: 1, tool.Timeout: 1, tool.PermissionDenied: 1}; !maps.Equal(a.Errors, want) {
		t.Errorf("%v", a.Errors)
	}
}

// TestNamesAreBounded checks that metrics use limited memory even if the host's tools always get new names.
func TestNamesAreBounded(t *testing.T) {
	var m Metrics
	for i := range maxNames + 50 {
		m.Tool(fmt.Sprint(i)).Ended(Call{})
		m.Plugin(fmt.Sprint(i), Started)
	}
	m.Tool("0").Ended(Call{})
	tools, plugins := m.Tools(), m.Plugins(nil)
	if len(tools) != maxNames+1 || len(plugins) != maxNames+1 {
		t.Fatalf("%d tools, %d plugins", len(tools), len(plugins))
	}
	if rest := tools[0]; rest.Name != others || rest.Calls != 50 {
		t.Errorf("%s %d", rest.Name, rest.Calls)
	}
	if zero := tools[1]; zero.Name != "0" || zero.Calls != 2 {
		t.Errorf("%s %d", zero.Name, zero.Calls)
	}
}

func TestRunning(t *testing.T) {
	var r running
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	r.step(1, at(100))
	r.step(1, at(102)) // before this moment, one call ran for 2 s
	r.step(-1, at(105))
	r.step(1, at(104)) // out of order
	r.step(-1, at(105))
	r.step(-1, at(106)) // before this moment, two calls ran for 3 s, and one for 1 s
	r.step(1, at(200))  // before this moment, no call ran for a long time
	r.step(-1, at(202))
	if r.now != 0 || r.most != 2 || r.busy != 8*time.Second || r.area != 11*time.Second {
		t.Errorf("%+v", r)
	}
}

func TestManyAtOnce(t *testing.T) {
	var m Metrics
	var wg sync.WaitGroup
	inside := m.Tool("a").Begin()
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				end := m.Tool("a").Begin()
				m.Tool("a").Ended(Call{Attempts: 1, Execution: time.Millisecond})
				end()
				m.Tools()
			}
		})
	}
	wg.Wait()
	s := m.Tools()[0]
	inside()
	if s.Calls != 8000 || s.Running != 1 || s.RunningMax < 2 || s.RunningMax > 9 || s.RunningAverage < 1 || s.RunningAverage > 9 {
		t.Errorf("%+v", s)
	}
}

// TestUsage checks that the usage of ended processes stays in the totals.
func TestUsage(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	var m Metrics
	m.Plugin("p", Started)
	m.Plugin("p", Crashed)
	m.Plugin("p", StartFailed)
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); { // this loop uses CPU time
	}
	first := m.Plugins([]Process{{"p", os.Getpid()}, {"p", 1 << 30}})[0]
	if first.Starts != 1 || first.Crashes != 1 || first.FailedStarts != 1 || len(first.PIDs) != 2 {
		t.Errorf("%+v", first)
	}
	if first.Usage == nil || first.Usage.Memory < 1<<20 || first.Usage.CPU <= 0 {
		t.Fatalf("%+v", first.Usage)
	}
	if _, err := os.ReadFile("/proc/self/io"); err == nil && (first.Usage.Read == nil || first.Usage.Written == nil) {
		t.Errorf("no I/O in %+v", first.Usage)
	}
	cpu := first.Usage.CPU
	for range 2 {
		gone := m.Plugins(nil)[0]
		if gone.Usage == nil || gone.Usage.CPU != cpu || gone.Usage.Memory != 0 || len(gone.PIDs) != 0 {
			t.Errorf("%+v, want %g s", gone.Usage, cpu)
		}
	}
	if again := m.Plugins([]Process{{"p", os.Getpid()}})[0]; again.Usage.CPU < 2*cpu {
		t.Errorf("%+v, want at least %g s", again.Usage, 2*cpu)
	}
}

func TestSumOfUsage(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	for _, tc := range []struct{ a, b, want *uint64 }{{nil, nil, nil}, {n(1), nil, n(1)}, {nil, n(2), n(2)}, {n(1), n(2), n(3)}} {
		got := Usage{CPU: 1, Memory: 1, Read: tc.a, Written: tc.b}
		got.add(Usage{CPU: 2, Memory: 3, Read: tc.b, Written: tc.a})
		for _, io := range []*uint64{got.Read, got.Written} {
			if (io == nil) != (tc.want == nil) || io != nil && *io != *tc.want {
				t.Errorf("%v", got)
			}
		}
		if got.CPU != 3 || got.Memory != 4 {
			t.Errorf("%v", got)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	var m Metrics
	for b.Loop() {
		end := m.Tool("read").Begin()
		m.Tool("read").Ended(Call{Attempts: 1, Queued: time.Microsecond, Execution: 300 * time.Microsecond})
		end()
	}
}

func BenchmarkCallParallel(b *testing.B) {
	var m Metrics
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			end := m.Tool("read").Begin()
			m.Tool("read").Ended(Call{Attempts: 1, Queued: time.Microsecond, Execution: 300 * time.Microsecond})
			end()
		}
	})
}
