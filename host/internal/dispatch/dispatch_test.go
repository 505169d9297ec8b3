package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
	"toolhost.dev/sdk/tool"
)

func TestEveryWayToEndGivesAResult(t *testing.T) {
	d := dispatcher(t, ok)
	d.Unloaded = func(name string) string {
		if name == "lost" {
			return "The plugin lost is not loaded."
		}
		return ""
	}
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
		"tool:nope":        {tool.NotFound, tool.SourceHost, "There is no tool"},
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
	// None of them left a place in the line behind.
	if res := run(t, d, "change"); res.Output != "ok" {
		t.Errorf("%+v", res.Error)
	}
	if h, err := d.State.History("s", 100); err != nil || len(h) > 13 {
		t.Errorf("%d %v", len(h), err)
	}
}

// A call that died with its plugin is repeated once, if it only reads.
func TestRetries(t *testing.T) {
	for name, attempts := range map[string]int{"look": 5, "change": 1} {
		n := 0
		d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
			n++
			res := tool.Failed(tool.Errorf(tool.Unavailable, "it died"))
			res.Run.Plugin = "p"
			return res
		})
		if name == "look" {
			d.Registry.Lookup("", name).Limits = registry.Limits{Attempts: 7, RetryDelay: time.Millisecond}
			if res := run(t, d, name); n != 7 || res.Run.Attempts != 7 {
				t.Errorf("%d attempts of 7", n)
			}
			d.Registry.Lookup("", name).Limits, n = registry.Limits{}, 0
		}
		if res := run(t, d, name); res.Error == nil || n != attempts || res.Run.Attempts != attempts {
			t.Errorf("%s: %d attempts, %+v", name, n, res.Run)
		}
	}
}

func TestFallback(t *testing.T) {
	down := tool.Failed(tool.Errorf(tool.Unavailable, "it is down"))
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "look" {
			res := *down
			return &res
		}
		return &tool.Result{Output: call.Tool + string(call.Arguments)}
	})
	limits := &d.Registry.Lookup("", "look").Limits
	limits.Fallback, limits.FallbackParams = "change", map[string]string{"path": "text"}
	if res := run(t, d, "look --path x.txt"); res.Output != `change{"text":"x.txt"}` || res.Metadata["fallback_for"] != "look" || res.Run.CallID != "1" {
		t.Errorf("%+v %v", res, res.Error)
	}
	// What the fallback cannot do either is the first one's failure.
	limits.Fallback = "off"
	if res := run(t, d, "look"); res.Error == nil || res.Error.Message != "it is down" {
		t.Errorf("%+v", res)
	}
	// One that leads back to itself ends.
	limits.Fallback = "look"
	if res := run(t, d, "look"); res.Error == nil || res.Error.Message != "it is down" {
		t.Errorf("%+v", res)
	}
	down.Error = tool.Errorf(tool.NotFound, "there is no such file")
	limits.Fallback = "change"
	if res := run(t, d, "look"); res.Error == nil || res.Error.Kind != tool.NotFound {
		t.Errorf("an answer of the tool is no reason: %+v", res)
	}
}

func TestBusyTools(t *testing.T) {
	inside, let := make(chan struct{}, 10), make(chan struct{})
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		inside <- struct{}{}
		<-let
		return &tool.Result{Output: "ok"}
	})
	d.Gates = new(scheduler.Gates)
	limits := &d.Registry.Lookup("", "look").Limits
	limits.MaxConcurrent, limits.Queue = 1, -1
	done := make(chan *tool.Result)
	go func() { done <- run(t, d, "look") }()
	<-inside
	res := d.Begin(Request{ID: "2", Command: "look", Session: session("other")}).Run(t.Context(), front{})
	if res.Error == nil || res.Error.Kind != tool.Unavailable || !strings.Contains(res.Error.Message, "The tool look is busy: 1 calls run and 0 wait") {
		t.Errorf("%+v", res.Error)
	}
	close(let)
	if res := <-done; !res.Success() {
		t.Error(res.Error)
	}
	if res := run(t, d, "look"); !res.Success() {
		t.Error(res.Error)
	}
}

func TestTimeLimits(t *testing.T) {
	d := dispatcher(t, func(ctx context.Context, _ *tool.Call, _ tool.Peer) *tool.Result {
		<-ctx.Done()
		return tool.Failed(ctx.Err())
	})
	if e := run(t, d, "brief").Error; e == nil || e.Kind != tool.Timeout || !strings.Contains(e.Message, `brief took longer than 50ms and was stopped`) || !strings.Contains(e.Message, `tool "brief" { timeout`) {
		t.Errorf("%+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := d.Begin(Request{Command: "change", Session: session("s")})
	cancel()
	if e := p.Run(ctx, front{}).Error; e == nil || e.Kind != tool.Canceled {
		t.Errorf("%+v", e)
	}
}

// The calls of a session run in the order of Begin, each with what the one before left.
func TestSessionState(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		return &tool.Result{Output: string(call.SessionState), SessionState: append(call.SessionState, 'x')}
	})
	var pending []*Pending
	for range 20 {
		pending = append(pending, d.Begin(Request{Command: "change", Session: session("s")}))
	}
	results := make([]string, len(pending))
	var wg sync.WaitGroup
	for i := len(pending) - 1; i >= 0; i-- { // run in any order
		wg.Go(func() { results[i] = pending[i].Run(t.Context(), front{}).Output })
	}
	wg.Wait()
	for i, r := range results {
		if r != strings.Repeat("x", i) {
			t.Errorf("call %d found %q", i, r)
		}
	}
	if res := d.Begin(Request{Command: "change", Session: session("other")}).Run(t.Context(), front{}); res.Output != "" {
		t.Errorf("another session found %q", res.Output)
	}
}

func TestDirectoriesAndFiles(t *testing.T) {
	known := tool.FileState{Path: "/w/f", Size: 3, ModTime: time.Unix(1, 0)}
	cwd := ""
	d := dispatcher(t, func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		states, err := peer.FileStates(ctx, "/w/f", "/w/g")
		if err != nil {
			return tool.Failed(err)
		}
		res := &tool.Result{Output: fmt.Sprint(len(states)), Cwd: cwd, Effects: []tool.Effect{{Operation: tool.OpRead, File: known}}}
		if call.Tool == "change" {
			res.Error = tool.Errorf(tool.ExecutionFailed, "no")
		}
		return res
	})
	if res := run(t, d, "look"); res.Output != "0" {
		t.Error(res.Output, res.Error)
	}
	if res := run(t, d, "look"); res.Output != "1" {
		t.Error(res.Output, res.Error)
	}
	cwd = "/w/sub"
	run(t, d, "look")
	if s, ok, err := d.State.Session("s"); err != nil || !ok || s.Cwd != cwd {
		t.Errorf("%+v %v", s, err)
	}
	for _, out := range []string{"/", "/w-evil", "relative", "/w/../etc"} {
		cwd = out
		if res := run(t, d, "look"); !strings.Contains(res.Output, "[note: the session stays in /w") {
			t.Errorf("%s: %q", out, res.Output)
		}
		if res := run(t, d, "change"); !strings.Contains(res.Error.Message, "[note: the session stays in /w") {
			t.Errorf("%s: %q", out, res.Error.Message)
		}
		if s, _, _ := d.State.Session("s"); s.Cwd != "/w/sub" {
			t.Errorf("%s: the session is in %s", out, s.Cwd)
		}
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

// What runs before a call in its session's line may change where the call's paths lead.
func TestACallThatWaitedIsJudgedAgain(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	started, changed := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		if calls.Add(1) == 1 {
			close(started)
			<-changed
		}
		return &tool.Result{Output: "ok"}
	})
	s := session("s")
	s.Workspace, s.Cwd, s.Roots = dir, dir, []tool.Root{{Path: dir, Writable: true}}
	begin := func(id string) *Pending {
		return d.Begin(Request{ID: id, Command: "change --path sub/file", Session: s})
	}
	var wg sync.WaitGroup
	results := make([]*tool.Result, 2)
	for i, p := range []*Pending{begin("1"), begin("2")} {
		wg.Go(func() { results[i] = p.Run(t.Context(), front{}) })
	}
	<-started
	time.Sleep(100 * time.Millisecond) // as a rule the second one was judged by then; it must not run in any case
	if err := os.Symlink("/", filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	close(changed)
	wg.Wait()
	if !results[0].Success() || results[1].Error == nil || results[1].Error.Kind != tool.Security || calls.Load() != 1 {
		t.Errorf("%+v, %+v, %d calls", results[0].Error, results[1].Error, calls.Load())
	}
}
