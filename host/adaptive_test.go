package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

func TestAdaptiveLimitsAreShownAndApplied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolhost.hcl")
	write := func(adaptive bool) {
		text := fmt.Sprintf("bundled = false\nhost {\n  adaptive = %t\n}\nplugin \"testplugin\" {}\ntool \"nap\" {\n  max_concurrent = 7\n}\n"+unconfined, adaptive)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(true)
	var slow atomic.Bool
	h := open(t, host.Options{Config: path, Hooks: []host.Hook{{Name: "slow", On: []tool.HookEvent{tool.HookBefore}, Handler: hookFunc(func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) {
		if slow.Load() {
			time.Sleep(5500 * time.Millisecond)
		}
		return nil, nil
	})}}})
	nap := func(ms int) *host.Result {
		return h.Run(t.Context(), host.Request{Name: "nap", Arguments: fmt.Appendf(nil, `{"ms":%d}`, ms)}, nil)
	}
	adapted := func() *host.ToolStats {
		for _, s := range h.Stats().Tools {
			if s.Name == "nap" {
				return &s
			}
		}
		t.Fatal("there are no stats")
		return nil
	}
	if res := nap(1); !res.Success() {
		t.Fatal(res.Error)
	}
	if a := adapted().Adaptive; a == nil || a.Timeout != 120_000 || a.TimeoutMost != 120_000 || a.LimitMost != 7 || a.Limit < 1 || a.Limit > 7 {
		t.Errorf("after one call: %+v", a)
	}
	for range 20 {
		if res := nap(1); !res.Success() {
			t.Fatal(res.Error)
		}
	}
	if a := adapted().Adaptive; a == nil || a.Timeout != 5_000 || a.TimeoutMost != 120_000 {
		t.Errorf("after many calls: %+v", a)
	}
	if res := nap(100_000); res.Error == nil || res.Error.Kind != tool.Timeout || !strings.Contains(res.Error.Message, "was stopped after 5s, a limit that adaptive mode") {
		t.Errorf("%+v", res.Error)
	}
	// The adaptive timeout must not apply to hooks, because a user's answer can take longer than the tool.
	slow.Store(true)
	if res := nap(1); !res.Success() {
		t.Error(res.Error)
	}
	slow.Store(false)

	write(false)
	if r, err := h.Reload(t.Context(), host.ReloadOptions{}); err != nil || r.Refused() {
		t.Fatal(r, err)
	}
	if a := adapted().Adaptive; a != nil {
		t.Errorf("it is off: %+v", a)
	}
}
