package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host/cmd/test/hosttest"
)

// wire is a network connection between machines that the test can cut. It forwards TCP connections to an address.
type wire struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	down bool
	open map[net.Conn]struct{}
}

// newWire returns a wire to an address.
func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	hosttest.Must(t, err)
	w := &wire{listener: l, to: to, open: make(map[net.Conn]struct{})}
	t.Cleanup(func() {
		l.Close()
		w.cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(c)
		}
	}()
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

// keep records an open connection. It returns false while the wire is cut.
func (w *wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.down {
		w.open[c] = struct{}{}
	}
	return !w.down
}

func (w *wire) carry(near net.Conn) {
	defer near.Close()
	if !w.keep(near) {
		return
	}
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer far.Close()
	if !w.keep(far) {
		return
	}
	go func() {
		_, _ = io.Copy(far, near)
		far.Close()
	}()
	_, _ = io.Copy(near, far)
}

// TestFleetOutwardPartition checks that a node that does not reach the coordinators still reaches a laptop.
func TestFleetOutwardPartition(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	o := newOutwardFleet(t, "", "")
	records := newWire(t, coordinatorOf(o.testFleet, o.east))
	b, err := os.ReadFile(o.west.config)
	hosttest.Must(t, err)
	alone := filepath.Join(o.dir, "etc", "alone.hcl")
	text := strings.Replace(string(b), coordinatorOf(o.testFleet, o.east), records.address(), 1)
	before, rest, _ := strings.Cut(text, "  advertise")
	_, rest, _ = strings.Cut(rest, "\n")
	hosttest.Must(t, os.WriteFile(alone, []byte(before+rest), 0o644))
	far := o.startNode(&fleetNode{fleet: o.testFleet, name: "far", state: filepath.Join(o.dir, "far", "state"), listen: fleetPort(t), config: alone})
	call := func(command string) *fleetResult {
		res, err := far.call(t.Context(), fleetCall{Command: command, Workspace: "@laptop", Session: "far"})
		hosttest.Must(t, err)
		return res
	}
	if res := call("touch one"); !res.Success {
		t.Fatal(res)
	}
	records.cut()
	hosttest.Wait(t, "the lease of the node ends", func() bool { return o.laptop.states()["far"] == "dead" })
	for began := time.Now(); time.Since(began) < 2*time.Second; { // the laptop looks at the nodes each second
		if res := call("true"); !res.Success {
			t.Fatal(res)
		}
	}
}

// cut ends all connections and refuses new ones until heal.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for c := range w.open {
		c.Close()
	}
	clear(w.open)
}

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
}

// outwardFleet is a fleet with two nodes that others can connect to, and a laptop that they cannot. The laptop reaches
// the others only through wires, and has a workspace of its own.
type outwardFleet struct {
	*testFleet
	east, west, laptop *fleetNode
	wires              []*wire
	home               string // the workspace of the laptop
}

func newOutwardFleet(t *testing.T, more, program string, env ...string) *outwardFleet {
	t.Helper()
	f := newFleet(t, "")
	f.program, f.env = program, env
	b, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	o := &outwardFleet{testFleet: f, home: filepath.Join(f.dir, "home")}
	more = strings.ReplaceAll(more, "HOME", o.home)
	hosttest.Must(t, os.Mkdir(o.home, 0o755))

	node := func(name, block string) *fleetNode {
		path := filepath.Join(f.dir, "etc", name+".hcl")
		hosttest.Must(t, os.WriteFile(path, []byte(block+more), 0o644))
		return &fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: fleetPort(t), config: path}
	}
	// Other nodes, and the coordinator, are behind a wire for the laptop.
	reachable := func(name string) (*fleetNode, *wire) {
		n := node(name, "")
		w := newWire(t, n.listen)
		block := strings.Replace(string(b), "fleet {\n", fmt.Sprintf("fleet {\n  advertise = %q\n  coordinators = [%q]\n", w.address(), coordinatorOf(f, n)), 1)
		hosttest.Must(t, os.WriteFile(n.config, []byte(block+more), 0o644))
		o.wires = append(o.wires, w)
		return f.startNode(n), w
	}
	o.east, _ = reachable("east")
	o.west, _ = reachable("west")
	records := newWire(t, coordinatorOf(f, o.east))
	o.wires = append(o.wires, records)
	o.laptop = f.startNode(node("laptop", fmt.Sprintf("fleet {\n  lease = \"2s\"\n  outward = true\n  coordinators = [%q]\n  workspace \"home\" {\n    path = %q\n  }\n}\n", records.address(), o.home)))
	return o
}

// coordinatorOf returns the address of the coordinator of the fleet, which is on its first node.
func coordinatorOf(f *testFleet, n *fleetNode) string {
	if first := f.first(); first != nil {
		n = first
	}
	host, port, _ := net.SplitHostPort(n.listen)
	var number int
	_, _ = fmt.Sscan(port, &number)
	return fmt.Sprintf("%s:%d", host, number+1)
}

func (o *outwardFleet) cut() {
	for _, w := range o.wires {
		w.cut()
	}
}

func (o *outwardFleet) heal() {
	for _, w := range o.wires {
		w.heal()
	}
}

func exists(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// TestFleetOutward checks a node that no other node can connect to: it runs the calls that name it, from each node,
// from each front and from another such node, and no others.
func TestFleetOutward(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	o := newOutwardFleet(t, "principal \"limited\" {\n  workspaces = [\"/elsewhere\"]\n}\nprincipal \"alice\" {\n  workspaces = [\"HOME\"]\n}\n", "")
	if c, err := net.Dial("tcp", o.laptop.listen); err == nil {
		c.Close()
		t.Error("the laptop can be connected to")
	}
	hosttest.Must(t, os.WriteFile(filepath.Join(o.home, "notes"), []byte("at home\n"), 0o600))
	second := filepath.Join(o.dir, "etc", "second.hcl")
	b, err := os.ReadFile(o.laptop.config)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(second, b, 0o644))
	phone := o.startNode(&fleetNode{fleet: o.testFleet, name: "phone", state: filepath.Join(o.dir, "phone", "state"), listen: fleetPort(t), config: second})

	for _, n := range []*fleetNode{o.east, o.west, phone, o.laptop} {
		res, err := n.call(t.Context(), fleetCall{Command: "read notes", Workspace: "home@laptop", Session: "from-" + n.name})
		hosttest.Must(t, err)
		if !res.Success || !strings.Contains(res.Output, "at home") || res.Metadata["node"] != "laptop" {
			t.Errorf("from %s: %s %v", n.name, res, res.Metadata)
		}
		if res := n.do("run", "--on", "laptop", "--", "cat", "notes"); res != "at home\n" {
			t.Errorf("run --on at %s: %q", n.name, res)
		}
	}
	o.refusals(phone)
	o.fronts()
	o.rights()

	// A session that names no node is never at the laptop, also not in a workspace that only outward nodes have.
	if res, err := o.east.call(t.Context(), fleetCall{Command: "pwd", Workspace: "home"}); err != nil || res.Success || !strings.Contains(res.String(), "home@laptop") {
		t.Errorf("a workspace without a node: %s, %v", res, err)
	}
	for i := range 8 {
		if res := o.east.want(fmt.Sprint("s", i), "pwd"); strings.Contains(res.Output, o.home) {
			t.Errorf("a session is at the laptop: %s", res)
		}
	}
	if log := o.laptop.do("log", "--json"); !strings.Contains(log, `"notes"`) || strings.Contains(o.east.do("log", "--json"), `"notes"`) {
		t.Errorf("the audit log of the laptop: %s", log)
	}
	if nodes := o.west.states(); nodes["laptop"] != "ready" {
		t.Errorf("the nodes: %v", nodes)
	}
}

// refusals checks the errors of calls that name a node.
func (o *outwardFleet) refusals(phone *fleetNode) {
	t := o.t
	t.Helper()
	for workspace, want := range map[string]string{
		"home@latop": `Did you mean "laptop"`, "hme@laptop": `Did you mean "home"`, "@": "The fleet has no node", "home@": "The fleet has no node", "repo@laptop": "The node laptop has no workspace",
	} {
		res, err := o.east.call(t.Context(), fleetCall{Command: "pwd", Workspace: workspace})
		hosttest.Must(t, err)
		if res.Success || !strings.Contains(res.String(), want) {
			t.Errorf("%q: %s", workspace, res)
		}
	}
	o.east.refused("The fleet has no node", "run", "--on", "nowhere", "pwd")
	phone.kill()
	o.east.refused("phone", "run", "--on", "phone", "pwd")
}

// fronts checks the other ways to name a node: batch, the prompt and MCP.
func (o *outwardFleet) fronts() {
	t := o.t
	t.Helper()
	c := hosttest.NewClient(t, o.east.address(), hosttest.ServerToken)
	body := c.Want(200, "", "POST", "/v1/batch", `{"id":1,"command":"pwd","workspace":"@laptop"}`+"\n")
	if !strings.Contains(body, o.home) {
		t.Errorf("batch: %s", body)
	}
	o.east.refused("--atomic", "batch", "--atomic", "--on", "laptop")
	for front, in := range map[string]string{
		"batch": `{"id":1,"command":"pwd"}`,
		"repl":  "pwd",
		"mcp": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bash","arguments":{"command":"pwd"}}}`,
	} {
		c := o.east.command(front, "--on", "laptop")
		c.Stdin = strings.NewReader(in + "\n")
		if out, err := c.Output(); err != nil || !strings.Contains(string(out), o.home) {
			t.Errorf("%s --on: %v %s", front, err, out)
		}
	}
}

// rights checks who can reach the laptop.
func (o *outwardFleet) rights() {
	t := o.t
	t.Helper()
	for name, reaches := range map[string]bool{"limited": false, "alice": true} {
		var made struct{ Token string }
		hosttest.Must(t, json.Unmarshal([]byte(o.east.do("token", "create", name, "--json")), &made))
		_, body := hosttest.NewClient(t, o.east.address(), made.Token).Do("POST", "/v1/run", `{"command":"pwd","workspace":"@laptop","session":"rights"}`)
		if strings.Contains(body, `"success":true`) != reaches {
			t.Errorf("%s at the laptop: %s", name, body)
		}
	}
	hosttest.NewClient(t, o.east.address(), "wrong").Want(401, "", "POST", "/v1/run", `{"command":"pwd","workspace":"@laptop"}`)
	// A tool cannot make calls with the rights of the user.
	out, err := o.laptop.try("run", "--on", "laptop", "--", "bash", "-c", fmt.Sprintf("%s --state %s run --on east -w / pwd; ls %s/fleet", hosttest.Bin+"/toolhost", o.laptop.state, o.laptop.state))
	if err == nil || strings.Contains(out, o.workspace) || strings.Contains(out, "calls.sock") {
		t.Errorf("a tool reaches the fleet: %v %s", err, out)
	}
	// The jobs of a call with --on go on.
	if said := o.east.do("run", "--on", "laptop", "--json", "sleep 300 & echo started"); !strings.Contains(said, "job-") || strings.Contains(said, "end now") {
		t.Errorf("a job at the laptop: %s", said)
	}
}

// TestFleetLostConnection checks that a call goes on while the connection to its node is lost, and that its result and
// its question arrive when the connection is back.
func TestFleetLostConnection(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	o := newOutwardFleet(t, "permissions {\n  policy = \"careful\"\n  ask \"dates\" {\n    command = [\"date *\"]\n  }\n}\n", "")
	o.ends(t)

	t.Run("ask", func(t *testing.T) {
		hosttest.Must(t, os.WriteFile(filepath.Join(o.home, "old"), []byte("content\n"), 0o600))
		done := o.east.begin(fleetCall{Command: "rm old", Workspace: "@laptop", Session: "asks"})
		boss := hosttest.NewClient(t, o.east.address(), hosttest.ApproverToken)
		var ids []string
		hosttest.Wait(t, "the ask is at the person's front", func() bool { ids = open(boss); return len(ids) == 1 })
		o.cut()
		boss.Want(200, "", "POST", "/v1/asks/"+ids[0], `{"outcome":"accepted"}`)
		o.away(t)
		if !exists(filepath.Join(o.home, "old"))() {
			t.Error("the call ran without the answer")
		}
		o.heal()
		if res := resultOf(t, done); !res.Success {
			t.Error(res)
		}
		if left := open(boss); len(left) > 0 || exists(filepath.Join(o.home, "old"))() {
			t.Errorf("asked again: %v", left)
		}
	})
	t.Run("ask again", func(t *testing.T) {
		done := o.east.begin(fleetCall{Command: "date +%Y", Workspace: "@laptop", Session: "asks-again"})
		boss := hosttest.NewClient(t, o.east.address(), hosttest.ApproverToken)
		var first, ids []string
		hosttest.Wait(t, "the ask is at the person's front", func() bool { first = open(boss); return len(first) == 1 })
		o.laptop.kill()
		o.laptop.run()
		hosttest.Wait(t, "the call asks again, and the first ask is gone", func() bool { ids = open(boss); return len(ids) == 1 && ids[0] != first[0] })
		boss.Want(200, "", "POST", "/v1/asks/"+ids[0], `{"outcome":"accepted"}`)
		if res := resultOf(t, done); !res.Success {
			t.Error(res)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = o.east.call(ctx, fleetCall{Command: "touch runs; while [ ! -e stop ]; do sleep 0.02; done; touch late", Workspace: "@laptop", Session: "cancels"})
		}()
		hosttest.Wait(t, "the call runs", exists(filepath.Join(o.home, "runs")))
		cancel()
		hosttest.Wait(t, "the call has ended", func() bool {
			return strings.Contains(o.laptop.do("log", "--json", "--session", "cancels"), `"canceled"`)
		})
		hosttest.Must(t, os.WriteFile(filepath.Join(o.home, "stop"), nil, 0o600))
		if res, err := o.east.call(t.Context(), fleetCall{Command: "ls", Workspace: "@laptop", Session: "cancels"}); err != nil || !res.Success || strings.Contains(res.Output, "late") {
			t.Errorf("after the cancel: %s, %v", res, err)
		}
	})
	t.Run("stop", func(t *testing.T) { // the gateway of a program
		c := o.west.command("run", "--on", "laptop", "--session", "stops", "touch goes-on; while [ ! -e never ]; do sleep 0.02; done; touch later")
		out, err := c.StderrPipe()
		hosttest.Must(t, err)
		hosttest.Must(t, c.Start())
		hosttest.Wait(t, "the call runs", exists(filepath.Join(o.home, "goes-on")))
		o.west.signal(syscall.SIGTERM)
		said, _ := io.ReadAll(out)
		if err := c.Wait(); err == nil || !strings.Contains(string(said), "cancel") {
			t.Errorf("the node was stopped: %v %s", err, said)
		}
		hosttest.Wait(t, "the call has ended", func() bool {
			return strings.Contains(o.laptop.do("log", "--json", "--session", "stops"), `"canceled"`)
		})
	})
	t.Run("restart", func(t *testing.T) {
		done := o.east.begin(fleetCall{Command: "touch began; while [ ! -e never ]; do sleep 0.02; done", Workspace: "@laptop", Session: "restarts"})
		hosttest.Wait(t, "the call runs", exists(filepath.Join(o.home, "began")))
		o.laptop.kill()
		o.laptop.run()
		if res := resultOf(t, done); res.Success || res.Error.Code != 520 || !strings.Contains(res.String(), "laptop") {
			t.Errorf("the node was killed: %s", res)
		}
	})
}

// TestFleetLostConnectionControl checks that the result is lost if calls do not wait for their gateways.
func TestFleetLostConnectionControl(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	o := newOutwardFleet(t, "", controlProgram(), "TOOLHOST_FLEET_WITHOUT=hold")
	if res := o.lose(t, "started"); res.Success {
		t.Errorf("without holds: %s", res)
	}
}

// ends checks that a call that ends while the connection is lost runs once, and that its result arrives.
func (o *outwardFleet) ends(t *testing.T) {
	t.Helper()
	res := o.lose(t, "ended")
	b, err := os.ReadFile(filepath.Join(o.home, "ran"))
	if !res.Success || !strings.Contains(res.Output, "the answer") || string(b) != "ran\n" || err != nil {
		t.Errorf("a call during which the connection was lost: %s; it wrote %q, %v", res, b, err)
	}
}

// lose makes a call, and cuts the connection until the call has made a file and the lease of the laptop has ended.
func (o *outwardFleet) lose(t *testing.T, file string) *fleetResult {
	t.Helper()
	at := func(name string) string { return filepath.Join(o.home, name) }
	done := o.east.begin(fleetCall{Command: "touch started; while [ ! -e go ]; do sleep 0.02; done; echo ran >> ran; touch ended; echo the answer", Workspace: "home@laptop", Session: "loses"})
	hosttest.Wait(t, "the call runs", exists(at("started")))
	o.cut()
	hosttest.Must(t, os.WriteFile(at("go"), nil, 0o600))
	hosttest.Wait(t, "the call has "+file, exists(at(file)))
	o.away(t)
	o.heal()
	return resultOf(t, done)
}

// away waits until the other nodes think that the laptop has lost its lease.
func (o *outwardFleet) away(t *testing.T) {
	t.Helper()
	hosttest.Wait(t, "the lease of the laptop ends", func() bool { return o.east.states()["laptop"] != "ready" })
}
