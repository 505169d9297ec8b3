package engine

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/answer"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/testbuilder"
)

// directory makes a directory beside the workspace.
func (f *fixture) directory(name string) string {
	f.t.Helper()
	path := filepath.Join(f.Path, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// TestSessions checks that each session has a state of its own, and that a session belongs to one workspace.
func TestSessions(t *testing.T) {
	f := begin(t, "")
	other := f.directory("other")
	for _, step := range []struct{ session, workspace, from, want string }{
		{"a", "", "", "1"}, {"a", "", "", "2"}, {"b", "", "", "1"}, {"a", other, "", "1"}, {"a", "", "", "3"}, {"a", other, "", "2"},
		{"c", "", "a", "4"}, {"a", "", "", "4"}, {"c", "", "a", "5"}, // a session is copied only when it begins
		{"", "", "", "1"}, {"", other, "", "1"},
	} {
		res := f.run(Request{Session: step.session, Workspace: step.workspace, From: step.from, Name: "count", Arguments: []byte("{}")})
		if res.Error != nil || res.Output != step.want {
			t.Errorf("%+v: %q, %v", step, res.Output, res.Error)
		}
	}
	if err := f.State().Flush(); err != nil {
		t.Fatal(err)
	}
	history, err := f.History(Request{Session: "a"}, 10)
	if err != nil || len(history) != 4 {
		t.Errorf("%d entries in the history, %v", len(history), err)
	}
	if dir, err := f.Cwd(Request{Session: "a", Workspace: other}); err != nil || dir != other {
		t.Errorf("directory %q, %v", dir, err)
	}
	if err := f.Restore(Request{Session: "d"}, state.Snapshot{Session: state.Session{Workspace: f.Dir.Workspace(), Cwd: f.Dir.Workspace()}, Plugins: map[string][]byte{"p": []byte("41")}}); err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.call("d", "count", "{}"), "42")
}

// TestSessionsOutliveTheHost checks that the next host continues the sessions.
func TestSessionsOutliveTheHost(t *testing.T) {
	f := begin(t, "")
	succeeds(t, f.call("a", "count", "{}"), "1")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	succeeds(t, open(t, f.Dir, Options{}).call("a", "count", "{}"), "2")
}

// TestOrder checks that the calls of a session take effect in the order in which they began, whoever runs first.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "")
		const n = 20
		pending := make([]*Pending, n)
		for i := range pending {
			pending[i] = f.Begin(Request{Session: "a", Name: "count", Arguments: []byte("{}"), InOrder: true}, answer.Nobody{})
		}
		outputs := make([]string, n)
		var wg sync.WaitGroup
		for i := n - 1; i >= 0; i-- {
			wg.Go(func() { outputs[i] = pending[i].Run(t.Context()).Output })
			synctest.Wait()
		}
		wg.Wait()
		for i, out := range outputs {
			if want := string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10)); strings.TrimLeft(want, "0") != out {
				t.Errorf("call %d counted %q", i+1, out)
			}
		}
	})
}

// TestRefusedRequests checks which requests are refused before they are queued, and that the audit log contains them.
func TestRefusedRequests(t *testing.T) {
	f := begin(t, "endpoint \"small\" {\n tools = [\"echo\"]\n}\n")
	other := f.directory("other")
	guest := &principal.Principal{Name: "guest", Grant: principal.Grant{Rights: principal.Call}}
	for name, tc := range map[string]struct {
		req  Request
		kind tool.Kind
		want string
	}{
		"a long session":        {Request{Session: strings.Repeat("s", 300)}, tool.InvalidArguments, "The session id is longer than 256 bytes"},
		"no directory":          {Request{Workspace: "/nonexistent"}, tool.InvalidArguments, "/nonexistent"},
		"another directory":     {Request{Workspace: other, Principal: guest}, tool.PermissionDenied, "is not allowed to work in"},
		"its existence is told": {Request{Workspace: "/nonexistent", Principal: guest}, tool.PermissionDenied, "is not allowed to work in"},
		"an unknown endpoint":   {Request{Endpoint: "big"}, tool.NotFound, `no endpoint "big"`},
		"the state directory":   {Request{Workspace: f.Dir.StateDir()}, tool.PermissionDenied, "state"},
		"the configuration":     {Request{Workspace: f.Path}, tool.PermissionDenied, ""},
		"a branch's bad name":   {Request{Branch: "a/../b"}, tool.InvalidArguments, ""},
	} {
		tc.req.Name, tc.req.Arguments = "where", []byte("{}")
		res := f.run(tc.req)
		if res.Error == nil || res.Error.Kind != tc.kind || !strings.Contains(res.Error.Message, tc.want) {
			t.Errorf("%s: %v", name, res.Error)
		}
	}
	if n := len(f.Programs.Running()); n > 1 {
		t.Errorf("%d programs run", n)
	}
	entries, err := f.audited(LogQuery{Tool: "where"})
	if err != nil || len(entries) != 8 || entries[0].Outcome == "success" {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	failsWith(t, f.run(Request{Endpoint: "small", Name: "where", Arguments: []byte("{}")}), tool.PermissionDenied, "small")
	succeeds(t, f.run(Request{Endpoint: "small", Name: "echo", Arguments: []byte(`{"text":"x"}`)}), "x")
}

// TestLimitsOfAPrincipal checks the limits of calls and of sessions.
func TestLimitsOfAPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := begin(t, "")
		who := &principal.Principal{Name: "ci", Grant: principal.Grant{Rights: principal.Call, MaxCalls: 1, MaxSessions: 2}}
		req := func(session, name, args string) Request {
			return Request{Session: session, Principal: who, Name: name, Arguments: []byte(args)}
		}
		res := make(chan *tool.Result)
		go func() { res <- f.run(req("a", "hold", `{"gate":"g"}`)) }()
		<-f.Programs.Gate("g").Reached
		failsWith(t, f.run(req("b", "where", "{}")), tool.Unavailable, `Principal "ci" already has 1 calls, which is its limit`)
		succeeds(t, f.call("b", "where", "{}"), "pid=") // others have no limit
		f.Programs.Gate("g").Open()
		succeeds(t, <-res, "passed")
		succeeds(t, f.run(req("b", "where", "{}")), "pid=")
		failsWith(t, f.run(req("c", "where", "{}")), tool.Unavailable, `Principal "ci" used 2 sessions within a day, which is its limit`)
		succeeds(t, f.run(req("a", "where", "{}")), "pid=")
	})
}

// TestGoneDirectory checks that a session whose directory is gone works in the workspace again.
func TestGoneDirectory(t *testing.T) {
	f := begin(t, "")
	below := filepath.Join(f.Dir.Workspace(), "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.ChangeSession(Request{Session: "a"}, &SessionChange{Session: &state.Session{Workspace: f.Dir.Workspace(), Cwd: below}}); err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.call("a", "where", "{}"), "cwd="+below)
	if err := os.Remove(below); err != nil {
		t.Fatal(err)
	}
	if dir, err := f.Cwd(Request{Session: "a"}); err != nil || dir != f.Dir.Workspace() {
		t.Errorf("directory %q, %v", dir, err)
	}
}

// TestStateOfASession checks that a session's state can be read, changed and followed, as nodes of a fleet do.
func TestStateOfASession(t *testing.T) {
	f := begin(t, "")
	succeeds(t, f.call("a", "count", "{}"), "1")
	taken, stop, err := f.FollowSession(Request{Session: "a"})
	if err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.call("a", "count", "{}"), "2")
	if c := taken(); string(c.Plugins["p"]) != "2" {
		t.Errorf("%+v", c)
	}
	stop()
	whole, err := f.SessionState(Request{Session: "a"})
	if err != nil || string(whole.Plugins["p"]) != "2" {
		t.Fatalf("%+v, %v", whole, err)
	}
	whole.Whole = true
	if err := f.ChangeSession(Request{Session: "b"}, whole); err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.call("b", "count", "{}"), "3")
	if err := f.ChangeSession(Request{Session: "b"}, &SessionChange{Whole: true, Plugins: nil}); err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.call("b", "count", "{}"), "1") // the state of the plugin is gone
	if err := f.ChangeSession(Request{Session: "b"}, &SessionChange{Plugins: map[string][]byte{"p": []byte("7")}}); err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.call("b", "count", "{}"), "8")
}

// TestWithoutStateDirectory checks that a host works without a usable state directory, and reports it.
func TestWithoutStateDirectory(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "")
	d.Configure(d.Plugin("p", ""))
	blocked := filepath.Join(d.Path, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, d, Options{StateDir: filepath.Join(blocked, "state")})
	contains(t, "problems", f.Problems(), "Sessions are not kept after this run")
	if f.Engine.StateDir() != "" {
		t.Errorf("state directory %q", f.Engine.StateDir())
	}
	if _, err := f.Seal([]byte("x"), nil); err == nil {
		t.Error("a value was sealed without a key")
	}
}

// TestOpeningFails checks which mistakes prevent the start of a host.
func TestOpeningFails(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		opts func(d *testbuilder.Dir) Options
		want string
	}{
		"the configuration":   {"nonsense", nil, "toolhost.hcl:"},
		"the workspace":       {"", func(d *testbuilder.Dir) Options { return Options{Workspace: filepath.Join(d.Path, "none")} }, "none"},
		"state in workspace":  {"", func(d *testbuilder.Dir) Options { return Options{StateDir: filepath.Join(d.Workspace(), "state")} }, "state"},
		"hooks with one name": {"", func(*testbuilder.Dir) Options { return Options{Hooks: []Hook{{Name: "h"}}} }, "h"},
		"rules":               {"permissions {\n deny \"r\" {\n tool = \"ekho\"\n }\n}\n", nil, `Unknown tool "ekho"`},
	} {
		t.Run(name, func(t *testing.T) {
			d := testbuilder.NewDir(t)
			d.Write("p", "")
			d.Configure(d.Plugin("p", "") + tc.text)
			opts := Options{}
			if tc.opts != nil {
				opts = tc.opts(d)
			}
			if _, err := opened(t, d, opts); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if n := len(d.Programs.Running()); n != 0 {
				t.Errorf("%d programs run", n)
			}
		})
	}
}
