package dispatch

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

func TestJudgeRunsNothing(t *testing.T) {
	l := &leased{plugins: ok}
	d := dispatcher(t, nil)
	d.Plugins = l
	for command, want := range map[string]policy.Effect{"look": policy.Allow, "danger": policy.Ask, "off": policy.Deny, "look -h": policy.Allow} {
		if got := d.dispatcher().Judge(call.Request{Command: command, Session: session("s")}, true); got.Effect != want {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if err := d.State.Flush(); err != nil {
		t.Fatal(err)
	}
	if h, err := d.State.History("s", 1); err != nil || len(h) > 0 || l.taken.Load() > 0 {
		t.Errorf("%v %v, %d leases", h, err, l.taken.Load())
	}
}

func TestExplainRunsNothing(t *testing.T) {
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		t.Error("it ran")
		return &tool.Result{}
	})
	if c := d.dispatcher().Explain("look --text x", "/"); c.Error != nil || string(c.Kwargs["text"]) != `"x"` {
		t.Errorf("%+v", c)
	}
	if c := d.dispatcher().Explain("off", "/"); !errors.Is(c.Error, &tool.Error{Kind: tool.PermissionDenied}) {
		t.Errorf("%v", c.Error)
	}
	if c := d.dispatcher().Explain("git status", "/"); c.Error != nil {
		t.Errorf("%v", c.Error)
	}
}

func TestStagesWrapFromTheInside(t *testing.T) {
	var order []string
	stage := func(name string) Stage {
		return Stage{Name: name, Wrap: func(next Handler) Handler {
			order = append(order, "wrap "+name)
			return func(ctx context.Context, c *Call) *tool.Result {
				order = append(order, name)
				return next(ctx, c)
			}
		}}
	}
	h := build(func(context.Context, *Call) *tool.Result { return nil }, []Stage{stage("a"), stage("b")}, nil)
	h(t.Context(), new(Call))
	h(t.Context(), new(Call))
	if want := []string{"wrap b", "wrap a", "a", "b", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

// TestFields checks that a dispatcher has few fields and needs interfaces and values. An interface has one description
// for all implementations, and its methods are never nil.
func TestFields(t *testing.T) {
	if n := reflect.TypeFor[Dispatcher]().NumField(); n > 10 {
		t.Errorf("Dispatcher has %d fields, and 10 are permitted: a stage has what it needs itself", n)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Dispatcher](), reflect.TypeFor[Core](), reflect.TypeFor[Turns]()} {
		for _, f := range reflect.VisibleFields(of) {
			if f.Type.Kind() == reflect.Func && f.Type != reflect.TypeFor[Handler]() {
				t.Errorf("the field %s of %s is a function", f.Name, of)
			}
		}
	}
}
