package dispatch

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/internal/scheduler"
)

// claims returns a dispatcher with tools of each kind, and a session in a new directory.
func claims(t *testing.T, run plugins) (*rig, call.Session) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := dispatcher(t, run)
	define := func(name, properties string, traits tool.Traits, category tool.Category) tool.Definition {
		return tool.Definition{Name: name, Description: "d", Input: json.RawMessage(`{"type":"object","properties":{` + properties + `}}`), Traits: traits, Category: category}
	}
	const path, diff = `"path":{"type":"string","x-toolhost-path":"read"}`, `"diff":{"type":"string","x-toolhost-path":"diff"}`
	safe := tool.Traits{ReadOnly: true, ConcurrencySafe: true}
	settings := func(name string) registry.Settings {
		return registry.Settings{Bundled: slices.Contains([]string{"bash", "edit", "undo", "job", "ask_user"}, name)}
	}
	for field, tools := range map[string][]tool.Definition{
		"": {
			define("bash", `"command":{"type":"string"}`, tool.Traits{}, tool.CategoryBuiltin), define("edit", path+","+diff, tool.Traits{}, tool.CategoryBuiltin),
			define("undo", path, tool.Traits{}, tool.CategoryBuiltin), define("job", "", tool.Traits{ConcurrencySafe: true}, tool.CategoryBuiltin),
			define("ask_user", "", tool.Traits{ReadOnly: true}, tool.CategoryBuiltin), define("view", path, safe, tool.CategoryBuiltin),
			define("recall", "", safe, tool.CategoryCustom), define("convert", path, tool.Traits{ConcurrencySafe: true}, tool.CategoryCustom),
			define("post", "", tool.Traits{ConcurrencySafe: true}, tool.CategoryCustom), define("deploy", "", tool.Traits{}, tool.CategoryCustom),
		},
		"jira": {define("create", "", tool.Traits{}, tool.CategoryMCP), define("bash", "", tool.Traits{}, tool.CategoryMCP)},
	} {
		if err := d.Registry.Add("q"+field, field, &tool.Description{Name: "q" + field, Tools: tools}, false, settings); err != nil {
			t.Fatal(err)
		}
	}
	s := session("s")
	s.Workspace, s.Cwd, s.Roots = dir, dir, []tool.Root{{Path: dir, Writable: true}}
	return d, s
}

func TestClaims(t *testing.T) {
	d, s := claims(t, ok)
	dir := s.Cwd
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(dir, n))
		}
		return out
	}
	for _, c := range []struct {
		name, args string
		want       scheduler.Claim
		label      string
	}{
		{"bash", `{"command":"npm test\nmore"}`, scheduler.Claim{Kind: scheduler.Shell, Moves: true}, "bash: npm test"},
		{"bash", `{"command":"cd sub; echo x > y 2>&1; date >> /dev/null"}`, scheduler.Claim{Kind: scheduler.Shell, Moves: true, UsesDir: true, Paths: append(at("sub/y"), "/dev/null")}, "bash: cd sub; echo x > y 2>&1; date >> /dev/null"},
		{"bash", `{"command":"mysql --password hunter2hunter2"}`, scheduler.Claim{Kind: scheduler.Shell, Moves: true}, "bash: mysql --password hunter2hunter2"},
		{"view", `{"path":"a"}`, scheduler.Claim{Kind: scheduler.Read, Safe: true, UsesDir: true, Paths: at("a")}, "view: a"},
		{"view", `{"path":"` + dir + `/link/a"}`, scheduler.Claim{Kind: scheduler.Read, Safe: true, Paths: at("sub/a")}, "view: " + dir + "/link/a"},
		{"view", `{}`, scheduler.Claim{Kind: scheduler.Read, Safe: true, UsesDir: true, Paths: []string{dir}}, "view"},
		{"recall", `{}`, scheduler.Claim{Kind: scheduler.Read, Safe: true, UsesDir: true}, "recall"},
		{"edit", `{"path":"./a"}`, scheduler.Claim{Kind: scheduler.Edit, UsesDir: true, Paths: at("a")}, "edit: ./a"},
		{"edit", `{"diff":"x"}`, scheduler.Claim{Kind: scheduler.Edit, UsesDir: true, Anywhere: true}, "edit"},
		{"undo", `{}`, scheduler.Claim{Kind: scheduler.Edit, Anywhere: true}, "undo"},
		{"convert", `{"path":"a"}`, scheduler.Claim{Kind: scheduler.Edit, Safe: true, UsesDir: true, Paths: at("a")}, "convert: a"},
		{"job", `{}`, scheduler.Claim{Kind: scheduler.Free, Safe: true}, "job"},
		{"ask_user", `{}`, scheduler.Claim{Kind: scheduler.Free}, "ask_user"},
		{"post", `{}`, scheduler.Claim{Kind: scheduler.Free, Safe: true}, "post"},
		{"jira:create", `{}`, scheduler.Claim{Kind: scheduler.Free}, "jira:create"},
		{"jira:bash", `{}`, scheduler.Claim{Kind: scheduler.Free}, "jira:bash"},
		{"deploy", `{}`, scheduler.Claim{Kind: scheduler.Alone}, "deploy"},
	} {
		p := d.Begin(call.Request{ID: "1", Name: c.name, Arguments: json.RawMessage(c.args), Session: s})
		if a := p.call.Identity.Answer; a != nil {
			t.Fatalf("%s: %v", c.name, a.Error)
		}
		got := p.claim()
		if got.Kind != c.want.Kind || got.Safe != c.want.Safe || got.Moves != c.want.Moves || got.UsesDir != c.want.UsesDir || got.Anywhere != c.want.Anywhere || !slices.Equal(got.Paths, c.want.Paths) || got.Label() != c.label {
			t.Errorf("%s %s: %+v %q, want %+v %q", c.name, c.args, got, got.Label(), c.want, c.label)
		}
		p.Abandon()
	}
}

// TestARouteThatDependsOnFilesIsSettledAtTheTurn checks a command whose route depends on a file. The command must wait
// for all earlier calls, and its route must be determined at its turn.
func TestARouteThatDependsOnFilesIsSettledAtTheTurn(t *testing.T) {
	release := make(chan struct{})
	var file string
	d, s := claims(t, func(_ context.Context, c *tool.Call, _ tool.Peer) *tool.Result {
		if c.ID == "1" {
			<-release
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
		return &tool.Result{Output: string(c.Arguments)}
	})
	file = filepath.Join(s.Cwd, "sub", "make notes")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	moved := s
	moved.Cwd = filepath.Dir(file)
	first := d.Begin(call.Request{ID: "1", Command: "cd sub; touch 'make notes'", Session: s})
	second := d.Begin(call.Request{ID: "2", Command: `bash "make notes"`, Session: s})
	if second.Native() {
		t.Error("the file exists already")
	}
	var wg sync.WaitGroup
	wg.Go(func() { first.Run(t.Context(), client{}) })
	d.State.SaveSession(moved.Session)
	close(release)
	if res := second.Run(t.Context(), client{}); res.Output != `{"command":"bash \"make notes\""}` {
		t.Errorf("%+v", res)
	}
	wg.Wait()
}

// TestACommandThatEndsWhileACallArrives checks a call that loaded its session before an earlier command changed the
// directory, and has its claim only after the command ended. The call did not wait, but must run in the new directory.
func TestACommandThatEndsWhileACallArrives(t *testing.T) {
	var moved string
	d, s := claims(t, func(_ context.Context, c *tool.Call, _ tool.Peer) *tool.Result {
		if c.ID == "1" {
			return &tool.Result{Cwd: moved}
		}
		return &tool.Result{Output: c.Cwd}
	})
	moved = filepath.Join(s.Cwd, "sub")
	first := d.Begin(call.Request{ID: "1", Name: "bash", Arguments: json.RawMessage(`{"command":"cd sub"}`), Session: s})
	ticket := d.Turns.Scheduler.Enqueue(s.ID)
	if res := first.Run(t.Context(), client{}); res.Error != nil {
		t.Fatal(res.Error)
	}
	second := d.dispatcher().Begin(call.Request{ID: "2", Name: "view", Arguments: json.RawMessage(`{"path":"a"}`), Session: s}, ticket)
	if second.call.Ticket.Waits() {
		t.Error("the call waits for a command that ended")
	}
	if res := second.Run(t.Context(), client{}); res.Output != moved {
		t.Errorf("%+v, want the directory %s", res, moved)
	}
}

// TestAReadThatDidNotWaitSaysWhere checks a read that starts while a command runs. The read uses the directory from
// before the command, and a note in its result must name this directory.
func TestAReadThatDidNotWaitSaysWhere(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	d, s := claims(t, func(_ context.Context, c *tool.Call, p tool.Peer) *tool.Result {
		if c.ID == "1" {
			close(started)
			<-release
		}
		return &tool.Result{Output: c.Cwd}
	})
	d.Turns.Scheduler.Patience = time.Millisecond
	var wg sync.WaitGroup
	first := d.Begin(call.Request{ID: "1", Name: "bash", Arguments: json.RawMessage(`{"command":"cd sub && make"}`), Session: s})
	wg.Go(func() { first.Run(t.Context(), client{}) })
	<-started
	res := d.Begin(call.Request{ID: "2", Name: "view", Arguments: json.RawMessage(`{"path":"a"}`), Session: s}).Run(t.Context(), client{})
	if want := "This call ran in " + s.Cwd + ". It did not wait for bash: cd sub && make, which"; !strings.Contains(res.Output, want) || res.Metadata["directory"] != s.Cwd {
		t.Errorf("%+v", res)
	}
	close(release)
	wg.Wait()
}

// TestACommandThatKeepsTheDirectory checks that a read starts at once if the running command announces that it does not
// change the directory.
func TestACommandThatKeepsTheDirectory(t *testing.T) {
	started, release := make(chan tool.Peer), make(chan struct{})
	d, s := claims(t, func(_ context.Context, c *tool.Call, p tool.Peer) *tool.Result {
		if c.ID == "1" {
			started <- p
			<-release
		}
		return &tool.Result{Output: c.Cwd}
	})
	d.Turns.Scheduler.Patience = time.Hour
	var wg sync.WaitGroup
	first := d.Begin(call.Request{ID: "1", Name: "bash", Arguments: json.RawMessage(`{"command":"npm test"}`), Session: s})
	wg.Go(func() { first.Run(t.Context(), client{}) })
	peer := <-started
	second := d.Begin(call.Request{ID: "2", Name: "view", Arguments: json.RawMessage(`{"path":"a"}`), Session: s})
	if w, waits := second.call.Ticket.Waiting(); !waits || w.Label != "bash: npm test" {
		t.Errorf("%+v", w)
	}
	peer.(tool.DirectoryKeeper).KeepsDirectory()
	if res := second.Run(t.Context(), client{}); res.Output != s.Cwd || res.Metadata["directory"] != nil {
		t.Errorf("%+v", res)
	}
	close(release)
	wg.Wait()
}
