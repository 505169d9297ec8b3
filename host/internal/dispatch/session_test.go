package dispatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/sdk/tool"
)

// TestSessionState checks that the calls of a session run in the order of the Begin calls. Each call must receive the
// state after the previous call.
func TestSessionState(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		return &tool.Result{Output: string(call.SessionState), SessionState: append(call.SessionState, 'x')}
	})
	var pending []*Pending
	for range 20 {
		pending = append(pending, d.Begin(call.Request{Command: "change", Session: session("s")}))
	}
	results := make([]string, len(pending))
	var wg sync.WaitGroup
	for i := len(pending) - 1; i >= 0; i-- { // call Run in reverse order
		wg.Go(func() { results[i] = pending[i].Run(t.Context(), client{}).Output })
	}
	wg.Wait()
	for i, r := range results {
		if r != strings.Repeat("x", i) {
			t.Errorf("call %d found %q", i, r)
		}
	}
	if res := d.Begin(call.Request{Command: "change", Session: session("other")}).Run(t.Context(), client{}); res.Output != "" {
		t.Errorf("another session found %q", res.Output)
	}
}

// TestRepositories checks that repositories are prepared before a call and searched after the call, even if the call
// failed. If the preparation fails, the call must not run.
func TestRepositories(t *testing.T) {
	var log []string
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		log = append(log, "call")
		return tool.Failed(tool.Errorf(tool.ExecutionFailed, "no"))
	})
	broken := false
	d.Plugins = sandboxed{d.Plugins, &sandbox{watch: func(roots []tool.Root) (func() []string, error) {
		if broken {
			return nil, tool.Errorf(tool.Unavailable, "broken")
		}
		log = append(log, "before "+fmt.Sprint(len(roots)))
		return func() []string { log = append(log, "after"); return []string{"a", "b", "c", "d", "e", "f", "g"} }, nil
	}}}
	res := run(t, d, "change")
	if got := strings.Join(log, ", "); got != "before 1, call, after" || res.Error == nil || !strings.HasSuffix(res.Error.Message, "[e.]\n[2 more files were moved to the quarantine. For a list, run: toolhost quarantine list.]") {
		t.Errorf("%s: %+v", got, res.Error)
	}
	if all, _ := res.Metadata["quarantined"].([]string); len(all) != 7 {
		t.Errorf("%v", res.Metadata)
	}
	broken, log = true, nil
	if res := run(t, d, "change"); res.Error == nil || res.Error.Kind != tool.Unavailable || log != nil {
		t.Errorf("%v: %+v", log, res.Error)
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
	for _, out := range []string{"/", "/w-evil", "relative", "/w/../etc", "/w/not UTF-8: \uFFFD"} {
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

// TestTheStateOfAReadOnlyTool checks that a read-only tool receives the state. A state that the tool returns must not
// be saved.
func TestTheStateOfAReadOnlyTool(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		return &tool.Result{Output: string(call.SessionState), SessionState: append(call.SessionState, call.Tool[0])}
	})
	for i, want := range []string{"", "c", "cc", "cc"} {
		name := []string{"change", "change", "look", "change"}[i]
		if res := run(t, d, name); res.Output != want {
			t.Errorf("%s finds %q, want %q", name, res.Output, want)
		}
	}
}

// TestTheStateOfAChildCall checks that a child call receives the state of its plugin, and that the effects of the child
// call are saved. The state is saved only if the plugin serves no parent call.
func TestTheStateOfAChildCall(t *testing.T) {
	d := dispatcher(t, ok)
	d.State.SavePluginState("s", "p", []byte("old"))
	known := tool.FileState{Path: "/w/f", Size: 3, ModTime: time.Unix(1, 0)}
	for name, want := range map[string]string{"look": "old", "change": "old"} {
		c := prepared(t, d, name)
		c.Identity.Depth, c.Identity.Above = 1, []string{"p"}
		(&Sessions{State: d.State}).Stage().Wrap(func(_ context.Context, c *Call) *tool.Result {
			if got := string(c.Decision.Sent.SessionState); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
			return &tool.Result{SessionState: []byte("new"), Cwd: "/w/sub", Effects: []tool.Effect{{Operation: tool.OpRead, File: known}}}
		})(t.Context(), c)
	}
	if s, err := d.State.PluginState("s", "p"); err != nil || string(s) != "old" {
		t.Errorf("%q %v", s, err)
	}
	if s, ok, _ := d.State.Session("s"); ok {
		t.Errorf("%+v", s)
	}
	if _, ok, err := d.State.FileState("s", "/w/f"); !ok || err != nil {
		t.Errorf("the effect is lost: %v", err)
	}
	c := prepared(t, d, "change")
	c.Identity.Depth, c.Identity.Above = 1, []string{"q"}
	(&Sessions{State: d.State}).Stage().Wrap(func(context.Context, *Call) *tool.Result {
		return &tool.Result{SessionState: []byte("new"), Cwd: "/w/sub"}
	})(t.Context(), c)
	if s, err := d.State.PluginState("s", "p"); err != nil || string(s) != "new" {
		t.Errorf("%q %v", s, err)
	}
	if s, ok, _ := d.State.Session("s"); ok {
		t.Errorf("%+v", s)
	}
}

// TestDenialsOfACallThatTimedOut checks that the host searches the original message of the tool for denied accesses.
// The message of the timeout replaces the original message later.
func TestDenialsOfACallThatTimedOut(t *testing.T) {
	d := dispatcher(t, func(ctx context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "brief" {
			<-ctx.Done()
			return &tool.Result{Error: tool.Errorf(tool.Timeout, "words")}
		}
		return &tool.Result{Output: "words\n"}
	})
	d.Plugins = sandboxed{d.Plugins, &sandbox{denied: func(since time.Time, printed string) []string {
		if strings.TrimSpace(printed) != "words" || time.Since(since) > time.Hour {
			t.Errorf("since %s: %q", since, printed)
		}
		return []string{"a", "b", "c", "d", "e", "f", "g"}
	}}}
	if res := run(t, d, "look"); res.Output != "words\n[a.]\n[b.]\n[c.]\n[d.]\n[e.]\n[The sandbox refused 2 more operations. Correct the causes above first, and run the command again; the metadata of the result lists all of them.]" {
		t.Errorf("%q", res.Output)
	}
	res := run(t, d, "brief")
	if all, ok := res.Metadata["denied"].([]string); !ok || len(all) != 7 || strings.Contains(res.Error.Message, "[a.]") || !strings.HasPrefix(res.Error.Message, "brief took longer") {
		t.Errorf("%+v", res)
	}
}

// TestWeaker checks that only the first result of a session contains the warning about a weaker sandbox.
func TestWeaker(t *testing.T) {
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return &tool.Result{Output: "words\n"} })
	confined := &sandbox{weaker: "it is weaker"}
	d.Plugins = sandboxed{d.Plugins, confined}
	if res := run(t, d, "look"); res.Output != "words\n[it is weaker.]" || res.Metadata["warning"] != "it is weaker" {
		t.Errorf("%+v", res)
	}
	if res := run(t, d, "look"); res.Output != "words\n" {
		t.Errorf("%+v", res)
	}
	confined.weaker = "weaker still"
	if res := run(t, d, "look"); res.Output != "words\n[weaker still.]" {
		t.Errorf("%+v", res)
	}
}

// TestExceeded checks that the result reports the limits that a call reached.
func TestExceeded(t *testing.T) {
	d := dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result { return &tool.Result{Output: "words\n"} })
	d.Plugins = sandboxed{d.Plugins, &sandbox{exceeded: func(printed string, failed bool) []string {
		return []string{fmt.Sprintf("%s %t", strings.TrimSpace(printed), failed)}
	}}}
	if res := run(t, d, "look"); res.Output != "words\n[words false.]" {
		t.Errorf("%+v", res)
	}
	for source, want := range map[tool.Source]string{tool.SourceTool: "too many open files true", tool.SourcePlugin: "too many open files true", tool.SourceHost: " true"} {
		d = dispatcher(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
			return tool.Failed(tool.Errorf(tool.Unavailable, "too many open files").From(source))
		})
		d.Plugins = sandboxed{d.Plugins, &sandbox{exceeded: func(printed string, failed bool) []string {
			return []string{fmt.Sprint(printed, " ", failed)}
		}}}
		if res := run(t, d, "look"); !strings.HasSuffix(res.Error.Message, "\n["+want+".]") {
			t.Errorf("%s: %q", source, res.Error.Message)
		}
	}
}
