package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/shim/wire"
	"toolhost.dev/host/router"
	"toolhost.dev/sdk/tool"
)

// granted implements [Commands]. Tests call its handler directly.
type granted struct {
	handle  shim.Handler
	revoked func()
}

func (*granted) Available() bool { return true }

func (g *granted) Grant(_ context.Context, handle shim.Handler) (*tool.Commands, func()) {
	g.handle = handle
	return &tool.Commands{Token: "t"}, g.revoked
}

func TestCallsOfCommands(t *testing.T) {
	var out, errs strings.Builder
	var order []string
	g := &granted{revoked: func() { order = append(order, "revoked") }}
	d := dispatcher(t, nil)
	d.Commands = g
	d.Registry.Lookup("", "change").Commands = true
	l := &leased{plugins: func(ctx context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "look" {
			order = append(order, call.ID+" in "+call.Cwd)
			return &tool.Result{Output: "looked", SessionState: []byte("lost"), Cwd: "/w/lost"}
		}
		for _, args := range [][]string{{"--text", "x"}, {"--nope"}} {
			code := g.handle(ctx, wire.Request{Name: "tool:look", Cwd: "/w/sub", Args: args}, shim.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
			order = append(order, fmt.Sprint("status ", code))
		}
		return &tool.Result{Output: call.Commands.Token, SessionState: []byte("kept")}
	}}
	d.Plugins = l
	d.Hooks = hookOn(tool.HookAfter, func(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		order = append(order, "after "+in.Tool)
		return nil, nil
	})
	entries := audited(t, d, func() {
		if res := run(t, d, "change"); res.Output != "t" {
			t.Errorf("%+v", res)
		}
	})
	if want := []string{"1.1 in /w/sub", "after look", "status 0", "status 2", "after change", "revoked"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	if out.String() != "looked\n" || !strings.HasPrefix(errs.String(), "tool:look: ") {
		t.Errorf("%q %q", out.String(), errs.String())
	}
	if e := entries[0]; e.Call != "1.1" || e.Parent != "1" || e.Tool != "look" {
		t.Errorf("%+v", e)
	}
	if s, err := d.State.PluginState("s", "p"); err != nil || string(s) != "kept" {
		t.Errorf("%q %v", s, err)
	}
	if l.taken.Load() != l.released.Load() {
		t.Errorf("%d leases taken, %d released", l.taken.Load(), l.released.Load())
	}
}

// TestAnAbandonedChildCall checks that an abandoned child call releases its lease.
func TestAnAbandonedChildCall(t *testing.T) {
	l := &leased{plugins: ok}
	d := dispatcher(t, nil)
	d.Plugins = l
	parent := prepared(t, d, "change")
	p := d.dispatcher().beginInside(parent, call.Request{ID: "1.1", Session: session("s")}, func(r *registry.Registry) *router.Command {
		return router.Argv("tool:look", nil, nil, r)
	})
	p.Abandon()
	if id := p.Identity(); id.Parent != "1" || id.Depth != 1 || l.taken.Load() != 2 || l.released.Load() != 1 {
		t.Errorf("%+v, %d leases taken, %d released", id, l.taken.Load(), l.released.Load())
	}
}

func TestChildCallsOfChildCallsEnd(t *testing.T) {
	d := dispatcher(t, ok)
	parent := prepared(t, d, "change")
	parent.Identity.Depth = call.MaxDepth
	var errs strings.Builder
	if code := d.childCalls().callsOf(parent).Handle(t.Context(), wire.Request{Name: "tool:look", Cwd: "/w"}, shim.Streams{Stderr: &errs}); code != shim.StatusUsage || !strings.Contains(errs.String(), "9 deep") {
		t.Errorf("status %d, %q", code, errs.String())
	}
}
