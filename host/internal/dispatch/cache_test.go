package dispatch

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/stage"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/sdk/tool"
)

func TestCachedResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		n++
		time.Sleep(stage.SlowCall)
		return &tool.Result{Output: "ok", Run: tool.Run{Plugin: "p", PluginVersion: "1"}}
	})
	d.Limits.Metrics, d.Limits.Adaptive = new(telemetry.Metrics), new(adaptive.Learned)
	var last *tool.Result
	for range stage.OftenCalled + 2 {
		last = run(t, d, "stat --text x")
	}
	if n != stage.OftenCalled || !last.Run.CacheHit || last.Run.Attempts != 0 || last.Run.Plugin != "p" || last.Output != "ok" {
		t.Errorf("%d calls, %+v", n, last)
	}
	if a := d.dispatcher().Adapted("stat"); a == nil || a.Limit == 0 {
		t.Errorf("%+v", a)
	}
}

// TestFastResultsAreNotKept checks which results are worth a place in the cache: those of slow calls of a tool that is
// called often.
func TestFastResultsAreNotKept(t *testing.T) {
	for took, kept := range map[time.Duration]bool{0: false, stage.SlowCall - 1: false, stage.SlowCall: true} {
		d := dispatcher(t, ok)
		d.Limits.Metrics, d.Limits.Adaptive = new(telemetry.Metrics), new(adaptive.Learned)
		c := prepared(t, d, "stat --text x")
		synctest.Test(t, func(*testing.T) {
			n := 0
			cached := stage.Cache(d.Limits.Adaptive, d.Limits.Metrics).Wrap(func(context.Context, *Call) *tool.Result {
				n++
				time.Sleep(took)
				return &tool.Result{Output: "ok"}
			})
			for range stage.OftenCalled + 2 {
				cached(context.Background(), c)
				d.Limits.Metrics.Tool("stat").Ended(telemetry.Call{Execution: took, Attempts: 1})
			}
			if want := stage.OftenCalled + 2; !kept && n != want || kept && n != stage.OftenCalled {
				t.Errorf("calls of %s ran %d times", took, n)
			}
		})
	}
}

func TestWhatAResultDependsOn(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	d := dispatcher(t, ok)
	of := func(change func(c *Call)) (adaptive.ResultKey, bool) {
		c := prepared(t, d, "stat --path "+link)
		change(c)
		return c.CacheKey()
	}
	same := func(*Call) {}
	first, ok := of(same)
	if again, _ := of(same); !ok || again != first {
		t.Fatalf("%v, %v", again, first)
	}
	for name, change := range map[string]func(c *Call){
		"cwd":       func(c *Call) { c.Decision.Sent.Cwd = "/" },
		"roots":     func(c *Call) { c.Decision.Sent.Roots = nil },
		"arguments": func(c *Call) { c.Decision.Sent.Arguments = json.RawMessage(`{}`) },
		"plugin":    func(c *Call) { c.Identity.Lease = versioned{c.Identity.Lease} },
		"link": func(*Call) {
			_ = os.Remove(link)
			_ = os.Symlink("b", link)
		},
	} {
		if key, ok := of(change); !ok || key == first {
			t.Errorf("%s does not count", name)
		}
	}
	for name, change := range map[string]func(c *Call){
		"commands":  func(c *Call) { c.Decision.Sent.Commands = new(tool.Commands) },
		"no file":   func(c *Call) { c.Decision.Arguments["path"] = json.RawMessage(`"nope"`) },
		"no path":   func(c *Call) { c.Decision.Arguments["path"] = json.RawMessage(`1`) },
		"cacheable": func(c *Call) { c.Identity.Tool = d.Registry.Lookup("", "look") },
	} {
		if _, ok := of(change); ok {
			t.Errorf("%s: it is cached", name)
		}
	}
}

type versioned struct{ call.Lease }

func (versioned) Version() any { return 2 }
