package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"

	"toolhost.dev/host/cmd/internal/cli"
	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/fleet/fleetpb"
)

// testFleet is a fleet on this machine. Its nodes share a workspace.
type testFleet struct {
	t         *testing.T
	dir       string // directory with all files of the fleet
	workspace string // the shared workspace "repo"
	config    string
	program   string // path of the host; empty means the one in bin
	env       []string
	nodes     map[string]*fleetNode
}

// fleetNode is a node of a [testFleet].
type fleetNode struct {
	fleet   *testFleet
	name    string
	state   string
	listen  string   // address for other nodes
	web     string   // address for clients; empty means a free port
	within  []string // command that starts the program in other namespaces
	args    []string
	env     []string
	config  string // empty means the configuration of the fleet
	program string // empty means the program of the fleet
	cmd     *exec.Cmd
	base    string
	mu      sync.Mutex
	log     bytes.Buffer
	token   string // join token that the first node printed
	ended   chan struct{}
	isDown  bool // whether the test keeps the node down
	client  *http.Client
}

// newFleet creates a fleet and starts the nodes with the given names. It adds the settings to the configuration of the
// fleet.
func newFleet(t *testing.T, settings string, names ...string) *testFleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	hosttest.Must(t, err)
	dir, err = filepath.EvalSymlinks(dir)
	hosttest.Must(t, err)
	f := &testFleet{t: t, dir: dir, workspace: filepath.Join(dir, "repo"), config: filepath.Join(dir, "etc", "fleet.hcl"), nodes: make(map[string]*fleetNode)}
	hosttest.Must(t, os.MkdirAll(f.workspace, 0o755))
	hosttest.Must(t, os.MkdirAll(filepath.Dir(f.config), 0o755))
	hosttest.Must(t, os.WriteFile(f.config, []byte(fmt.Sprintf("fleet {\n  lease = \"2s\"\n  workspace \"repo\" {\n    path   = %q\n    shared = \"the-repo\"\n  }\n%s\n}\n", f.workspace, settings)), 0o644))
	t.Cleanup(func() {
		f.end()
		if t.Failed() {
			for _, n := range f.nodes {
				t.Logf("node %s:\n%s", n.name, n.said())
			}
		}
	})
	for _, name := range names {
		f.start(name)
	}
	return f
}

// newFleetWithLocal returns a fleet without nodes, and the path of a second configuration. Nodes with this
// configuration also have the workspace "local". The text "more" is added to both configurations. In this text, REPO
// stands for the path of the shared workspace.
func newFleetWithLocal(t *testing.T, more string) (f *testFleet, withLocal string) {
	t.Helper()
	f = newFleet(t, `
  workspace "local" {
    path  = "LOCAL"
    nodes = { has = "local" }
  }`)
	b, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	local := filepath.Join(f.dir, "local")
	hosttest.Must(t, os.Mkdir(local, 0o755))
	text := strings.ReplaceAll(string(b), "LOCAL", local) + strings.ReplaceAll(more, "REPO", f.workspace)
	hosttest.Must(t, os.WriteFile(f.config, []byte(text), 0o644))
	withLocal = filepath.Join(f.dir, "etc", "local.hcl")
	hosttest.Must(t, os.WriteFile(withLocal, []byte(strings.Replace(text, "fleet {\n", "fleet {\n  labels = { has = \"local\" }\n", 1)), 0o644))
	return f, withLocal
}

// end kills the nodes and the coordinators of the fleet, and removes its files.
func (f *testFleet) end() {
	for _, n := range f.nodes {
		n.kill()
	}
	f.stopCoordinators()
	_ = os.RemoveAll(f.dir)
}

// stopCoordinators kills the coordinators that the nodes started.
func (f *testFleet) stopCoordinators() {
	locks, _ := filepath.Glob(filepath.Join(f.dir, "*", "state", "fleet", "coordinator", "lock"))
	for _, lock := range locks {
		b, _ := os.ReadFile(lock)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// fleetPort returns a free address for a node or a server. The next port is also free, because the coordinator of a
// node listens there. Both ports are outside of the range from which the kernel takes ports for other sockets.
func fleetPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := 20_000 + 2*rand.IntN(6_000)
		first, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		second, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		first.Close()
		if err == nil {
			second.Close()
			return first.Addr().String()
		}
	}
	t.Fatal("no two ports are free")
	return ""
}

// start starts a new node. The first node begins the fleet, and the other nodes join it.
func (f *testFleet) start(name string, args ...string) *fleetNode {
	f.t.Helper()
	return f.startNode(&fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: fleetPort(f.t), args: args})
}

func (f *testFleet) startNode(n *fleetNode) *fleetNode {
	f.t.Helper()
	name := n.name
	hosttest.Must(f.t, os.MkdirAll(filepath.Join(f.dir, name, "work"), 0o755))
	join := []string{}
	if first := f.first(); first != nil {
		token := filepath.Join(f.dir, name, "token")
		hosttest.Must(f.t, os.WriteFile(token, []byte(cmp.Or(first.takeToken(), first.newToken())), 0o600))
		join = []string{"--fleet-token-file", token, "join", first.listen}
	}
	hosttest.KeptState(f.t, n.state)
	f.nodes[name] = n
	n.run(join...)
	return n
}

func (f *testFleet) first() *fleetNode {
	for _, n := range f.nodes {
		if _, err := os.Stat(filepath.Join(n.state, "fleet", "ca.key")); err == nil {
			return n
		}
	}
	return nil
}

func (n *fleetNode) takeToken() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	token := n.token
	n.token = ""
	return token
}

func (n *fleetNode) newToken() string {
	n.fleet.t.Helper()
	return strings.TrimSpace(n.do("fleet", "token"))
}

// run starts the process of the node, and waits until the node serves.
func (n *fleetNode) run(join ...string) {
	n.fleet.t.Helper()
	if err := n.tryRun(join...); err != nil {
		n.fleet.t.Fatalf("node %s: %v\n%s", n.name, err, n.said())
	}
}

func (n *fleetNode) tryRun(join ...string) error {
	args := append([]string{"serve", "--fleet", "--fleet-node", n.name, "--fleet-listen", n.listen, "--listen", cmp.Or(n.web, "127.0.0.1:0")}, n.args...)
	cmd, ended := n.command(append(args, join...)...), make(chan struct{})
	cmd.Env = append(cmd.Env, "TOOLHOST_TOKEN="+hosttest.ServerToken, "TOOLHOST_APPROVER_TOKEN="+hosttest.ApproverToken, "XDG_RUNTIME_DIR="+filepath.Join(n.fleet.dir, n.name))
	cmd.Env = append(cmd.Env, n.fleet.env...)
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.ended = cmd, ended
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			n.mu.Lock()
			n.log.WriteString(line)
			if i := strings.Index(line, "thfleet1."); i >= 0 {
				n.token = strings.TrimSpace(line[i:])
			}
			n.mu.Unlock()
			if _, addr, ok := strings.Cut(line, "listening on "); ok {
				ready <- strings.TrimSpace(addr)
			}
			if err != nil {
				break
			}
		}
		_ = cmd.Wait()
		close(ended)
	}()
	select {
	case base := <-ready:
		n.mu.Lock()
		defer n.mu.Unlock()
		n.base = base
		return nil
	case <-ended:
		return errors.New("it ended")
	case <-hosttest.Late(n.fleet.t):
		_ = cmd.Process.Kill()
		<-ended
		return errors.New("it did not begin to serve")
	}
}

// arguments returns the arguments of a toolhost command that uses the state directory of the node.
func (n *fleetNode) arguments(args ...string) []string {
	return append([]string{"--config", cmp.Or(n.config, n.fleet.config), "--state", n.state, "--workspace", filepath.Join(n.fleet.dir, n.name, "work")}, args...)
}

// command returns a toolhost command that uses the state directory of the node, and runs in a process of its own.
func (n *fleetNode) command(args ...string) *exec.Cmd {
	line := slices.Concat(n.within, []string{cmp.Or(n.program, n.fleet.program, filepath.Join(hosttest.Bin, "toolhost"))}, n.arguments(args...))
	c := exec.Command(line[0], line[1:]...)
	c.Dir, c.Env = filepath.Join(n.fleet.dir, n.name), append(os.Environ(), n.env...)
	return c
}

// try runs a toolhost command as the operator of the node, and returns its output. The error has all that the command
// printed. The command runs in the process of the test, unless it needs the environment of the node.
func (n *fleetNode) try(args ...string) (string, error) {
	var out, errs bytes.Buffer
	var err error
	if len(n.env) > 0 {
		c := n.command(args...)
		c.Stdout, c.Stderr = &out, &errs
		err = c.Run()
	} else if status := cli.Run(n.fleet.t.Context(), n.arguments(args...), cli.Stdio{Out: &out, Err: &errs, Dir: filepath.Join(n.fleet.dir, n.name)}); status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	if err != nil {
		err = fmt.Errorf("toolhost %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), err
}

// do runs a toolhost command that must succeed, and returns its output.
func (n *fleetNode) do(args ...string) string {
	n.fleet.t.Helper()
	out, err := n.try(args...)
	if err != nil {
		n.fleet.t.Error(err)
	}
	return out
}

// refused runs a toolhost command that must fail and print a text.
func (n *fleetNode) refused(want string, args ...string) {
	n.fleet.t.Helper()
	if out, err := n.try(args...); err == nil || !strings.Contains(err.Error(), want) {
		n.fleet.t.Errorf("toolhost %s: %q is missing in %s%v", strings.Join(args, " "), want, out, err)
	}
}

func (n *fleetNode) said() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

func (n *fleetNode) hasEnded() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

func (n *fleetNode) signal(s syscall.Signal) { _ = n.cmd.Process.Signal(s) }

func (n *fleetNode) kill() {
	if n.cmd == nil || n.cmd.Process == nil {
		return
	}
	n.signal(syscall.SIGCONT)
	n.signal(syscall.SIGKILL)
	<-n.ended
}

// fleetResult is a result over HTTP.
type fleetResult struct {
	Success  bool           `json:"success"`
	Output   string         `json:"output"`
	Metadata map[string]any `json:"metadata"`
	Error    *struct {
		Kind    string  `json:"kind"`
		Code    int     `json:"code"`
		Message string  `json:"message"`
		Retry   float64 `json:"retry_after"`
	} `json:"error"`
}

func (r *fleetResult) String() string {
	if r.Error != nil {
		return fmt.Sprintf("%s (%d): %s", r.Error.Kind, r.Error.Code, r.Error.Message)
	}
	return r.Output
}

type fleetCall struct {
	Command   string         `json:"command,omitempty"`
	Name      string         `json:"name,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Workspace string         `json:"workspace,omitempty"`
	Session   string         `json:"session,omitempty"`
	CallID    string         `json:"call_id,omitempty"`
	Branch    string         `json:"branch,omitempty"`
	Preview   bool           `json:"preview,omitempty"`
	trace     string         // header with the trace context
}

// address returns the URL of the node. The URL changes when the node is restarted.
func (n *fleetNode) address() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.base
}

// call makes a call with the node as its gateway.
func (n *fleetNode) call(ctx context.Context, c fleetCall) (*fleetResult, error) {
	c.Workspace = cmp.Or(c.Workspace, "repo")
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	base, web := "http://unix", http.DefaultClient
	if path, socket := strings.CutPrefix(n.web, "unix:"); socket {
		web = n.socket(path)
	} else {
		base = n.address()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/run", bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+hosttest.ServerToken)
	req.Header.Set("Traceparent", c.trace)
	res, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	out := new(fleetResult)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return out, nil
}

// socket returns a client for the socket of the node. The node identifies clients on the socket by their user.
func (n *fleetNode) socket(path string) *http.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client == nil {
		n.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	}
	return n.client
}

// want runs a command that must succeed, and returns its output.
func (n *fleetNode) want(session, command string) *fleetResult {
	n.fleet.t.Helper()
	res, err := n.call(n.fleet.t.Context(), fleetCall{Command: command, Session: session})
	hosttest.Must(n.fleet.t, err)
	if !res.Success {
		n.fleet.t.Fatalf("node %s, %q: %s", n.name, command, res)
	}
	return res
}

// owner returns the node that has a session, and another node that runs. It waits until all running nodes name the same
// node, because a node learns a moment later what another one has recorded.
func (f *testFleet) owner(session string) (owner, other *fleetNode) {
	f.t.Helper()
	hosttest.Wait(f.t, "all nodes know the node of the session "+session, func() bool {
		owner, other = nil, nil
		for _, n := range f.nodes {
			if n.hasEnded() {
				continue
			}
			has := f.nodes[n.sessions()[session]]
			if has == nil || owner != nil && has != owner {
				return false
			}
			owner = has
		}
		return owner != nil
	})
	for _, n := range f.nodes {
		if n != owner && !n.hasEnded() {
			other = n
		}
	}
	return owner, other
}

// sessions returns the names of the nodes that have sessions, as this node knows it.
func (n *fleetNode) sessions() map[string]string {
	n.fleet.t.Helper()
	var all []struct{ Session, Node string }
	hosttest.Must(n.fleet.t, json.Unmarshal([]byte(n.do("fleet", "sessions", "--json")), &all))
	out := make(map[string]string)
	for _, s := range all {
		out[s.Session] = s.Node
	}
	return out
}

// TestFleet checks that a session is the same on two nodes. It also checks the commands for operators.
func TestFleet(t *testing.T) {
	t.Parallel()
	f, collector := newFleet(t, ""), hosttest.NewSpanCollector(t)
	f.env = append(f.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	f.start("one")
	f.start("two")
	hosttest.Must(t, os.WriteFile(filepath.Join(f.workspace, "notes.txt"), []byte("one\ntwo\n"), 0o644))
	one, two := f.nodes["one"], f.nodes["two"]
	for _, n := range []*fleetNode{one, two} {
		if out := n.want("s", "read notes.txt").Output; out != "one\ntwo\n" {
			t.Errorf("%s: %q", n.name, out)
		}
	}
	one.want("s", "mkdir -p sub && cd sub && export COLOR=green")
	if out := two.want("s", "pwd; echo $COLOR").Output; out != f.workspace+"/sub\ngreen\n" {
		t.Errorf("%q", out)
	}
	// An edit is permitted only if the session has read the file, on whichever node.
	if res, err := two.call(t.Context(), fleetCall{Name: "edit", Arguments: map[string]any{"file_path": f.workspace + "/notes.txt", "old_string": "two", "new_string": "2"}, Session: "s"}); err != nil || !res.Success {
		t.Errorf("%v %v", res, err)
	}
	f.traces(collector)
	f.repeatedCalls(one, two)
	f.badRequests(one)
	f.streams(one, two)

	var st struct {
		Nodes []struct {
			Node, State string
			Workspaces  []string
		}
		Sessions     int
		Coordinators int
		Current      int `json:"coordinators_current"`
		Problems     []string
	}
	hosttest.Must(t, json.Unmarshal([]byte(two.do("fleet", "status", "--json")), &st))
	if len(st.Nodes) != 2 || st.Nodes[0].State != "ready" || st.Nodes[1].State != "ready" || st.Sessions == 0 || st.Coordinators != 1 || st.Current != 1 || len(st.Problems) > 0 || st.Nodes[0].Workspaces[0] != "repo(shared)" {
		t.Errorf("%+v", st)
	}
	if out := two.do("fleet", "log", "--tool", "edit"); !strings.Contains(out, "edit") || !strings.Contains(out, "success") {
		t.Errorf("the log lacks a call: %s", out)
	}
	f.drain()
}

// traces checks that the span of a forwarded call is a child of the span of the hop, and that the span of the hop is a
// child of the client's span.
func (f *testFleet) traces(collector *hosttest.SpanCollector) {
	t := f.t
	t.Helper()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	f.nodes["one"].want("traced", "true")
	owner, gateway := f.owner("traced")
	res, err := gateway.call(t.Context(), fleetCall{Command: "echo hello", Session: "traced", trace: "00-" + trace + "-" + parent + "-01"})
	if err != nil || !res.Success {
		t.Errorf("%v %v", res, err)
	}
	find := func(name string) (found *hosttest.CollectedSpan) {
		hosttest.Wait(t, "the span "+name+" arrives", func() bool {
			for _, s := range collector.Named(name) {
				if s.TraceID == trace {
					found = &s
				}
			}
			return found != nil
		})
		return found
	}
	hop, call := find("forward "+owner.name), find("call bash")
	if hop.ParentSpanID != parent || call.ParentSpanID != hop.SpanID || hop.Kind != 3 || hop.Attribute("toolhost.node") != gateway.name {
		t.Errorf("%+v\n%+v", hop, call)
	}
}

// repeatedCalls checks that a call with an id runs only once, even if several nodes receive it.
func (f *testFleet) repeatedCalls(one, two *fleetNode) {
	t := f.t
	t.Helper()
	call := fleetCall{Command: "echo line >> once.txt", Session: "once", CallID: "c1"}
	var all sync.WaitGroup
	for i := range 8 {
		n := []*fleetNode{one, two}[i%2]
		all.Go(func() {
			if res, err := n.call(t.Context(), call); err != nil || !res.Success {
				t.Errorf("%s: %v %v", n.name, res, err)
			}
		})
	}
	all.Wait()
	if b, err := os.ReadFile(filepath.Join(f.workspace, "once.txt")); err != nil || string(b) != "line\n" {
		t.Errorf("the call ran several times, or never: %q %v", b, err)
	}
	call.Command = "echo other >> once.txt"
	if res, err := one.call(t.Context(), call); err != nil || res.Error == nil || res.Error.Kind != "invalid_arguments" {
		t.Errorf("another call with the same id: %v %v", res, err)
	}
}

func (f *testFleet) badRequests(n *fleetNode) {
	t := f.t
	t.Helper()
	res, err := n.call(t.Context(), fleetCall{Command: "pwd", Workspace: "rep"})
	hosttest.Must(t, err)
	if res.Error == nil || res.Error.Kind != "invalid_arguments" || !strings.Contains(res.Error.Message, "repo") {
		t.Errorf("an unknown workspace: %s", res)
	}
	for _, c := range []fleetCall{{Command: "pwd", Branch: "b"}, {Command: "pwd", Preview: true}, {Command: "pwd", CallID: strings.Repeat("x", 300)}} {
		if res, err := n.call(t.Context(), c); err != nil || res.Error == nil || res.Error.Kind != "invalid_arguments" {
			t.Errorf("%+v: %v %v", c, res, err)
		}
	}
	for _, args := range [][]string{{"fleet", "move", "nothing"}, {"fleet", "takeover", "two"}, {"fleet", "forget", "two"}, {"fleet", "drain", "three"}} {
		n.refused("", args...)
	}
}

// streams checks that a forwarded call can be canceled, and that its output reaches the client.
func (f *testFleet) streams(one, two *fleetNode) {
	t := f.t
	t.Helper()
	one.want("stream", "true")
	owner, gateway := f.owner("stream")
	_ = two
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = gateway.call(ctx, fleetCall{Command: "touch running; sleep 100", Session: "stream"})
	}()
	hosttest.Wait(t, "the call runs", func() bool {
		_, err := os.Stat(filepath.Join(f.workspace, "running"))
		return err == nil
	})
	cancel()
	<-done
	hosttest.Wait(t, "the call has ended on the owner", func() bool {
		var calls struct{ Total *int }
		c := hosttest.NewClient(t, owner.address(), hosttest.ServerToken)
		_, body := c.Do("GET", "/v1/calls", "")
		return json.Unmarshal([]byte(body), &calls) == nil && calls.Total != nil && *calls.Total == 0
	})
	out := gateway.want("stream", "seq 1 20000").Output
	if !strings.HasPrefix(out, "1\n2\n") {
		t.Errorf("%.100q", out)
	}
}

// drain checks that a drained node hands over its sessions with their state and takes no new sessions. After the drain,
// the node can get a session back.
func (f *testFleet) drain() {
	t := f.t
	t.Helper()
	owner, other := f.owner("s")
	if out := other.do("fleet", "drain", owner.name, "--wait", "20s"); !strings.Contains(out, "moved") {
		t.Errorf("%q", out)
	}
	if now, _ := f.owner("s"); now != other {
		t.Errorf("the session is on %s", now.name)
	}
	if out := owner.want("s", "pwd; echo $COLOR").Output; !strings.HasPrefix(out, f.workspace+"/sub\ngreen\n") {
		t.Errorf("after the drain: %q", out)
	}
	if res := owner.want("fresh", "pwd"); !res.Success {
		t.Error(res)
	}
	if now, _ := f.owner("fresh"); now != other {
		t.Error("a drained node took a session")
	}
	owner.do("fleet", "undrain", owner.name)
	hosttest.Wait(t, "the session can move back", func() bool {
		_, err := other.try("fleet", "move", "s", "--to", owner.name)
		return err == nil
	})
	if now, _ := f.owner("s"); now != owner {
		t.Errorf("the session is on %s", now.name)
	}
	if out := other.want("s", "echo $COLOR").Output; !strings.HasPrefix(out, "green\n") {
		t.Errorf("after the move: %q", out)
	}
}

// TestFleetTakeover checks that another node continues the sessions of a killed node, and reports calls whose outcome
// is unknown.
func TestFleetTakeover(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	f.nodes["one"].want("s", "mkdir -p sub && cd sub && COLOR=green")
	owner, other := f.owner("s")
	lost := make(chan *fleetResult, 1)
	go func() {
		res, err := other.call(t.Context(), fleetCall{Command: "for i in $(seq 100); do echo $i >> ../ticks; sleep .1; done", Session: "s", CallID: "long"})
		if err != nil {
			t.Error(err)
		}
		lost <- res
	}()
	ticks := filepath.Join(f.workspace, "ticks")
	hosttest.Wait(t, "the call runs", func() bool {
		_, err := os.Stat(ticks)
		return err == nil
	})
	owner.signal(syscall.SIGKILL)
	res := <-lost
	if res.Error == nil || res.Error.Code != 520 || !strings.Contains(res.Error.Message, "may have happened") {
		t.Errorf("the lost call: %s", res)
	}
	res = other.want("s", "pwd; echo $COLOR")
	if !strings.HasPrefix(res.Output, f.workspace+"/sub\ngreen\n") || !strings.Contains(res.Output, "moved from "+owner.name) {
		t.Errorf("after the takeover: %q", res.Output)
	}
	before, err := os.ReadFile(ticks)
	hosttest.Must(t, err)
	again, err := other.call(t.Context(), fleetCall{Command: "for i in $(seq 100); do echo $i >> ../ticks; sleep .1; done", Session: "s", CallID: "long"})
	hosttest.Must(t, err)
	if again.Error == nil || again.Error.Code != 520 {
		t.Errorf("the lost call, repeated: %s", again)
	}
	after, err := os.ReadFile(ticks)
	hosttest.Must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the lost call ran again, or still runs")
	}
	if res := other.want("s", "echo no note"); res.Output != "no note\n" {
		t.Errorf("the note came twice: %q", res.Output)
	}
	// The killed node starts again with the same identity, and serves.
	owner.run()
	if out := owner.want("s", "pwd").Output; out != f.workspace+"/sub\n" {
		t.Errorf("through the restarted node: %q", out)
	}
}

// TestFleetLeaseEnd stops the host of a node while a tool runs. When another node takes the session, the tool must
// already be dead, although its host is stopped. In the control, the guard that kills the tool is switched off, and the
// test must notice this.
func TestFleetLeaseEnd(t *testing.T) {
	t.Parallel()
	t.Run("guarded", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, "", "one", "two")
		after, res := f.stopOwner()
		if after > 0 {
			t.Errorf("the tool of the old owner still wrote %s after the new owner had begun", after)
		}
		if res == nil || res.Error == nil || res.Error.Code != 520 {
			t.Errorf("the call of the old owner: %v", res)
		}
	})
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, "")
		f.program, f.env = controlProgram(), []string{"TOOLHOST_FLEET_WITHOUT=kill"}
		f.start("one")
		f.start("two")
		if after, _ := f.stopOwner(); after <= 0 {
			t.Error("the tool is not killed at the end of the lease, but the test does not notice that")
		}
	})
}

// stopOwner stops the process of a session's owner while a tool repeatedly writes the time to a file. It returns the
// result of the call, and how long the tool still wrote after another node had taken the session.
func (f *testFleet) stopOwner() (after time.Duration, res *fleetResult) {
	t := f.t
	t.Helper()
	f.nodes["one"].want("s", "true")
	owner, other := f.owner("s")
	long := make(chan *fleetResult, 1)
	go func() {
		res, err := owner.call(t.Context(), fleetCall{Command: "for i in $(seq 600); do date +%s%N >> old; sleep .02; done", Session: "s"})
		if err != nil {
			t.Log(err)
		}
		long <- res
	}()
	old := filepath.Join(f.workspace, "old")
	hosttest.Wait(t, "the tool runs", func() bool {
		st, err := os.Stat(old)
		return err == nil && st.Size() > 60
	})
	owner.signal(syscall.SIGSTOP)
	taken, err := strconv.ParseInt(strings.Fields(other.want("s", "date +%s%N").Output)[0], 10, 64)
	hosttest.Must(t, err)
	time.Sleep(300 * time.Millisecond) // long enough for a living tool to write several times
	owner.signal(syscall.SIGCONT)
	res = <-long
	b, err := os.ReadFile(old)
	hosttest.Must(t, err)
	lines := strings.Fields(string(b))
	last, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	hosttest.Must(t, err)
	if out := owner.want("s", "echo back").Output; !strings.HasPrefix(out, "back\n") {
		t.Errorf("the old owner does not serve again: %q", out)
	}
	return time.Duration(last - taken), res
}

// controlProgram returns the path of a host with failpoints, in which guards can be switched off.
func controlProgram() string { return filepath.Join(hosttest.Bin, "toolhost-control") }

// TestFleetTrust checks who can join a fleet and call its nodes, and that principals are kept apart.
func TestFleetTrust(t *testing.T) {
	t.Parallel()
	f, withLocal := newFleetWithLocal(t, `
principal "alice" {
  role       = "caller"
  workspaces = ["REPO"]
}
quota "principal:alice" {
  calls_per_minute = 16
}
permissions {
  ask "dates" {
    command = ["date *"]
  }
}
`)
	one := f.start("one")
	two := f.startNode(&fleetNode{fleet: f, name: "two", state: filepath.Join(f.dir, "two", "state"), listen: fleetPort(t), config: withLocal})
	f.strangers(one)
	f.asks(one, two)

	// Only the second node has the files of the workspace "local", but both nodes serve this workspace.
	hosttest.Must(t, os.WriteFile(filepath.Join(filepath.Join(f.dir, "local"), "here.txt"), []byte("on two\n"), 0o644))
	for _, n := range []*fleetNode{one, two} {
		if res, err := n.call(t.Context(), fleetCall{Command: "read here.txt", Workspace: "local", Session: "l"}); err != nil || res.Output != "on two\n" || res.Metadata["node"] != "two" {
			t.Errorf("%s: %v %v %v", n.name, res, res.Metadata, err)
		}
	}
	if res, err := one.call(t.Context(), fleetCall{Command: "echo more >> here.txt", Workspace: "local", Session: "l", CallID: "c"}); err != nil || !res.Success {
		t.Errorf("a change in a workspace that does not move: %v %v", res, err)
	}
	one.refused("--abandon-local", "fleet", "drain", "two", "--wait", "1s") // it has sessions that cannot move
	two.do("fleet", "undrain")
	f.principals(one, two)

	other := filepath.Join(f.dir, "etc", "other.hcl")
	text, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(other, []byte(string(text)+"\nquota \"principal:*\" {\n  parallel = 3\n}\n"), 0o644))
	f.startNode(&fleetNode{fleet: f, name: "three", state: filepath.Join(f.dir, "three", "state"), listen: fleetPort(t), config: other})
	hosttest.Wait(t, "the node with another configuration is marked", func() bool {
		return strings.Contains(one.do("fleet", "status"), "mismatched")
	})
}

// strangers checks that three clients are refused: one with a used token, one with a taken name, and one without a
// certificate.
func (f *testFleet) strangers(one *fleetNode) {
	t := f.t
	t.Helper()
	token := filepath.Join(f.dir, "used")
	hosttest.Must(t, os.WriteFile(token, []byte(one.newToken()), 0o600))
	joins := func(name string) string {
		n := &fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name+"-new", "state"), listen: fleetPort(t)}
		hosttest.Must(t, os.MkdirAll(filepath.Join(f.dir, name, "work"), 0o755))
		if err := n.tryRun("--fleet-token-file", token, "join", one.listen); err == nil {
			n.kill()
			return ""
		}
		return n.said()
	}
	if said := joins("one"); !strings.Contains(said, "has a node named one") {
		t.Errorf("a second node with the same name: %q", said)
	}
	if said := joins("spare"); said != "" {
		t.Errorf("a new token is refused: %s", said)
	}
	if said := joins("another"); !strings.Contains(said, "toolhost fleet token") {
		t.Errorf("a token was used twice: %q", said)
	}
	conn, err := grpc.NewClient(one.listen, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	hosttest.Must(t, err)
	defer conn.Close()
	c := fleetpb.NewNodeServiceClient(conn)
	if _, err := c.Query(t.Context(), &fleetpb.QueryRequest{Operation: "log", Arguments: []byte("{}")}); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("a stranger reads the log: %v", err)
	}
	stream, err := c.Forward(t.Context())
	hosttest.Must(t, err)
	_ = stream.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Start{Start: &fleetpb.Start{CallId: "x"}}})
	if _, err := stream.Recv(); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("a stranger calls a tool: %v", err)
	}
}

// asks checks that the permission request of a forwarded call reaches the approver at the gateway.
func (f *testFleet) asks(one, two *fleetNode) {
	t := f.t
	t.Helper()
	one.want("ask", "true")
	_, gateway := f.owner("ask")
	for _, outcome := range []string{"accepted", "declined"} {
		done := make(chan *fleetResult, 1)
		go func() {
			res, err := gateway.call(t.Context(), fleetCall{Command: "date +%Y", Session: "ask"})
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		approver := hosttest.NewClient(t, gateway.address(), hosttest.ApproverToken)
		var asks []struct{ ID string }
		hosttest.Wait(t, "the ask is at the gateway", func() bool {
			_, body := approver.Do("GET", "/v1/asks", "")
			return json.Unmarshal([]byte(body), &asks) == nil && len(asks) == 1
		})
		approver.Do("POST", "/v1/asks/"+asks[0].ID, `{"outcome":"`+outcome+`"}`)
		if res := <-done; res.Success != (outcome == "accepted") {
			t.Errorf("%s: %s", outcome, res)
		}
	}
}

// principals checks that a principal has its own sessions, and that its quota applies.
func (f *testFleet) principals(one, two *fleetNode) {
	t := f.t
	t.Helper()
	var made struct{ Token string }
	hosttest.Must(t, json.Unmarshal([]byte(one.do("token", "create", "alice", "--json")), &made))
	one.want("mine", "cd / && SECRET=1")
	ask := func(n *fleetNode, command string) string {
		c := hosttest.NewClient(t, n.address(), made.Token)
		_, body := c.Do("POST", "/v1/run", `{"workspace":"repo","session":"mine","command":"`+command+`"}`)
		return body
	}
	if body := ask(one, "pwd; echo secret=$SECRET"); !strings.Contains(body, f.workspace) || strings.Contains(body, "secret=1") {
		t.Errorf("another principal's session: %s", body)
	}
	refused := 0
	for range 30 {
		if body := ask(one, "true"); strings.Contains(body, "over its quota") {
			refused++
		}
	}
	if refused == 0 {
		t.Error("the quota of the fleet refuses nothing")
	}
	_ = two
}
