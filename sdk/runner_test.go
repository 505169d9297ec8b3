package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

type silent struct{}

func (silent) Progress(string, map[string]any)                    {}
func (silent) Output(tool.Stream, []byte)                         {}
func (silent) Ask(context.Context, tool.Ask) (tool.Answer, error) { return tool.Answer{}, nil }
func (silent) FileStates(context.Context, ...string) (map[string]tool.FileState, error) {
	return nil, nil
}

type args struct {
	N int `json:"n,omitzero"`
}

func define(name string, run func(ctx context.Context, call *sdk.Call, in args) (*sdk.Result, error)) sdk.Tool {
	return sdk.NewTool(sdk.Definition{Name: name, Description: "d"}, run)
}

func plugin(t *testing.T, tools ...sdk.Tool) tool.Plugin {
	t.Helper()
	p, err := sdk.New(sdk.Plugin{Name: "p", Version: "1.0.0", Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func call(p tool.Plugin, name, arguments string) *tool.Result {
	return p.Call(context.Background(), &tool.Call{Tool: name, Arguments: json.RawMessage(arguments)}, silent{})
}

func TestHandlers(t *testing.T) {
	var nilMap map[string]int
	p := plugin(t,
		define("ok", func(_ context.Context, _ *sdk.Call, in args) (*sdk.Result, error) {
			return sdk.Text(fmt.Sprint(in.N)), nil
		}),
		define("none", func(context.Context, *sdk.Call, args) (*sdk.Result, error) { return nil, nil }),
		define("panic", func(context.Context, *sdk.Call, args) (*sdk.Result, error) { panic("oh no") }),
		define("nilpanic", func(context.Context, *sdk.Call, args) (*sdk.Result, error) { panic(nil) }), //nolint:govet // on purpose
		define("nilmap", func(context.Context, *sdk.Call, args) (*sdk.Result, error) { nilMap["x"] = 1; return nil, nil }),
		define("plain", func(context.Context, *sdk.Call, args) (*sdk.Result, error) { return nil, errors.New("plain") }),
		define("both", func(context.Context, *sdk.Call, args) (*sdk.Result, error) {
			return &sdk.Result{Output: "half", Data: json.RawMessage(`1`), Cwd: "/x", SessionState: []byte("s"), Effects: []tool.Effect{{}}}, sdk.Errorf(tool.Conflict, "c").WithCode(7)
		}),
		define("baddata", func(context.Context, *sdk.Call, args) (*sdk.Result, error) {
			return &sdk.Result{Data: sdk.Data(func() {})}, nil
		}),
	)
	for _, tc := range []struct {
		name, args string
		kind       tool.Kind
		want       string
	}{
		{"ok", `{"n":9007199254740993}`, "", "9007199254740993"},
		{"ok", `{}`, "", "0"},
		{"ok", `{"n":"x"}`, tool.InvalidArguments, "do not fit"},
		{"ok", `{`, tool.InvalidArguments, "do not fit"},
		{"ok", ``, tool.InvalidArguments, "do not fit"},
		{"none", `{}`, tool.Internal, "neither a result nor an error"},
		{"panic", `{}`, tool.Internal, "panicked: oh no"},
		{"nilpanic", `{}`, tool.Internal, "panicked: panic called with nil"},
		{"nilmap", `{}`, tool.Internal, "assignment to entry in nil map"},
		{"plain", `{}`, tool.ExecutionFailed, "plain"},
		{"both", `{}`, tool.Conflict, "c"},
		{"baddata", `{}`, tool.Internal, "structured data of type func()"},
		{"okk", `{}`, tool.NotFound, `has no tool "okk". Did you mean "ok"`},
	} {
		res := call(p, tc.name, tc.args)
		switch {
		case tc.kind == "" && (res.Error != nil || res.Output != tc.want):
			t.Errorf("%s %s: %q %v", tc.name, tc.args, res.Output, res.Error)
		case tc.kind != "" && (res.Error == nil || res.Error.Kind != tc.kind || !strings.Contains(res.Error.Message, tc.want)):
			t.Errorf("%s %s: %+v", tc.name, tc.args, res.Error)
		}
	}
	res := call(p, "both", `{}`)
	if res.Error.Code != 7 || string(res.Data) != "1" || res.Cwd != "/x" || len(res.Effects) != 1 || string(res.SessionState) != "s" || res.Success() {
		t.Errorf("a failure lost what came with it: %+v", res)
	}
}

// blocking returns a tool whose handler signals its start and then waits until its context ends.
func blocking(started chan<- struct{}) sdk.Tool {
	return define("block", func(ctx context.Context, _ *sdk.Call, _ args) (*sdk.Result, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, fmt.Errorf("stopped: %w", ctx.Err())
	})
}

func TestCancelAndDeadline(t *testing.T) {
	started := make(chan struct{}, 1)
	p := plugin(t, blocking(started))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if res := p.Call(ctx, &tool.Call{Tool: "block", Arguments: json.RawMessage(`{}`)}, silent{}); res.Error.Kind != tool.Canceled {
		t.Errorf("%+v", res.Error)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if res := p.Call(ctx, &tool.Call{Tool: "block", Arguments: json.RawMessage(`{}`)}, silent{}); res.Error.Kind != tool.Timeout {
		t.Errorf("%+v", res.Error)
	}
}

func TestDrainWaits(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	p := plugin(t, define("slow", func(context.Context, *sdk.Call, args) (*sdk.Result, error) {
		started <- struct{}{}
		<-finish
		return sdk.Text("done"), nil
	}), define("quick", func(context.Context, *sdk.Call, args) (*sdk.Result, error) { return sdk.Text(""), nil }))
	results := make(chan *tool.Result, 3)
	for range 3 {
		go func() { results <- call(p, "slow", `{}`) }()
		<-started
	}
	drained := make(chan int, 2)
	for range 2 { // two concurrent drains must work like one
		go func() {
			n, err := p.Drain(t.Context(), 0)
			if err != nil {
				t.Error(err)
			}
			drained <- n
		}()
	}
	for { // repeat until draining has begun and new calls are refused
		res := call(p, "quick", `{}`)
		if res.Error == nil {
			continue
		}
		if res.Error.Kind != tool.Unavailable || !strings.Contains(res.Error.Message, "being replaced") {
			t.Errorf("%+v", res.Error)
		}
		break
	}
	select {
	case <-drained:
		t.Fatal("drained while calls run")
	default:
	}
	close(finish)
	if a, b := <-drained, <-drained; a != 0 || b != 0 {
		t.Errorf("canceled %d, %d", a, b)
	}
	for range 3 {
		if res := <-results; res.Output != "done" {
			t.Errorf("%+v", res.Error)
		}
	}
	if n, err := p.Drain(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("a drained plugin: %d %v", n, err)
	}
}

func TestDrainCancelsAfterItsGrace(t *testing.T) {
	started := make(chan struct{})
	p := plugin(t, blocking(started))
	results := make(chan *tool.Result, 2)
	for range 2 {
		go func() { results <- call(p, "block", `{}`) }()
		<-started
	}
	if n, err := p.Drain(t.Context(), time.Millisecond); n != 2 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	for range 2 {
		if res := <-results; res.Error == nil || res.Error.Kind != tool.Unavailable || !strings.Contains(res.Error.Message, "before the plugin was replaced") {
			t.Errorf("%+v", res.Error)
		}
	}
}

func TestDrainEndsWithItsContext(t *testing.T) {
	started := make(chan struct{})
	p := plugin(t, blocking(started))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Call(ctx, &tool.Call{Tool: "block", Arguments: json.RawMessage(`{}`)}, silent{})
	}()
	<-started
	gone, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Drain(gone, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	cancel()
	<-done
}

func TestCallsWhileDraining(t *testing.T) {
	p := plugin(t, define("quick", func(context.Context, *sdk.Call, args) (*sdk.Result, error) { return sdk.Text("x"), nil }))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if res := call(p, "quick", `{}`); res.Error != nil && res.Error.Kind != tool.Unavailable {
					t.Errorf("%+v", res.Error)
				}
			}
		})
	}
	wg.Go(func() {
		if n, err := p.Drain(t.Context(), 0); n != 0 || err != nil {
			t.Errorf("%d %v", n, err)
		}
	})
	wg.Wait()
}

func TestNewReportsEverything(t *testing.T) {
	type bad struct {
		C chan int `json:"c"`
	}
	_, err := sdk.New(sdk.Plugin{Name: "Bad Name", Tools: []sdk.Tool{
		define("x", nil), define("x", nil), define("", nil),
		sdk.NewTool(sdk.Definition{Name: "chan", Description: "d"}, func(context.Context, *sdk.Call, bad) (*sdk.Result, error) { return nil, nil }),
		sdk.NewTool(sdk.Definition{Name: "stdin", Description: "d", StdinParameter: "q"}, func(context.Context, *sdk.Call, args) (*sdk.Result, error) { return nil, nil }),
	}})
	if err == nil {
		t.Fatal("it is accepted")
	}
	for _, want := range []string{`invalid plugin name "Bad Name"`, "version is empty", `tool "x": the name is used twice`, `tool "": the name is empty`, `tool "chan": cannot infer`, `stdin parameter "q"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q:\n%v", want, err)
		}
	}
}

func TestConfigure(t *testing.T) {
	type conf struct {
		Port int `json:"port" min:"1"`
	}
	var got conf
	fail := error(nil)
	p, err := sdk.New(sdk.Plugin{Name: "p", Version: "1.0.0", Config: sdk.NewConfig(func(_ context.Context, c conf, s sdk.Setup) error {
		got = c
		if s.StateDir != "" || s.HostVersion != "1.2.3" || len(s.Roots) != 1 {
			t.Errorf("%+v", s)
		}
		return fail
	})})
	if err != nil {
		t.Fatal(err)
	}
	set := tool.Configuration{Config: json.RawMessage(`{"port":7}`), HostVersion: "1.2.3", Roots: []tool.Root{{Path: "/x"}}}
	if d, err := p.Configure(t.Context(), set); len(d) > 0 || err != nil || got.Port != 7 {
		t.Errorf("%v %v %+v", d, err, got)
	}
	fail = fmt.Errorf("wrapped: %w", &sdk.ConfigError{Path: []string{"port"}, Summary: "taken", Detail: "choose another"})
	if d, _ := p.Configure(t.Context(), set); len(d) != 1 || d[0].Summary != "taken" || d[0].Detail != "choose another" || d[0].Path[0] != "port" || d[0].Severity != tool.SeverityError {
		t.Errorf("%+v", d)
	}
	fail = errors.New("plain")
	if d, _ := p.Configure(t.Context(), set); len(d) != 1 || d[0].Summary != "plain" {
		t.Errorf("%+v", d)
	}
	set.Config = json.RawMessage(`{"port":"x"}`)
	if d, _ := p.Configure(t.Context(), set); len(d) != 1 {
		t.Errorf("%+v", d)
	}
}

func TestHealth(t *testing.T) {
	p := plugin(t, define("x", nil))
	for name, want := range map[string]tool.HealthStatus{"": tool.Healthy, "x": tool.Healthy, "y": tool.HealthNotFound} {
		if h, err := p.Health(t.Context(), name); err != nil || h.Status != want {
			t.Errorf("%q: %+v %v", name, h, err)
		}
	}
}
