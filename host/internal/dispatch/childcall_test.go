package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/shim/wire"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/router"
	"toolhost.dev/sdk/tool"
)

// pending is a child call with a given result.
type pending struct {
	id        call.Identity
	res       *tool.Result
	ran       bool
	abandoned bool
}

func (p *pending) Identity() *call.Identity { return &p.id }

func (p *pending) Run(context.Context, call.Client) *tool.Result {
	p.ran = true
	return p.res
}

func (p *pending) Abandon() { p.abandoned = true }

func parent() *call.Call {
	c := new(call.Call)
	c.Request = call.Request{ID: "7", MessageID: "m", Session: call.Session{Session: state.Session{ID: "s", Cwd: "/w"}}}
	return c
}

func TestRequestsOfChildCalls(t *testing.T) {
	var got []call.Request
	r := registry.New()
	calls := newChildCalls(parent(), func(req call.Request, parse func(*registry.Registry) *router.Command) pendingChild {
		got = append(got, req)
		return &pending{id: call.Identity{Command: parse(r)}, res: new(tool.Result)}
	})
	for range 2 {
		if status := calls.Handle(t.Context(), wire.Request{Name: "tool:nope", Cwd: "/w/sub/"}, shim.Streams{}); status != 0 {
			t.Errorf("status %d", status)
		}
	}
	for i, req := range got {
		if req.ID != fmt.Sprint("7.", i+1) || req.MessageID != "m" || req.Session.ID != "s" || req.Session.Cwd != "/w/sub" {
			t.Errorf("%+v", req)
		}
	}
}

// TestAChildCallWithoutASlot checks that a child call is abandoned if its command ends while the call waits for a slot.
func TestAChildCallWithoutASlot(t *testing.T) {
	p := new(pending)
	calls := newChildCalls(parent(), func(call.Request, func(*registry.Registry) *router.Command) pendingChild { return p })
	for range maxChildCalls {
		calls.slots <- struct{}{}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if status := calls.Handle(gone, wire.Request{Name: "tool:look", Cwd: "/w"}, shim.Streams{}); status != shim.StatusCannotRun || p.ran || !p.abandoned {
		t.Errorf("status %d, %+v", status, p)
	}
}

func TestTheNestingLimit(t *testing.T) {
	for depth, refused := range map[int]bool{call.MaxDepth - 1: false, call.MaxDepth: true} {
		c := parent()
		c.Identity.Depth = depth
		cmd := newChildCalls(c, nil).parse(wire.Request{Name: "tool:look"}, nil, registry.New())
		if limited := cmd.Error != nil && cmd.Error.Kind == tool.InvalidArguments && cmd.Error.Source == tool.SourceHost; limited != refused {
			t.Errorf("depth %d: %v", depth, cmd.Error)
		}
	}
}

// TestReadAll checks that readAll rejects a text that is longer than the longest command.
func TestReadAll(t *testing.T) {
	if s, err := readAll(strings.NewReader("text")); s != "text" || err != nil {
		t.Errorf("%q %v", s, err)
	}
	if _, err := readAll(strings.NewReader(strings.Repeat("x", router.MaxCommand+1))); err == nil {
		t.Error("a text above the limit is accepted")
	}
}

func TestWhatAShimPrints(t *testing.T) {
	shell := &registry.Entry{Definition: tool.Definition{Name: "sh", Role: tool.RoleShell}}
	look := &registry.Entry{Definition: tool.Definition{Name: "look"}}
	failed := func(kind tool.Kind, message string, code int) *tool.Error {
		e := tool.Errorf(kind, "%s", message)
		e.Code = code
		return e
	}
	for name, c := range map[string]struct {
		tool           *registry.Entry
		res            tool.Result
		status         int
		stdout, stderr string
	}{
		"result":         {look, tool.Result{Output: "text\n"}, 0, "text\n", ""},
		"nothing":        {look, tool.Result{}, 0, "", ""},
		"failure":        {look, tool.Result{Error: failed(tool.ExecutionFailed, "look: no", 0)}, 1, "", "tool:look: no\n"},
		"usage":          {look, tool.Result{Error: failed(tool.InvalidArguments, "no", 0)}, shim.StatusUsage, "", "tool:look: no\n"},
		"unknown":        {nil, tool.Result{Error: failed(tool.NotFound, "no", 0)}, shim.StatusNotFound, "", "tool:look: no\n"},
		"no such file":   {look, tool.Result{Error: failed(tool.NotFound, "no", 0)}, 1, "", "tool:look: no\n"},
		"shell":          {shell, tool.Result{Output: "both", Data: []byte(`{"stdout":"o","stderr":"e"}`)}, 0, "o", "e"},
		"shell, status":  {shell, tool.Result{Data: []byte(`{"stdout":"o"}`), Error: failed(tool.ExecutionFailed, "exit status 3", 3)}, 3, "o", ""},
		"shell, refused": {shell, tool.Result{Data: []byte(`{}`), Error: failed(tool.Timeout, "slow", 0)}, 1, "", "tool:look: slow\n"},
	} {
		var out, errs strings.Builder
		id := &call.Identity{Command: &router.Command{Name: "look"}, Tool: c.tool}
		status := printResult(id, "tool:look", &c.res, shim.Streams{Stdout: &out, Stderr: &errs})
		if status != c.status || out.String() != c.stdout || errs.String() != c.stderr {
			t.Errorf("%s: status %d, %q, %q", name, status, out.String(), errs.String())
		}
	}
	id := &call.Identity{Command: new(router.Command), Tool: look}
	if status := printResult(id, "tool:look", &tool.Result{Output: "x"}, shim.Streams{Stdout: closed{}}); status != shim.StatusCannotRun {
		t.Errorf("status %d after the shim has gone", status)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }
