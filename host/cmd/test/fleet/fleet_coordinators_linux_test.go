package fleet

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/fleet/identity"
)

// councilTest changes the coordinators of a fleet while clients make calls.
type councilTest struct {
	t     *testing.T
	f     *testFleet
	ended chan struct{}
	down  string // the node that the test keeps down
	all   sync.WaitGroup
	mu    sync.Mutex
	made  map[string]bool // whether the call was confirmed, by call id
	known []string        // ids of the confirmed calls of the session "s0", oldest first
	count atomic.Int64    // confirmed calls
}

// newCouncilTest starts a fleet whose nodes have different addresses, so that each can have a coordinator.
func newCouncilTest(t *testing.T, program string, names ...string) *councilTest {
	t.Helper()
	f := newFleet(t, "")
	f.program = program
	b, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(f.config, []byte(strings.Replace(string(b), `lease = "2s"`, `lease = "12s"`, 1)), 0o644))
	f.env = []string{"TOOLHOST_FLEET_KILL=" + filepath.Join(f.dir, "kill")}
	for i, name := range names {
		listen := strings.Replace(fleetPort(t), "127.0.0.1", fmt.Sprintf("127.0.0.%d", 11+i), 1)
		f.startNode(&fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: listen})
	}
	return &councilTest{t: t, f: f, ended: make(chan struct{}), made: make(map[string]bool)}
}

// clients starts clients that make calls through all nodes until [councilTest.judge].
func (c *councilTest) clients() {
	for i := range 2 {
		session := fmt.Sprintf("s%d", i)
		c.all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-c.ended:
					return
				case <-time.After(300 * time.Millisecond): // leave the processors to the coordinators
					c.call(session, fmt.Sprintf("%s.%d", session, n))
				}
			}
		})
	}
}

// call appends a line to the file of a session through one node after the other, until its outcome is known.
func (c *councilTest) call(session, id string) {
	names := make([]string, 0, len(c.f.nodes))
	for name := range c.f.nodes {
		names = append(names, name)
	}
	for _, name := range names {
		res, err := c.f.nodes[name].call(c.t.Context(), appendCall(session, id))
		if err != nil {
			continue // the node is down
		}
		c.mu.Lock()
		c.made[id] = c.made[id] || res.Success
		if res.Success && session == "s0" {
			c.known = append(c.known, id)
		}
		c.mu.Unlock()
		if res.Success {
			c.count.Add(1)
			return
		}
		if res.unknown() {
			return
		}
	}
}

func appendCall(session, id string) fleetCall {
	return fleetCall{Session: session, CallID: id, Command: fmt.Sprintf("echo %s >> %s.txt", id, session)}
}

// repeat kills the node that has the session "s0", and repeats the last calls of the session. The next node knows these
// calls only from the coordinators, and a call that they forgot runs again.
func (c *councilTest) repeat() {
	c.t.Helper()
	owner, other := c.f.owner("s0")
	owner.kill()
	for _, id := range c.known[max(0, len(c.known)-repeated):] {
		if _, err := other.call(c.t.Context(), appendCall("s0", id)); err != nil {
			c.t.Error(err)
		}
	}
	owner.run()
}

// repeated is the number of calls that [councilTest.repeat] repeats. It includes calls from before the last change, and
// a node remembers twice as many calls of a session.
const repeated = 128

// goesOn waits until a call of each client that began after now is confirmed.
func (c *councilTest) goesOn() {
	c.t.Helper()
	before := c.count.Load()
	hosttest.Wait(c.t, "calls go on", func() bool { return c.count.Load() > before+4 })
}

// judge stops the clients and repeats calls. It checks that no confirmed call is missing, and that no call ran twice.
func (c *councilTest) judge() {
	c.t.Helper()
	close(c.ended)
	c.all.Wait()
	c.repeat()
	ran := make(map[string]int)
	for i := range 2 {
		b, err := os.ReadFile(filepath.Join(c.f.workspace, fmt.Sprintf("s%d.txt", i)))
		hosttest.Must(c.t, err)
		for _, id := range strings.Fields(string(b)) {
			ran[id]++
		}
	}
	unknown := 0
	for id, confirmed := range c.made {
		if n := ran[id]; n > 1 || confirmed && n != 1 {
			c.t.Errorf("the call %s ran %d times, confirmed: %t", id, n, confirmed)
		}
		if !confirmed {
			unknown++
		}
	}
	c.t.Logf("%d calls confirmed, %d not", c.count.Load(), unknown)
	// The journal answers for what the nodes remember.
	for _, n := range c.f.nodes {
		if res := n.want("s0", "tail -n 1 s0.txt"); strings.TrimSpace(withoutNote(res.Output)) == "" {
			c.t.Errorf("the session through %s: %q", n.name, res.Output)
		}
	}
}

// change runs "toolhost fleet coordinators" on a node.
func (c *councilTest) change(node string, args ...string) {
	c.t.Helper()
	c.f.nodes[node].do(append([]string{"fleet", "coordinators"}, args...)...)
}

// refuses checks that a change is refused with a message.
func (c *councilTest) refuses(node, want string, args ...string) {
	c.t.Helper()
	c.f.nodes[node].refused(want, append([]string{"fleet", "coordinators"}, args...)...)
}

// has checks which nodes have coordinators, and that all of these are current.
func (c *councilTest) has(names ...string) {
	c.t.Helper()
	slices.Sort(names)
	for _, n := range c.f.nodes {
		if n.name == c.down {
			continue
		}
		var st struct {
			Coordinators int
			Current      int `json:"coordinators_current"`
			Problems     []string
		}
		var now struct{ Members []struct{ Node string } }
		hosttest.Wait(c.t, fmt.Sprintf("%s sees the coordinators %v", n.name, names), func() bool {
			st.Problems = nil
			out, err := n.try("fleet", "status", "--json")
			return err == nil && json.Unmarshal([]byte(out), &st) == nil && st.Coordinators == len(names) && st.Current == len(names) && len(st.Problems) == 0
		})
		hosttest.Must(c.t, json.Unmarshal([]byte(n.do("fleet", "coordinators", "--json")), &now))
		var got []string
		for _, m := range now.Members {
			got = append(got, m.Node)
		}
		if slices.Sort(got); !slices.Equal(got, names) {
			c.t.Errorf("node %s sees the coordinators %v, not %v", n.name, got, names)
		}
		hosttest.Wait(c.t, fmt.Sprintf("%s has a store only if it is one of %v", n.name, names), func() bool {
			_, err := os.Stat(filepath.Join(n.state, "fleet", "coordinator"))
			return (err == nil) == slices.Contains(names, n.name)
		})
	}
}

// occupy listens at the address of the coordinator of a node until end is called.
func (c *councilTest) occupy(node string) (end func()) {
	c.t.Helper()
	name, port, err := net.SplitHostPort(c.f.nodes[node].listen)
	hosttest.Must(c.t, err)
	n, err := strconv.Atoi(port)
	hosttest.Must(c.t, err)
	l, err := net.Listen("tcp", net.JoinHostPort(name, strconv.Itoa(n+1)))
	hosttest.Must(c.t, err)
	return func() { hosttest.Must(c.t, l.Close()) }
}

// TestFleetCoordinatorChange changes the number of coordinators of a running fleet from one to three, to five, and
// back, while clients make calls. Calls may be refused only for a short time, no call may be lost, and none may run
// twice.
func TestFleetCoordinatorChange(t *testing.T) {
	t.Parallel()
	c := newCouncilTest(t, "", "a", "b", "c", "d", "e")
	c.clients()
	c.goesOn()
	c.has("a")
	c.refuses("b", "cannot have 2 coordinators", "add", "b")
	c.refuses("b", "cannot have 4 coordinators", "add", "b", "c", "d")
	c.refuses("b", "has a coordinator already", "add", "a", "b")
	c.refuses("b", `no node "f"`, "add", "b", "f")
	c.refuses("b", "keep 1, 3 or 5", "remove", "a")
	c.refuses("b", "no change of the coordinators", "resume")
	c.refuses("b", "are not being changed", "abort")
	c.change("b", "add", "b", "c")
	c.goesOn()
	c.has("a", "b", "c")
	c.refuses("c", "Name one node more", "add", "d")
	c.refuses("c", "remove all but one", "remove", "a")
	end := c.occupy("e")
	c.refuses("d", "the coordinator ended at once", "add", "d", "e")
	end()
	c.goesOn()
	c.has("a", "b", "c")
	c.grouped(3) // it can have joined the others before the change was given up
	c.change("d", "add", "d", "e")
	c.goesOn()
	c.has("a", "b", "c", "d", "e")
	c.change("d", "remove", "a", "d") // also the first one
	c.goesOn()
	c.has("b", "c", "e")
	c.f.nodes["c"].kill() // the coordinator of the node continues, and the restarted node finds the other coordinators
	c.f.nodes["c"].run()
	c.change("a", "remove", "c", "e")
	c.goesOn()
	c.has("b")
	c.judge()
}

// grouped waits until exactly n servers are in the group of the coordinators. A server that stays there although it is
// no coordinator counts for the majority.
func (c *councilTest) grouped(n int) {
	c.t.Helper()
	a := c.f.nodes["a"]
	id, err := identity.Open(filepath.Join(a.state, "fleet"))
	hosttest.Must(c.t, err)
	nc, err := nats.Connect("tls://"+a.coordinatorAddress(), nats.Secure(id.Client(identity.CoordinatorName)), nats.UserInfo("system", ""))
	hosttest.Must(c.t, err)
	defer nc.Close()
	hosttest.Wait(c.t, fmt.Sprintf("the group has %d servers", n), func() bool {
		var out struct {
			Data struct {
				Meta struct {
					Size int `json:"cluster_size"`
				} `json:"meta_cluster"`
			}
		}
		m, err := nc.Request("$SYS.REQ.SERVER.PING.JSZ", []byte(`{"leader_only":true}`), 5*time.Second)
		return err == nil && json.Unmarshal(m.Data, &out) == nil && out.Data.Meta.Size == n
	})
}

// sees waits until a node sees that another one is ready.
func (c *councilTest) sees(node, other string) {
	c.t.Helper()
	hosttest.Wait(c.t, node+" sees that "+other+" is ready", func() bool {
		var st struct {
			Nodes []struct{ Node, State string }
		}
		out, err := c.f.nodes[node].try("fleet", "status", "--json")
		return err == nil && json.Unmarshal([]byte(out), &st) == nil && slices.ContainsFunc(st.Nodes, func(n struct{ Node, State string }) bool {
			return n.Node == other && n.State == "ready"
		})
	})
}

// stopCoordinator kills the coordinator of a node.
func (c *councilTest) stopCoordinator(n *fleetNode) {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.state, "fleet", "coordinator", "lock"))
	hosttest.Must(c.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	hosttest.Must(c.t, err)
	hosttest.Must(c.t, syscall.Kill(pid, syscall.SIGKILL))
}

// TestFleetCoordinatorReplace replaces the coordinator of a machine that died, and one that runs. The new coordinators
// must have the records. When the dead machine comes back, its coordinator must leave.
func TestFleetCoordinatorReplace(t *testing.T) {
	t.Parallel()
	c := newCouncilTest(t, "", "a", "b", "c", "d")
	c.clients()
	c.goesOn()
	c.refuses("b", "the only coordinator cannot be replaced", "replace", "a", "b")
	c.change("b", "add", "b", "c")
	c.refuses("b", "has a coordinator already", "replace", "a", "b")
	c.refuses("b", "has no coordinator", "replace", "d", "a")
	c.refuses("b", "name two nodes", "replace", "a", "a")
	end := c.occupy("d")
	c.refuses("b", "the coordinator ended at once", "replace", "c", "d")
	end()
	dead := c.f.nodes["c"]
	c.down = "c"
	dead.kill()
	c.stopCoordinator(dead)
	c.goesOn()
	c.change("b", "replace", "c", "d")
	c.goesOn()
	c.has("a", "b", "d")
	// Only with the copies of the new coordinator can one of the old ones be missing.
	c.stopCoordinator(c.f.nodes["b"])
	c.goesOn()
	dead.run()
	c.down = ""
	c.has("a", "b", "d")
	c.goesOn()
	c.sees("b", "c")
	c.change("b", "replace", "d", "c")
	c.goesOn()
	c.has("a", "b", "c")
	c.judge()
}

// councilStep is a step of a change of the coordinators. TestFleetCoordinatorSteps kills the acting node at this step.
type councilStep struct {
	step   string
	change []string // the change of the coordinators
	finish string   // how the change is finished
	has    []string // the coordinators afterwards
}

var (
	three = []string{"a", "b", "c"}
	grow  = []string{"add", "b", "c"}
	less  = []string{"remove", "b", "c"}
	swap  = []string{"replace", "c", "d"}
)

var councilSteps = []councilStep{
	{"change of coordinators recorded", grow, "abort", []string{"a"}},
	{"stream copied", grow, "abort", []string{"a"}},
	{"nodes told of coordinators", grow, "resume", three},
	{"records copied", less, "resume", []string{"a"}},
	{"change of coordinators known", grow, "resume", three},
	{"records copied", swap, "resume", []string{"a", "b", "d"}},
	{"coordinator follows", []string{"remove", "b", "d"}, "resume", []string{"a"}},
}

// TestFleetCoordinatorSteps kills the acting node at each step of a change of the coordinators. Afterwards, the change
// can be completed or given up, also when too few coordinators run. No call may be lost or run twice.
func TestFleetCoordinatorSteps(t *testing.T) {
	t.Parallel()
	c := newCouncilTest(t, controlProgram(), "a", "b", "c", "d")
	c.clients()
	c.goesOn()
	for _, s := range councilSteps {
		k := &stepTest{fleetStep: fleetStep{step: s.step}, f: c.f}
		k.killDuring(c.f.nodes["b"], append([]string{"fleet", "coordinators"}, s.change...)...)
		_, err := c.f.nodes["c"].try("fleet", "coordinators", s.finish)
		if err != nil && s.finish == "resume" && strings.Contains(err.Error(), "no change of the coordinators") { // it was given up, because a node had died
			c.change("c", s.change...)
		} else if err != nil {
			t.Errorf("after a kill at %q: %v", s.step, err)
		}
		c.goesOn()
		c.has(s.has...)
		if t.Failed() {
			t.Fatalf("that was step %q", s.step)
		}
	}
	c.replaceGivenUp()
	c.judge()
}

// replaceGivenUp replaces a coordinator with one that dies before it has the copies. The old one has stopped already,
// so the group has no majority. When the replacement is given up, the old coordinator must start again.
func (c *councilTest) replaceGivenUp() {
	c.t.Helper()
	c.change("b", "add", "b", "c")
	k := &stepTest{fleetStep: fleetStep{step: "change of coordinators recorded"}, f: c.f}
	k.killDuring(c.f.nodes["b"], "fleet", "coordinators", "replace", "c", "d")
	k.killDuring(c.f.nodes["b"], "fleet", "coordinators", "resume") // now the copies are to change
	k.step = "nodes told of coordinators"
	k.killDuring(c.f.nodes["b"], "fleet", "coordinators", "resume") // now the old one has stopped
	dead := c.f.nodes["d"]
	c.down = "d"
	dead.kill()
	c.stopCoordinator(dead)
	c.change("a", "abort")
	c.goesOn()
	c.has("a", "b", "c")
	dead.run()
	c.down = ""
	c.has("a", "b", "c")
	c.sees("b", "d")
	c.change("b", "replace", "c", "d")
	c.goesOn()
	c.has("a", "b", "d")
}
