package supervisor_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/supervisor"
	"toolhost.dev/host/internal/testprogram"
)

// The limits of package supervisor for the processes of sessions.
const (
	perOwner  = 32
	allOwners = 128
	idleEnd   = 5 * time.Minute
)

// separate adds a plugin that has a process for each set of roots.
func (r *running) separate(words string) *supervisor.Plugin {
	return r.add(words, supervisor.Spec{
		Roots: []tool.Root{{Path: r.dir}},
	})
}

// within calls a tool of a plugin for an owner, in a root with a number.
func (r *running) within(p *supervisor.Plugin, owner string, root int, name, args string) *tool.Result {
	lease := (supervisor.Set{"p": p}).Reserve("p", owner)
	defer lease.Release()
	call := &tool.Call{ID: "1", Tool: name, Arguments: []byte(args), SessionID: "s", Cwd: "/", Roots: []tool.Root{{Path: filepath.Join(r.dir, fmt.Sprint(root))}}}
	return lease.Call(r.t.Context(), call, testprogram.Peer{})
}

// TestIdleProcessesEnd checks that the process of a session ends some time after its last call, and that the next call
// starts another one. The process for the host's own roots stays, and so do processes that keep something.
func TestIdleProcessesEnd(t *testing.T) {
	for words, ends := range map[string]bool{"": true, "unhealthy=yes": true, "keeps=jobs": false, "discovers=yes": false, "offers=yes": false} {
		t.Run(words, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t)
				p := r.separate(words)
				succeeds(t, call(t.Context(), p, "where", "{}"), "pid=")
				for i := range 3 {
					succeeds(t, r.within(p, "", i, "where", "{}"), "pid=")
				}
				want := func(when string, n int) {
					t.Helper()
					synctest.Wait()
					if got := len(r.programs.Running()); got != n {
						t.Errorf("%s: %d processes run, want %d", when, got, n)
					}
				}
				time.Sleep(idleEnd - time.Second)
				want("before the end", 4)
				done := make(chan *tool.Result)
				go func() { done <- r.within(p, "", 1, "hold", `{"gate":"long"}`) }()
				<-r.programs.Gate("long").Reached
				succeeds(t, r.within(p, "", 2, "where", "{}"), "pid=")
				left := 4
				if ends {
					left = 3
				}
				time.Sleep(2 * time.Second)
				want("after the end of an idle one", left)
				time.Sleep(idleEnd)
				if ends {
					left = 2
				}
				want("while a call runs", left)
				r.programs.Gate("long").Open()
				succeeds(t, <-done, "passed")
				time.Sleep(2 * idleEnd)
				if ends {
					left = 1
				}
				want("long after all calls", left)
				succeeds(t, r.within(p, "", 1, "where", "{}"), "pid=")
			})
		})
	}
}

// TestSurplusProcessesEnd checks that the limits for processes hold again as soon as their calls end, for one owner and
// for all owners together. Up to twice as many processes stay while they keep something.
func TestSurplusProcessesEnd(t *testing.T) {
	for name, c := range map[string]struct {
		words              string
		owners, each, left int
	}{
		"one owner":     {"", 1, 60, perOwner},
		"all owners":    {"", 20, 8, allOwners},
		"jobs":          {"keeps=jobs", 1, 60, 60},
		"too many jobs": {"keeps=jobs", 1, 70, 2 * perOwner},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t)
				p := r.separate(c.words)
				var calls sync.WaitGroup
				for owner := range c.owners {
					for root := range c.each {
						calls.Go(func() {
							succeeds(t, r.within(p, fmt.Sprint("owner", owner), root, "hold", `{"gate":"all"}`), "passed")
						})
					}
				}
				synctest.Wait()
				if n := len(r.programs.Running()); n != c.owners*c.each {
					t.Errorf("%d processes run", n)
				}
				r.programs.Gate("all").Open()
				calls.Wait()
				synctest.Wait()
				if n := len(r.programs.Running()); n != c.left {
					t.Errorf("%d processes are left, want %d", n, c.left)
				}
			})
		})
	}
}
