package dispatch

import (
	"context"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// TestACallGoesToTheLatestGeneration checks that a call that cannot lease a plugin of its own generation uses the
// latest generation.
func TestACallGoesToTheLatestGeneration(t *testing.T) {
	now := dispatcher(t, ok)
	old := dispatcher(t, nil)
	old.Plugins = replaced{}
	old.Host = later{now}
	if res := run(t, old, "look"); res.Output != "ok" {
		t.Errorf("%+v", res)
	}
	if err := now.State.Flush(); err != nil {
		t.Fatal(err)
	}
	if h, err := now.State.History("s", 1); err != nil || len(h) != 1 {
		t.Errorf("%v %v", h, err)
	}
}

type replaced struct{ plugins }

func (replaced) Lease(*Call) bool { return false }

// withoutLost are plugins without the plugin "lost".
type withoutLost struct{ Plugins }

func (withoutLost) WhyUnloaded(name string) string {
	if name == "lost" {
		return "The plugin lost is not loaded."
	}
	return ""
}

func TestEveryWayToEndGivesAResult(t *testing.T) {
	d := dispatcher(t, ok)
	d.Plugins = withoutLost{d.Plugins}
	for command, want := range map[string]struct {
		kind   tool.Kind
		source tool.Source
		text   string
	}{
		"look":             {"", "", "ok"},
		"look -h":          {"", "", "look: d"},
		"look --text":      {tool.InvalidArguments, tool.SourceHost, "needs a value"},
		"off":              {tool.PermissionDenied, tool.SourceHost, "disabled"},
		"danger":           {tool.PermissionDenied, tool.SourceHost, "needs a confirmation"},
		"change --path /x": {tool.Security, tool.SourceHost, "outside"},
		"tool:nope":        {tool.NotFound, tool.SourceHost, "Unknown tool"},
		"tool:lost":        {tool.Unavailable, tool.SourcePlugin, "not loaded"},
		"lost a b":         {tool.Unavailable, tool.SourcePlugin, "not loaded"},
		"git status":       {tool.NotFound, tool.SourceHost, "there is no shell"},
		"echo 'open":       {tool.InvalidArguments, tool.SourceHost, "cannot be parsed"},
		"":                 {tool.InvalidArguments, tool.SourceHost, "empty"},
	} {
		res := run(t, d, command)
		if want.kind == "" && (res.Error != nil || res.Output != want.text) {
			t.Errorf("%q: %q %v", command, res.Output, res.Error)
		}
		if want.kind != "" && (res.Error == nil || res.Error.Kind != want.kind || res.Error.Source != want.source || !strings.Contains(res.Error.Message, want.text)) {
			t.Errorf("%q: %+v", command, res.Error)
		}
		if res.Run.CallID != "1" {
			t.Errorf("%q: the result is not tagged", command)
		}
	}
	// The queue must be empty after the earlier calls.
	if res := run(t, d, "change"); res.Output != "ok" {
		t.Errorf("%+v", res.Error)
	}
	if h, err := d.State.History("s", 100); err != nil || len(h) > 13 {
		t.Errorf("%d %v", len(h), err)
	}
}

func TestALeaseIsReleasedHoweverTheCallEnds(t *testing.T) {
	deny := hookOn(tool.HookBefore, func(context.Context, *tool.HookInput) (*tool.HookAnswer, error) {
		return &tool.HookAnswer{Decision: tool.HookDeny, Reason: "no"}, nil
	})
	for name, c := range map[string]struct {
		command string
		hooks   Stage
		call    plugins
		leases  int64
	}{
		"success":        {"look", Stage{}, ok, 1},
		"failure":        {"change", Stage{}, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return unavailable() }, 1},
		"timeout":        {"brief", Stage{}, untilDone, 1},
		"fallback":       {"look", Stage{}, func(_ context.Context, c *tool.Call, _ tool.Peer) *tool.Result { return unavailable() }, 2},
		"refused":        {"danger", Stage{}, ok, 1},
		"refused by one": {"look", deny, ok, 1},
		"unknown":        {"tool:nope", Stage{}, ok, 0},
		"help":           {"look -h", Stage{}, ok, 0},
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

// TestNoPrincipal checks that every kind of call without a principal is refused.
func TestNoPrincipal(t *testing.T) {
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		t.Error("the call ran")
		return new(tool.Result)
	})
	s := session("s")
	s.Principal = nil
	for _, command := range []string{"look", "help", "change"} {
		if e := d.Begin(call.Request{ID: "1", Command: command, Session: s}).Run(t.Context(), client{}).Error; e == nil || e.Kind != tool.PermissionDenied {
			t.Errorf("%s: %+v", command, e)
		}
		if got := d.dispatcher().Judge(call.Request{Command: command, Session: s}, true).Effect; got != "deny" {
			t.Errorf("%s: judged %s", command, got)
		}
	}
}

// TestASessionThatCannotBeRead checks that the dispatcher refuses and records a call if it cannot read the session at
// its turn, and that the call leaves the queue.
func TestASessionThatCannotBeRead(t *testing.T) {
	d := dispatcher(t, ok)
	first, second := begin(d, "1", "s", "change"), begin(d, "2", "s", "change")
	if res := first.Run(t.Context(), client{}); !res.Success() {
		t.Error(res.Error)
	}
	if err := d.State.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, second.Run(t.Context(), client{}), tool.ExecutionFailed, "the session s cannot be read")
	if calls := d.Turns.Scheduler.Calls(); len(calls) != 0 {
		t.Errorf("%+v", calls)
	}
}
