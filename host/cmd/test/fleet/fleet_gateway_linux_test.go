package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// begin starts a call, and returns a channel for its result. The channel is closed without a result if the gateway does
// not answer.
func (n *fleetNode) begin(c fleetCall) <-chan *fleetResult {
	done := make(chan *fleetResult, 1)
	go func() {
		defer close(done)
		if res, err := n.call(n.fleet.t.Context(), c); err == nil {
			done <- res
		}
	}()
	return done
}

// resultOf waits for the result of a call that begin started.
func resultOf(t *testing.T, done <-chan *fleetResult) *fleetResult {
	t.Helper()
	select {
	case res, ok := <-done:
		if !ok {
			t.Fatal("the gateway of a call did not answer")
		}
		return res
	case <-hosttest.Late(t):
		t.Fatal("waited in vain: the call has a result")
	}
	return nil
}

// TestFleetSameCall sends a call with one id through three gateways at the same time, and again after its result was
// received. It must run once, and all of them get its result. Another call with the id is refused.
func TestFleetSameCall(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two", "three")
	f.nodes["one"].want("s", "true")
	owner, _ := f.owner("s")
	call := fleetCall{Command: "echo ran >> ran; while [ ! -e go ]; do sleep 0.02; done; echo the answer", Session: "s", CallID: "same"}
	other := fleetCall{Command: "echo other >> ran", Session: "s", CallID: "same"}
	var all []<-chan *fleetResult
	for _, n := range f.nodes {
		all = append(all, n.begin(call))
	}
	hosttest.Wait(t, "all calls are at the owner", func() bool {
		return strings.Contains(owner.do("fleet", "status", "--json"), fmt.Sprintf(`"calls":%d`, len(all)))
	})
	refused := owner.begin(other)
	hosttest.Must(t, os.WriteFile(filepath.Join(f.workspace, "go"), nil, 0o600))
	firsts := 0
	for _, done := range all {
		res := resultOf(t, done)
		if !res.Success || res.Output != "the answer\n" {
			t.Errorf("the call: %s", res)
		}
		if res.Metadata["repeated"] != true {
			firsts++
		}
	}
	if firsts != 1 {
		t.Errorf("%d results are not those of repetitions", firsts)
	}
	if res := resultOf(t, refused); res.Success || res.Error.Kind != "invalid_arguments" {
		t.Errorf("another call with the same id: %s", res)
	}
	for _, n := range f.nodes {
		if res := resultOf(t, n.begin(call)); res.Output != "the answer\n" || res.Metadata["repeated"] != true {
			t.Errorf("the repetition at %s: %s %v", n.name, res, res.Metadata)
		}
	}
	if b, err := os.ReadFile(filepath.Join(f.workspace, "ran")); err != nil || string(b) != "ran\n" {
		t.Errorf("the call wrote %q, %v", b, err)
	}
}

// TestFleetGatewayKilled kills the gateway of a call that runs on another node. The owner must cancel the call, and the
// session must go on through another gateway. A repetition of the call does not run it again.
func TestFleetGatewayKilled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two", "three")
	f.nodes["one"].want("s", "true")
	owner, gateway := f.owner("s")
	var third *fleetNode
	for _, n := range f.nodes {
		if n != owner && n != gateway {
			third = n
		}
	}
	marker := fmt.Sprintf("sleep 86%d", os.Getpid())
	call := fleetCall{Command: "echo ran >> ran; " + marker + "; echo late >> ran", Session: "s", CallID: "killed"}
	running := func() (n int) {
		for _, p := range hosttest.Descendants() {
			if p.Command() == marker {
				n++
			}
		}
		return n
	}
	gateway.begin(call)
	hosttest.Wait(t, "the call runs", func() bool { return running() > 0 })
	gateway.kill()
	if res := third.want("s", "echo next >> ran; cat ran"); res.Output != "ran\nnext\n" {
		t.Errorf("the next call: %s", res)
	}
	if n := running(); n > 0 {
		t.Errorf("%d processes of the call are left", n)
	}
	res, err := third.call(t.Context(), call)
	hosttest.Must(t, err)
	if res.Success || res.Error.Code != 520 || !strings.Contains(res.String(), gateway.name) || res.Metadata["repeated"] != true {
		t.Errorf("the repetition: %s %v", res, res.Metadata)
	}
	if res := third.want("s", "cat ran"); res.Output != "ran\nnext\n" {
		t.Errorf("after the repetition: %s", res)
	}
}

// TestFleetOutwardGatewayKilled is like [TestFleetGatewayKilled] for a call at an outward node. The call goes on, so
// that a gateway which only lost its connection could come back, and a repetition gets its result.
func TestFleetOutwardGatewayKilled(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	o := newOutwardFleet(t, "", "")
	call := fleetCall{Command: "echo ran >> ran; while [ ! -e go ]; do sleep 0.02; done; echo the answer", Workspace: "@laptop", Session: "s", CallID: "killed"}
	o.west.begin(call)
	hosttest.Wait(t, "the call runs", exists(filepath.Join(o.home, "ran")))
	o.west.kill()
	again := o.east.begin(call)
	hosttest.Wait(t, "the repetition is at the laptop", func() bool { return strings.Contains(o.laptop.do("fleet", "status", "--json"), `"calls":2`) })
	hosttest.Must(t, os.WriteFile(filepath.Join(o.home, "go"), nil, 0o600))
	if res := resultOf(t, again); !res.Success || !strings.Contains(res.Output, "the answer") || res.Metadata["repeated"] != true {
		t.Errorf("the repetition: %s %v", res, res.Metadata)
	}
	if res := resultOf(t, o.east.begin(fleetCall{Command: "cat ran", Workspace: "@laptop", Session: "s"})); !res.Success || res.Output != "ran\n" {
		t.Errorf("the next call: %s", res)
	}
}
