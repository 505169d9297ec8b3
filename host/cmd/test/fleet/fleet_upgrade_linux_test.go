package fleet

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestFleetUpgrade upgrades both nodes while clients make calls through them. No call may be refused, and each call
// must run once. A client that loses its gateway repeats the call with the same id through the other node.
func TestFleetUpgrade(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	one, two := f.nodes["one"], f.nodes["two"]
	var bases sync.Mutex // protects the addresses of the gateways, which change at a restart
	restarts := 0
	machines := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := f.nodes[strings.TrimPrefix(r.URL.Path, "/")]
		n.signal(syscall.SIGTERM)
		<-n.ended
		bases.Lock()
		defer bases.Unlock()
		restarts++
		if err := n.tryRun(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer machines.Close()

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	made := make([]int, 4)
	for i := range made {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				call := fleetCall{Command: fmt.Sprintf("echo %d >> client%d.txt", n, i), Session: fmt.Sprintf("client%d", i), CallID: fmt.Sprintf("%d-%d", i, n)}
				for try := 0; ; try++ {
					gateway := []*fleetNode{one, two}[(n+try)%2]
					bases.Lock()
					at := &fleetNode{fleet: f, name: gateway.name, base: gateway.address()}
					bases.Unlock()
					res, err := at.call(context.WithoutCancel(ctx), call)
					if err != nil && try < 500 { // the gateway is being restarted
						time.Sleep(20 * time.Millisecond)
						continue
					}
					if err != nil || !res.Success {
						t.Errorf("client %d, call %d at %s: %v %v", i, n, gateway.name, res, err)
						return
					}
					break
				}
				made[i] = n + 1
			}
		})
	}
	time.Sleep(300 * time.Millisecond) // so that calls run when the upgrade begins
	begun := one.do("fleet", "upgrade", "--command", "curl -sSf "+machines.URL+"/$TOOLHOST_NODE", "--json")
	stop()
	clients.Wait()
	if restarts != 2 || !strings.Contains(begun, `"upgraded":["two","one"]`) {
		t.Errorf("%d restarts: %s", restarts, begun)
	}
	for i, n := range made {
		var want bytes.Buffer
		for k := range n {
			fmt.Fprintln(&want, k)
		}
		if got, err := os.ReadFile(filepath.Join(f.workspace, fmt.Sprintf("client%d.txt", i))); err != nil || !bytes.Equal(got, want.Bytes()) || n < 10 {
			t.Errorf("client %d made %d calls, and the file has %q %v", i, n, got, err)
		}
	}

	one.refused("the command failed", "fleet", "upgrade", "--command", "exit 3", "--node", "two")
	one.refused("the node two is draining", "fleet", "upgrade", "--command", "true")
	one.do("fleet", "undrain", "two")
	one.refused("the command did not restart it", "fleet", "upgrade", "--command", "true", "--node", "two", "--ready", "500ms")
	one.refused(`no node "tow"`, "fleet", "upgrade", "--command", "true", "--node", "tow")

	one.refused("toolhost fleet upgrade", "serve", "--fleet", "--take-over")

	// When a session is removed, its variables are lost, its files stay, and its name can be used again.
	for _, gateway := range []*fleetNode{one, two} {
		one.want("removed", "echo kept > kept.txt; export COLOR=green; cd /")
		gateway.do("fleet", "session", "remove", "removed")
		if out := one.do("fleet", "sessions"); strings.Contains(out, "removed") {
			t.Errorf("the removed session is still listed: %s", out)
		}
		if out := two.want("removed", "pwd; cat kept.txt; echo $COLOR").Output; !strings.HasPrefix(out, f.workspace+"\nkept\n\n") {
			t.Errorf("the new session has %q", out)
		}
		gateway.do("fleet", "session", "remove", "removed")
		gateway.refused("no session", "fleet", "session", "remove", "removed")
	}
	one.want("busy", "true")
	held := make(chan *fleetResult, 1)
	go func() {
		res, _ := two.call(t.Context(), fleetCall{Command: "touch held; until test -e free; do sleep 0.05; done; echo done", Session: "busy"})
		held <- res
	}()
	hosttest.Wait(t, "the call runs", func() bool { _, err := os.Stat(filepath.Join(f.workspace, "held")); return err == nil })
	two.refused("a call of the session still runs", "fleet", "session", "remove", "busy", "--wait", "200ms")
	hosttest.Must(t, os.WriteFile(filepath.Join(f.workspace, "free"), nil, 0o644))
	if res := <-held; res == nil || !res.Success || res.Output != "done\n" {
		t.Errorf("the call that ran meanwhile: %v", res)
	}
}
