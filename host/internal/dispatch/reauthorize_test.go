package dispatch

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

// TestACallThatWaitedIsJudgedAgain checks that the policy uses the new target of a path if an earlier call of the
// session changed the path.
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
		return d.Begin(call.Request{ID: id, Command: "change --path sub/file", Session: s})
	}
	var wg sync.WaitGroup
	results := make([]*tool.Result, 2)
	for i, p := range []*Pending{begin("1"), begin("2")} {
		wg.Go(func() { results[i] = p.Run(t.Context(), client{}) })
	}
	<-started
	time.Sleep(100 * time.Millisecond) // usually long enough for the first decision of the policy; the test passes in any case
	if err := os.Symlink("/", filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	close(changed)
	wg.Wait()
	if !results[0].Success() || results[1].Error == nil || results[1].Error.Kind != tool.Security || calls.Load() != 1 {
		t.Errorf("%+v, %+v, %d calls", results[0].Error, results[1].Error, calls.Load())
	}
}

func TestOnlyACallThatWaitedIsJudgedAgain(t *testing.T) {
	d := dispatcher(t, ok)
	for waited, want := range map[bool]string{false: "ran", true: ""} {
		c := prepared(t, d, "change --path /x") // simulate that the policy already allowed the path
		c.Outcome.Waited = waited
		res := d.permissions().Reauthorize().Wrap(func(context.Context, *Call) *tool.Result { return &tool.Result{Output: "ran"} })(t.Context(), c)
		if res.Output != want || waited != (c.Decision.Policy != nil && c.Decision.Policy.Effect == policy.Deny) {
			t.Errorf("%+v, %+v", res, c.Decision.Policy)
		}
	}
}
