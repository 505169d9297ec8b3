package dispatch

import (
	"context"
	"testing"

	"toolhost.dev/host/internal/hook"
	"toolhost.dev/sdk/tool"
)

func TestALeaseIsReleasedHoweverTheCallEnds(t *testing.T) {
	deny := hookOn(tool.HookBefore, func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) {
		return &tool.HookAnswer{Decision: tool.HookDeny, Reason: "no"}, nil
	})
	for name, c := range map[string]struct {
		command string
		hooks   *hook.Set
		call    plugins
		leases  int64
	}{
		"success":        {"look", nil, ok, 1},
		"failure":        {"change", nil, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return unavailable() }, 1},
		"timeout":        {"brief", nil, untilDone, 1},
		"fallback":       {"look", nil, func(_ context.Context, c *tool.Call, _ tool.Peer) *tool.Result { return unavailable() }, 2},
		"refused":        {"danger", nil, ok, 1},
		"refused by one": {"look", deny, ok, 1},
		"unknown":        {"tool:nope", nil, ok, 0},
		"help":           {"look -h", nil, ok, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := &leased{plugins: c.call}
			d := dispatcher(t, nil)
			d.Plugins, d.Hooks = l, c.hooks
			if name == "fallback" {
				d.Registry.Lookup("", "look").Limits.Fallback = "change"
			}
			run(t, d, c.command)
			if l.taken.Load() != c.leases || l.released.Load() != c.leases {
				t.Errorf("%d leases taken, %d released, want %d", l.taken.Load(), l.released.Load(), c.leases)
			}
		})
	}
}
