package durable

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// The verbs of this format stand for the path of the plugin, the share of shadow calls, and the minimum time of a step.
const rolloutConfig = `bundled = false
plugin "test" {
  path = %q
  rollout {
    shadow = %d
    steps  = [30, 60]
    pause  = %q
    calls  = 250
    abort {
      error_ratio  = 1.2
      p95_ratio    = 6
      differences  = 0.004
      memory_ratio = 3
    }
  }
}
`

// rolloutHost is a host whose callers pause between calls, as agents do.
type rolloutHost struct {
	*batchHost
	work   string
	stop   atomic.Bool
	failed atomic.Int64
	last   atomic.Value // the last failed result
	all    sync.WaitGroup
}

func newRolloutHost(t *testing.T, callers, shadow int, pause time.Duration) *rolloutHost {
	t.Helper()
	work, err := filepath.EvalSymlinks(t.TempDir())
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(filepath.Join(work, "toolhost.hcl"), fmt.Appendf(nil, rolloutConfig, filepath.Join(work, "plugin"), shadow, pause.String()), 0o600))
	h := &rolloutHost{work: work}
	h.install(t, "version=1.0.0")
	h.batchHost = startBatch(t, work)
	t.Cleanup(func() {
		h.stop.Store(true)
		h.all.Wait()
		_ = h.in.Close()
		_ = h.cmd.Wait()
	})
	h.call("first", "tool:echo a") // wait until the host runs
	for i := range callers {
		h.all.Go(func() {
			for n := 0; !h.stop.Load(); n++ {
				res := h.call(fmt.Sprint("s", i), fmt.Sprintf("tool:echo w%d", n%50))
				if res == nil {
					return // the host ended
				}
				if res["success"] != true || res["output"] != fmt.Sprintf("w%d", n%50) && !strings.HasSuffix(fmt.Sprint(res["output"]), " or so") {
					h.failed.Add(1)
					h.last.Store(fmt.Sprint(res))
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return h
}

// install atomically replaces the binary of the plugin by a variant.
func (h *rolloutHost) install(t *testing.T, words string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(hosttest.Bin, "testplugin"))
	hosttest.Must(t, err)
	next := filepath.Join(h.work, "plugin.new")
	hosttest.Must(t, os.WriteFile(next, append(b, []byte("\n!variant "+words+"\n")...), 0o700))
	hosttest.Must(t, os.Rename(next, filepath.Join(h.work, "plugin")))
}

type rolloutStatus struct {
	State, Why        string
	Share             float64
	Compared, Differs int
	New               struct {
		Version string
		Calls   int
	}
	Cases   []struct{ Tool string }
	History []struct{ Text string }
}

// status returns the state of the last rollout.
func (h *rolloutHost) status(t *testing.T) rolloutStatus {
	t.Helper()
	out, err := hosttest.Toolhost(t, h.work, "--json", "plugin", "rollout", "status").Output()
	hosttest.Must(t, err)
	var all []struct{ Rollouts []rolloutStatus }
	hosttest.Must(t, json.Unmarshal(out, &all))
	if len(all) == 0 || len(all[0].Rollouts) == 0 {
		return rolloutStatus{}
	}
	return all[0].Rollouts[0]
}

// ended waits until the rollout of a version has ended.
func (h *rolloutHost) ended(t *testing.T, version string) (st rolloutStatus) {
	t.Helper()
	hosttest.Wait(t, "the rollout of "+version+" has ended", func() bool {
		st = h.status(t)
		return st.New.Version == version && (st.State == "aborted" || st.State == "promoted")
	})
	return st
}

// TestRollouts rolls out bad versions and a good version while callers use the plugin. Each bad version must be aborted
// by the rule for its fault, and no call may fail. The good version must serve all calls in the end. The long form has
// more bad versions and 64 callers.
func TestRollouts(t *testing.T) {
	t.Parallel()
	type bad struct{ words, rule string }
	callers, versions := 24, []bad{{"wrong=100", "differences: "}, {"crash=40", "error_ratio: "}}
	if hosttest.Long() {
		callers = 64
		versions = append(versions, bad{"hang=60", "error_ratio: "}, bad{"delay=600", "p95_ratio: "}, bad{"leak=4", "memory_ratio: "},
			bad{"endless=60", "output_ratio: "}, bad{"chatter=60", "output_ratio: "})
	}
	h := newRolloutHost(t, callers, 50, 50*time.Millisecond)
	for i, bad := range versions {
		version, began := fmt.Sprintf("2.%d.0", i), time.Now()
		h.install(t, "version="+version+" "+bad.words)
		st := h.ended(t, version)
		if st.State != "aborted" || !strings.HasPrefix(st.Why, bad.rule) {
			t.Errorf("%s: %s, %s; wanted %s", bad.words, st.State, st.Why, bad.rule)
		}
		if bad.rule == "differences: " && (len(st.Cases) == 0 || st.Cases[0].Tool != "echo") {
			t.Errorf("the differing calls are %+v", st.Cases)
		}
		if n := h.failed.Swap(0); n > 0 {
			t.Errorf("%s: %d calls failed, such as %v", bad.words, n, h.last.Load())
		}
		t.Logf("%s: stopped after %s", bad.words, time.Since(began).Round(time.Millisecond))
		h.install(t, "version=1.0.0")
	}

	// A version that breaks callers is refused before its rollout begins.
	h.install(t, "version=2.9.0 require=echo")
	hosttest.Wait(t, "the version is refused", func() bool {
		out, err := hosttest.Toolhost(t, h.work, "status").Output()
		return err == nil && strings.Contains(string(out), "the new binary is not used")
	})

	h.install(t, "version=3.0.0")
	if st := h.ended(t, "3.0.0"); st.State != "promoted" || st.Share != 100 || len(st.History) != 4 {
		t.Errorf("the good version: %+v", st)
	}
	if res := fmt.Sprint(h.call("x", "tool:echo a")); !strings.Contains(res, "plugin_version:3.0.0") {
		t.Errorf("after the rollout: %s", res)
	}
	if n := h.failed.Load(); n > 0 {
		t.Errorf("%d calls failed, such as %v", n, h.last.Load())
	}
}

// TestRolloutOfALie rolls out a version that sometimes reports its own tool as unknown. No call of the callers may
// fail, and the rule about errors must abort the rollout.
func TestRolloutOfALie(t *testing.T) {
	t.Parallel()
	h := newRolloutHost(t, 8, 0, time.Hour)
	h.install(t, "version=2.0.0 lie=20")
	if st := h.ended(t, "2.0.0"); st.State != "aborted" || !strings.HasPrefix(st.Why, "error_ratio: ") || st.New.Calls == 0 {
		t.Errorf("%+v", st)
	}
	if n := h.failed.Load(); n > 0 {
		t.Errorf("%d calls failed, such as %v", n, h.last.Load())
	}
	if res := fmt.Sprint(h.call("x", "tool:fail --kind not_found")); !strings.Contains(res, "it failed as not_found") {
		t.Errorf("a call that fails on both versions: %s", res)
	}
}

// TestSteeredRollout checks that a rollout can be paused, promoted and aborted by hand.
func TestSteeredRollout(t *testing.T) {
	t.Parallel()
	h := newRolloutHost(t, 4, 50, time.Hour)
	steer := func(words ...string) string {
		c := hosttest.Toolhost(t, h.work, append([]string{"plugin", "rollout"}, words...)...)
		c.Stderr = nil
		out, _ := c.CombinedOutput() // ignore the error: the caller checks the text
		return string(out)
	}
	if out := steer("abort", "test"); !strings.Contains(out, "plugin test has no rollout; a changed binary begins one if its block has rollout {}") {
		t.Error(out)
	}
	h.install(t, "version=2.0.0")
	hosttest.Wait(t, "the rollout began", func() bool { return h.status(t).New.Version == "2.0.0" })
	if out := steer("pause", "test"); !strings.Contains(out, ": pause of test") {
		t.Fatal(out)
	}
	if out := steer("status"); !strings.Contains(out, "paused") || !strings.Contains(out, "old  1.0.0") || !strings.Contains(out, "new  2.0.0") {
		t.Error(out)
	}
	if out := steer("abort", "test"); !strings.Contains(out, ": abort of test") {
		t.Error(out)
	}
	st := h.ended(t, "2.0.0")
	if st.State != "aborted" || !strings.HasPrefix(st.Why, "by unix:") {
		t.Errorf("after abort: %+v", st)
	}
	if out := steer("promote", "test"); !strings.Contains(out, "the rollout of plugin test has ended (aborted: by unix:") {
		t.Error(out)
	}
	out, err := hosttest.Toolhost(t, h.work, "status").Output()
	hosttest.Must(t, err)
	if !strings.Contains(string(out), "its rollout was aborted: by unix:") {
		t.Error(string(out))
	}
	out, err = hosttest.Toolhost(t, h.work, "log", "--administration").Output()
	hosttest.Must(t, err)
	for _, want := range []string{"(rollout start)", "(rollout pause)", "(rollout abort)"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	h.install(t, "version=3.0.0")
	hosttest.Wait(t, "the rollout began", func() bool { return h.status(t).New.Version == "3.0.0" })
	steer("promote", "test")
	if st := h.ended(t, "3.0.0"); st.State != "promoted" {
		t.Errorf("after promote: %+v", st)
	}
	hosttest.Wait(t, "the new version serves", func() bool { return strings.Contains(fmt.Sprint(h.call("x", "tool:echo a")), "plugin_version:3.0.0") })
	if n := h.failed.Load(); n > 0 {
		t.Errorf("%d calls failed, such as %v", n, h.last.Load())
	}
}

// TestVersionsOutliveHosts checks that a binary serves no calls before it has passed its rollout, even if other
// processes start: a new process of the old version, another host, or a host after a kill.
func TestVersionsOutliveHosts(t *testing.T) {
	t.Parallel()
	h := newRolloutHost(t, 0, 50, time.Hour)
	serves := func(version string) {
		t.Helper()
		out, err := hosttest.Toolhost(t, h.work, "run", "tool:where").Output()
		if got := fmt.Sprint(h.call("x", "tool:where")); err != nil || !strings.Contains(string(out), "version="+version) || !strings.Contains(got, "version="+version) {
			t.Errorf("want version %s: another host has %s (%v), and this one %s", version, out, err, got)
		}
	}
	begun := func(version string) {
		t.Helper()
		hosttest.Wait(t, "the rollout of "+version+" began", func() bool { return h.status(t).New.Version == version })
	}
	status := func(want string) {
		t.Helper()
		out, err := hosttest.Toolhost(t, h.work, "status").Output()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s (%v); wanted %s", out, err, want)
		}
	}
	restart := func(kill bool) {
		t.Helper()
		if kill {
			hosttest.Must(t, h.cmd.Process.Kill())
		}
		_ = h.in.Close()
		_ = h.cmd.Wait()
		h.batchHost = startBatch(t, h.work)
	}
	serves("1.0.0")
	h.install(t, "version=2.0.0")
	begun("2.0.0")
	serves("1.0.0")
	h.call("x", "tool:die") // the next process of the old version starts while the new binary is on the disk
	serves("1.0.0")
	hosttest.Must(t, hosttest.Toolhost(t, h.work, "plugin", "rollout", "abort", "test").Run())
	if st := h.ended(t, "2.0.0"); st.State != "aborted" {
		t.Fatalf("%+v", st)
	}
	serves("1.0.0")
	restart(false)
	serves("1.0.0")
	status("was aborted: by unix:")
	status("Replace the binary. To try it again, run toolhost config reload")
	h.call("x", "tool:die")
	serves("1.0.0")

	h.install(t, "version=3.0.0")
	begun("3.0.0")
	restart(true)
	serves("1.0.0")
	begun("3.0.0") // the new host continues the rollout
	hosttest.Must(t, hosttest.Toolhost(t, h.work, "plugin", "rollout", "promote", "test").Run())
	hosttest.Wait(t, "the new version serves", func() bool { return strings.Contains(fmt.Sprint(h.call("x", "tool:where")), "version=3.0.0") })
	serves("3.0.0")
	restart(false)
	serves("3.0.0")

	versions := filepath.Join(h.work+".state", "versions")
	entries, err := os.ReadDir(versions)
	hosttest.Must(t, err)
	for _, e := range entries {
		hosttest.Must(t, os.Chtimes(filepath.Join(versions, e.Name()), time.Time{}, time.Now().Add(-2*time.Hour)))
	}
	out, err := hosttest.Toolhost(t, h.work, "state", "gc").Output()
	hosttest.Must(t, err)
	if !strings.Contains(string(out), fmt.Sprintf("%d copies of plugins", len(entries)-1)) {
		t.Errorf("%d copies: %s", len(entries), out)
	}
	if entries, err = os.ReadDir(versions); err != nil || len(entries) != 1 {
		t.Errorf("after gc: %v, %v", entries, err)
	}
	serves("3.0.0")
}

// TestPinsOfARollout checks which version of a pinned plugin runs. A binary that is not pinned must not start a
// rollout. When a new binary is pinned, its rollout must start. Until the new binary has passed the rollout, all hosts
// run the copy of the old binary. Without the rollout block, only the pin decides.
func TestPinsOfARollout(t *testing.T) {
	t.Parallel()
	h := newRolloutHost(t, 0, 50, time.Hour)
	prints := func(want string, args ...string) {
		t.Helper()
		c := hosttest.Toolhost(t, h.work, args...)
		c.Stderr = nil
		if out, err := c.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%v printed %s (%v), and not %s", args, out, err, want)
		}
	}
	serves := func(version string) {
		t.Helper()
		if got := fmt.Sprint(h.call("x", "tool:where")); !strings.Contains(got, "version="+version) {
			t.Errorf("want version %s: this host has %s", version, got)
		}
	}
	pin := func() { t.Helper(); hosttest.Must(t, hosttest.Toolhost(t, h.work, "plugin", "pin", "test").Run()) }
	pin()
	h.install(t, "version=2.0.0")
	prints("is pinned", "config", "reload")
	serves("1.0.0")
	prints("pin it again: toolhost plugin pin test", "run", "tool:where")
	if st := h.status(t); st.State != "" {
		t.Fatalf("a binary that is not pinned is rolled out: %+v", st)
	}
	pin()
	hosttest.Wait(t, "the rollout of the pinned binary began", func() bool { return h.status(t).New.Version == "2.0.0" })
	serves("1.0.0")
	prints("version=1.0.0", "run", "tool:where")
	config := filepath.Join(h.work, "toolhost.hcl")
	hosttest.Must(t, os.WriteFile(config, fmt.Appendf(nil, "bundled = false\nplugin \"test\" {\n  path = %q\n}\n", filepath.Join(h.work, "plugin")), 0o600))
	prints("version=2.0.0", "run", "tool:where")
}
