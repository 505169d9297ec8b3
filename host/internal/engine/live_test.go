package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/testbuilder"
)

// TestWatchedFiles checks that a host that keeps running applies changes of its files, and answers other processes.
func TestWatchedFiles(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "version=1.0.0")
	d.Configure(d.Plugin("p", ""))
	f := open(t, d, Options{Live: true})
	updates := make(chan Update, 8)
	defer f.Subscribe(func(u Update) { updates <- u })()
	d.Write("p", "version=2.0.0 add=extra")
	if u := <-updates; len(u.Tools) != 1 || u.Tools[0].Tool != "extra" {
		t.Errorf("%+v", u)
	}
	succeeds(t, f.call("a", "where", "{}"), "version=2.0.0")
	d.Configure(d.Plugin("p", "") + "tool \"echo\" {\n enabled = false\n}\n")
	if u := <-updates; len(u.Tools) != 1 || u.Tools[0].Tool != "echo" {
		t.Errorf("%+v", u)
	}
	sockets := control.Sockets(f.home.Control())
	if len(sockets) != 1 {
		t.Fatalf("%d sockets", len(sockets))
	}
	var st RemoteStatus
	if err := sockets[0].Ask(t.Context(), control.OpStatus, nil, &st); err != nil || len(st.Plugins) != 1 || st.Began.IsZero() {
		t.Errorf("%+v, %v", st, err)
	}
	history, err := f.ConfigHistory()
	if err != nil || len(history.Served) != 2 {
		t.Fatalf("%+v, %v", history, err)
	}
	if s, err := f.ServedConfig(history.Served[0].ID); err != nil || len(s.Files) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := f.Rollback(t.Context(), 0, "alice"); err != nil || !f.Current().Registry.Find("echo").Enabled {
		t.Errorf("%v", err)
	}
}

// TestUnwatchedFiles checks that a configuration can turn the watcher off.
func TestUnwatchedFiles(t *testing.T) {
	d := testbuilder.NewDir(t)
	d.Write("p", "version=1.0.0")
	d.Configure(d.Plugin("p", "") + "reload {\n watch = false\n}\n")
	f := open(t, d, Options{Live: true})
	d.Write("p", "version=2.0.0")
	f.diskChanged()
	succeeds(t, f.call("a", "where", "{}"), "version=1.0.0")
	if f.live.files.watcher != nil {
		t.Error("files are watched")
	}
}

// TestChangesAtRunTime checks what an embedding program can change while the host runs.
func TestChangesAtRunTime(t *testing.T) {
	f := begin(t, "")
	f.Write("q", "name=q offers=yes")
	if err := errors.Join(f.AddAlias("say", "echo", nil), f.Register(t.Context(), Plugin{Name: "q", Path: f.Program("q"), Field: "q"})); err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.call("a", "say", `{"text":"x"}`), "x")
	succeeds(t, f.call("a", "q:echo", `{"text":"y"}`), "y")
	if items := f.Items(); len(items) != 1 {
		t.Errorf("%d items", len(items))
	}
	if err := errors.Join(f.RemoveAlias("say"), f.Unregister(t.Context(), "q"), f.SetEnabled("echo", false, "alice")); err != nil {
		t.Fatal(err)
	}
	if res := f.call("a", "q:echo", `{"text":"y"}`); res.Error == nil {
		t.Error("a plugin works after its removal")
	}
	if err := f.SetEnabled("unknown", false, "alice"); err == nil {
		t.Error("an unknown tool was disabled")
	}
	entries, err := f.audited(LogQuery{Layer: LayerAdministration, Principal: "alice"})
	if err != nil || len(entries) != 2 {
		t.Errorf("%+v, %v", entries, err)
	}
	if _, err := f.Renew(t.Context(), "alice"); err != nil {
		t.Error(err)
	}
	if p, err := f.Plan(t.Context()); err != nil || p.Changes() {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestFleet checks what a node of a fleet asks of its host.
func TestFleet(t *testing.T) {
	f := begin(t, "quota \"principal:*\" {\n calls_per_minute = 7\n}\n")
	if _, err := f.OperateFleet(t.Context(), "alice", "drain", nil); !errors.Is(err, ErrNoFleet) {
		t.Errorf("%v", err)
	}
	var asked []string
	f.OnFleet(func(_ context.Context, operation string, _ json.RawMessage) (any, error) {
		asked = append(asked, operation)
		return nil, errors.New("not now")
	})
	for _, operation := range []string{"status", "drain"} {
		if _, err := f.OperateFleet(t.Context(), "alice", operation, []byte(`{"node":"b","files":"long"}`)); err == nil {
			t.Error("no error")
		}
	}
	entries, err := f.audited(LogQuery{Principal: "alice"})
	if err != nil || len(entries) != 1 || entries[0].Tool != "(fleet drain)" || strings.Contains(string(entries[0].Arguments), "files") || len(asked) != 2 {
		t.Errorf("%+v, %v, asked %q", entries, err, asked)
	}
	if s, digest := f.Fleet(); s != nil || digest == "" {
		t.Errorf("%+v, %q", s, digest)
	}
	if n := f.CallsPerMinute(&principal.Principal{Name: "ci"}); n != 7 {
		t.Errorf("%d calls per minute", n)
	}
	shared, err := f.SharedFiles()
	if err != nil {
		t.Fatal(err)
	}
	shared.Text = append(shared.Text, "host {\n timeout = \"9s\"\n}\n"...)
	_, before := f.Fleet()
	if err := f.ReplaceConfig(t.Context(), shared, "alice", false); err != nil {
		t.Fatal(err)
	}
	if _, after := f.Fleet(); after == before {
		t.Error("the digest does not follow the configuration")
	}
}

// TestGuardedProcesses checks that the fleet can refuse and end processes of plugins.
func TestGuardedProcesses(t *testing.T) {
	f := begin(t, "")
	var guarded atomic.Int64
	refuse := atomic.Bool{}
	f.GuardProcesses(func(pid int, _ []tool.Root) error {
		guarded.Store(int64(pid))
		if refuse.Load() {
			return errors.New("this node has no lease")
		}
		return nil
	})
	f.EndProcesses(func([]tool.Root) bool { return true })
	for _, p := range f.Programs.Running() {
		t.Errorf("program %d runs", p.PID())
	}
	succeeds(t, f.call("a", "where", "{}"), "pid=")
	if last := f.Programs.Running()[0].PID(); guarded.Load() != int64(last) {
		t.Errorf("process %d was guarded, not %d", guarded.Load(), last)
	}
	refuse.Store(true)
	f.EndProcesses(func([]tool.Root) bool { return true })
	failsWith(t, f.call("a", "where", "{}"), tool.Unavailable, "this node has no lease")
	if err := f.EndSession(Request{Session: "a"}); err != nil {
		t.Error(err)
	}
}
