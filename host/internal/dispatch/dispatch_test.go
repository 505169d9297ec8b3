package dispatch

import (
	"context"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"toolhost.dev/host/internal/adaptive"
	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/hook"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/quota"
	"toolhost.dev/host/internal/recorder"
	"toolhost.dev/host/internal/rollout"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/sdk/tool"
)

func TestJudgeRunsNothing(t *testing.T) {
	l := &leased{plugins: ok}
	d := dispatcher(t, nil)
	d.Plugins = l
	for command, want := range map[string]policy.Effect{"look": policy.Allow, "danger": policy.Ask, "off": policy.Deny, "look -h": policy.Allow} {
		if got := d.Judge(call.Request{Command: command, Session: session("s")}, true); got.Effect != want {
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
	if c := d.Explain("look --text x", "/"); c.Error != nil || string(c.Kwargs["text"]) != `"x"` {
		t.Errorf("%+v", c)
	}
	if c := d.Explain("off", "/"); !errors.Is(c.Error, &tool.Error{Kind: tool.PermissionDenied}) {
		t.Errorf("%v", c.Error)
	}
	if c := d.Explain("git status", "/"); c.Error != nil {
		t.Errorf("%v", c.Error)
	}
}

// allOn enables all features of a dispatcher.
func allOn(d *Dispatcher) *Dispatcher {
	d.Gates, d.Adaptive, d.Commands = new(scheduler.Gates), new(adaptive.Learned), new(granted)
	d.Hooks = hook.New([]hook.Hook{{Name: "h", On: []tool.HookEvent{tool.HookAfter}, Tools: []string{"other"}}})
	d.Recorder, d.Rollouts = new(recorder.Recorder), new(rollout.Set)
	d.Quota, d.Quotas = new(quota.Set), quota.Rules{"field:x": {Parallel: 1}}
	d.Results = stored{}
	return d
}

func names(stages []Stage) []string {
	var out []string
	for _, s := range stages {
		out = append(out, s.Name)
	}
	return out
}

func TestStagesAreThoseOfTheArchitecture(t *testing.T) {
	text, err := os.ReadFile("../../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)## The life of a call\n.*?\n## `).Find(text)
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^\d+\. \*\*(\w+)\*\*`).FindAllSubmatch(section, -1) {
		documented = append(documented, string(m[1]))
	}
	if got := names(allOn(dispatcher(t, ok)).stages()); !slices.Equal(got, documented) {
		t.Errorf("stages are %q, ARCHITECTURE.md lists %q", got, documented)
	}
}

func TestStagesOfFeaturesThatAreOffAreLeftOut(t *testing.T) {
	all := names(allOn(dispatcher(t, ok)).stages())
	least := names(dispatcher(t, ok).stages())
	missing := slices.DeleteFunc(all, func(s string) bool { return slices.Contains(least, s) })
	if want := []string{"bounds", "hooks", "quota", "limit", "tape", "cache", "rollout"}; !slices.Equal(missing, want) {
		t.Errorf("left out are %q, want %q", missing, want)
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
	h := new(Dispatcher).build(func(context.Context, *Call) *tool.Result { return nil }, compact(stage("a"), Stage{}, stage("b")))
	h(t.Context(), new(Call))
	h(t.Context(), new(Call))
	if want := []string{"wrap b", "wrap a", "a", "b", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}

func TestHandlersAreBuiltOnce(t *testing.T) {
	d := dispatcher(t, ok)
	n := testing.AllocsPerRun(10, d.prepare)
	if n > 0 || d.run == nil || d.answer == nil {
		t.Errorf("%f allocations", n)
	}
}

// TestNoFunctionFields checks that a dispatcher needs interfaces and values. An interface has one description for all
// implementations, and its methods are never nil.
func TestNoFunctionFields(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Dispatcher]()) {
		if f.IsExported() && f.Type.Kind() == reflect.Func {
			t.Errorf("the field %s is a function", f.Name)
		}
	}
}
