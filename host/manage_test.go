package host_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

func TestManagedAtRunTime(t *testing.T) {
	s := swap(t, "")
	h := open(t, s.opts)
	dir, err := plugins()
	if err != nil {
		t.Fatal(err)
	}
	call := func(command string) *host.Result {
		return h.Run(t.Context(), host.Request{Command: command}, nil)
	}
	fails := func(command string, kind tool.Kind) {
		t.Helper()
		if res := call(command); res.Error == nil || res.Error.Kind != kind {
			t.Errorf("%s: %q %v", command, res.Output, res.Error)
		}
	}
	works := func(command, want string) {
		t.Helper()
		if res := call(command); !res.Success() || !strings.Contains(res.Output, want) {
			t.Errorf("%s: %q %v", command, res.Output, res.Error)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	wrong := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}

	var steps []string
	cancel := h.SubscribeStates(func(tr host.Transition) {
		steps = append(steps, fmt.Sprintf("%s %s→%s", tr.Tool, tr.From, tr.To))
	})
	must(h.Disable("nap"))
	fails("nap --ms 1", tool.PermissionDenied)
	must(h.Enable("nap"))
	works("nap --ms 1", "rested")
	must(h.Disable("p"))
	fails("tool:echo x", tool.PermissionDenied)
	must(h.Enable("p"))
	works("tool:echo x", "x")
	fails("off", tool.PermissionDenied) // the configuration still disables the tool
	must(h.Enable("nap"))
	wrong(h.Disable("nothing"), "unknown tool or plugin")
	cancel()
	if len(steps) < 4 || steps[0] != "nap ready→disabled" || steps[1] != "nap disabled→ready" {
		t.Errorf("%v", steps)
	}

	must(h.AddAlias("say", "echo", map[string]string{"words": "text"}))
	works("say --words hello", "hello")
	wrong(h.AddAlias("say", "nap", nil), "already")
	wrong(h.AddAlias("nap", "echo", nil), "already")
	wrong(h.AddAlias("x", "nothing", nil), "unknown tool")
	wrong(h.AddAlias("x", "echo", map[string]string{"a": "b"}), "does not have")
	wrong(h.AddAlias("a b", "echo", nil), "cannot be an alias")

	other := host.Plugin{Name: "q", Path: filepath.Join(dir, "testplugin"), Field: "other", Config: json.RawMessage(`{"greeting":"ciao"}`)}
	must(h.Register(t.Context(), other))
	works("field:other where", "greeting=ciao")
	wrong(h.Register(t.Context(), other), "already")
	clash := other
	clash.Name, clash.Field = "r", ""
	wrong(h.Register(t.Context(), clash), "plugin p already serves")
	bad := other
	bad.Name, bad.Args, bad.Field = "bad", []string{"exit"}, "bad"
	wrong(h.Register(t.Context(), bad), "exit status 3")
	wrong(h.Register(t.Context(), host.Plugin{Name: "rel", Path: "testplugin"}), "not absolute")
	wrong(h.Register(t.Context(), host.Plugin{Name: "none", Path: "/nothing"}), "does not exist")

	// Changes made at run time must survive a reload.
	s.configure(fmt.Sprintf("plugin %q {\n  path = %q\n}\ntool \"nap\" {\n  enabled = false\n}\n", "p", s.path))
	if r := reload(t, h, host.ReloadOptions{}); !r.Config.Changed || r.Refused() {
		t.Errorf("%+v", r)
	}
	works("field:other where", "greeting=ciao")
	works("say --words again", "again")
	works("nap --ms 1", "rested") // Enable overrides the configuration

	must(h.RemoveAlias("say"))
	wrong(h.RemoveAlias("say"), "no alias")
	must(h.Unregister(t.Context(), "q"))
	fails("field:other where", tool.NotFound)
	wrong(h.Unregister(t.Context(), "q"), "unknown plugin")
	must(h.Register(t.Context(), other))
	works("field:other where", "greeting=ciao")
	must(h.Unregister(t.Context(), "p"))
	fails("tool:echo x", tool.NotFound)
}

// TestStatesFollowThePlugin checks that the states of tools follow the state of their plugin.
func TestStatesFollowThePlugin(t *testing.T) {
	s := swap(t, "")
	s.configure(fmt.Sprintf("plugin %q {\n  path = %q\n  restart {\n    failures = 2\n    pause = \"1h\"\n  }\n}\n", "p", s.path))
	h := open(t, s.opts)
	states := make(chan host.Transition, 1000)
	h.SubscribeStates(func(tr host.Transition) { states <- tr })
	state := func(name string) host.ToolLife {
		for _, l := range h.Status().Tools {
			if l.Name == name {
				return l
			}
		}
		return host.ToolLife{}
	}
	if l := state("off"); l.State != "disabled" || l.Plugin != "p" {
		t.Errorf("%+v", l)
	}
	version(t, h)
	client := &recorder{progress: make(chan string, 10)}
	done := make(chan *host.Result)
	go func() { done <- h.Run(t.Context(), host.Request{Command: "nap --ms 400"}, client) }()
	<-client.progress
	if l := state("nap"); l.State != "executing" || l.Running != 1 {
		t.Errorf("%+v", l)
	}
	<-done
	if l := state("nap"); l.State != "ready" || l.Running != 0 {
		t.Errorf("%+v", l)
	}
	for i := range 3 { // the first exit does not count as a failure, because the process answered calls
		h.Run(t.Context(), host.Request{Command: fmt.Sprint("die ", i)}, nil) // the same call is tried only twice
	}
	for end := time.Now().Add(10 * time.Second); state("echo").State != "disabled" && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // give the supervisor time to notice the exit
	}
	if l := state("echo"); l.State != "disabled" || !strings.Contains(l.Why, "keeps failing") {
		t.Errorf("%+v", l)
	}
	if l := state("die"); l.State != "disabled" {
		t.Errorf("%+v", l)
	}
	if l := state("off"); len(l.History) != 4 {
		t.Errorf("%+v", l)
	}
	reload(t, h, host.ReloadOptions{Plugins: []string{"p"}})
	if l := state("echo"); l.State != "ready" {
		t.Errorf("%+v", l)
	}
	var die []string
	for len(states) > 0 {
		if tr := <-states; tr.Tool == "die" {
			die = append(die, fmt.Sprint(tr.From, "→", tr.To))
		}
	}
	if got := strings.Join(die, " "); !strings.Contains(got, "executing→error error→ready") || !strings.Contains(got, "→disabled") || !strings.HasSuffix(got, "disabled→ready") {
		t.Error(got)
	}
}
