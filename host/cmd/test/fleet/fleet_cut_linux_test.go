package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/identity"
)

// cutter is between a gateway and an owner, and has the keys of both. So it reads the messages of forwarded calls, and
// can cut the connections at a message.
type cutter struct {
	fleetpb.UnimplementedNodeServiceServer
	near, far *wire
	owner     fleetpb.NodeServiceClient

	mu sync.Mutex
	at string // kind of the message that is lost with its connection; empty after that
}

// kindOf returns the kind of a message of a forwarded call.
func kindOf(frame any) string {
	name := fmt.Sprintf("%T", frame)
	return strings.ToLower(name[strings.LastIndex(name, "_")+1:])
}

// passes reports whether a message may go on. Otherwise, both connections are cut.
func (c *cutter) passes(frame any) bool {
	c.mu.Lock()
	lost := c.at == kindOf(frame)
	if lost {
		c.at = ""
	}
	c.mu.Unlock()
	if lost {
		for _, w := range []*wire{c.near, c.far} {
			w.cut()
			w.heal()
		}
	}
	return !lost
}

var errCut = errors.New("the connection was cut")

// Forward implements fleetpb.NodeServiceServer.
func (c *cutter) Forward(near fleetpb.NodeService_ForwardServer) error {
	ctx, end := context.WithCancel(near.Context())
	defer end()
	far, err := c.owner.Forward(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	go func() {
		for {
			m, err := near.Recv()
			if errors.Is(err, io.EOF) {
				_ = far.CloseSend()
				return
			}
			if err != nil || !c.passes(m.GetFrame()) || far.Send(m) != nil {
				end()
				return
			}
		}
	}()
	for {
		m, err := far.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !c.passes(m.GetFrame()):
			return errCut
		}
		if err := near.Send(m); err != nil {
			return err
		}
	}
}

// cut makes the next message of a kind the last one of its connection.
func (c *cutter) cut(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = kind
}

// wasCut reports whether the message has been lost.
func (c *cutter) wasCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at == ""
}

// newCutFleet returns a fleet of the node "owner" and a gateway that reaches it through a cutter. The owner has the
// shared workspace "repo" and the workspace "desk". The gateway is outward if settings has this setting.
func newCutFleet(t *testing.T, settings string) (f *testFleet, gateway *fleetNode, c *cutter) {
	t.Helper()
	f = newFleet(t, "")
	b, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	desk := filepath.Join(f.dir, "desk")
	hosttest.Must(t, os.Mkdir(desk, 0o755))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	hosttest.Must(t, err)
	c = &cutter{near: newWire(t, l.Addr().String())}
	listen := fleetPort(t)
	node := func(name, listen, block string) *fleetNode {
		n := &fleetNode{fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: listen, config: filepath.Join(f.dir, "etc", name+".hcl")}
		first := "fleet {\n  coordinators = [\"" + coordinatorOf(f, n) + "\"]\n"
		hosttest.Must(t, os.WriteFile(n.config, []byte(strings.Replace(string(b), "fleet {\n", first+block, 1)), 0o644))
		return f.startNode(n)
	}
	c.far = newWire(t, listen)
	owner := node("owner", listen, fmt.Sprintf("  advertise = %q\n  workspace \"desk\" {\n    path = %q\n  }\n", c.near.address(), desk))
	gateway = node("gateway", fleetPort(t), settings)

	as := func(n *fleetNode) *identity.Identity {
		id, err := identity.Open(filepath.Join(n.state, "fleet"))
		hosttest.Must(t, err)
		return id
	}
	conn, err := grpc.NewClient(c.far.address(), grpc.WithTransportCredentials(credentials.NewTLS(as(gateway).Client(identity.ServerName("owner")))),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}, MinConnectTimeout: time.Second}))
	hosttest.Must(t, err)
	c.owner = fleetpb.NewNodeServiceClient(conn)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(as(owner).Server(true))))
	fleetpb.RegisterNodeServiceServer(server, c)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		_ = conn.Close()
	})
	return f, gateway, c
}

// frames are the kinds of messages of a forwarded call whose result arrives.
var frames = []string{"start", "queued", "begun", "proceed", "result", "received"}

// cutCalls makes a call for each kind of message, and loses this message with its connection. The call of a session
// with a journal sends no proceed, and one of a gateway that does not come back no received.
func cutCalls(t *testing.T, settings string, check func(t *testing.T, kind string, res *fleetResult, ran func() string, again func() *fleetResult)) {
	t.Helper()
	hosttest.NeedsNamespaces(t)
	f, gateway, c := newCutFleet(t, settings)
	for _, workspace := range []string{"desk", "repo"} {
		for _, kind := range frames {
			if workspace == "repo" && kind == "proceed" || settings == "" && kind == "received" {
				continue
			}
			t.Run(workspace+" "+kind, func(t *testing.T) {
				call := fleetCall{Command: fmt.Sprintf("echo ran >> ran-%s; echo the answer", kind), Workspace: workspace + "@owner", Session: "cut", CallID: kind}
				c.cut(kind)
				again := func() *fleetResult { return resultOf(t, gateway.begin(call)) }
				res := again()
				hosttest.Wait(t, "the message is lost", c.wasCut)
				check(t, kind, res, func() string {
					b, _ := os.ReadFile(filepath.Join(f.dir, workspace, "ran-"+kind))
					return string(b)
				}, again)
			})
		}
	}
}

// TestFleetCuts loses each message of a forwarded call with its connection. The gateway comes back, so each call runs
// once, and its result arrives.
func TestFleetCuts(t *testing.T) {
	t.Parallel()
	cutCalls(t, "  outward = true\n", func(t *testing.T, _ string, res *fleetResult, ran func() string, again func() *fleetResult) {
		if !res.Success || !strings.Contains(res.Output, "the answer") || ran() != "ran\n" {
			t.Errorf("%s; the call wrote %q", res, ran())
		}
		if res := again(); !res.Success || !strings.Contains(res.Output, "the answer") || res.Metadata["repeated"] != true || ran() != "ran\n" {
			t.Errorf("the repetition: %s %v; the call wrote %q", res, res.Metadata, ran())
		}
	})
}

// TestFleetCutsWithoutReturn is like [TestFleetCuts] for a gateway that does not come back. The outcome of a call that
// began is not known to the gateway. A repetition of the call never runs it a second time.
func TestFleetCutsWithoutReturn(t *testing.T) {
	t.Parallel()
	cutCalls(t, "", func(t *testing.T, kind string, res *fleetResult, ran func() string, again func() *fleetResult) {
		if !res.Success && (res.Error.Code != 520 || kind == "start") {
			t.Errorf("the call: %s", res)
		}
		res = again()
		if n := strings.Count(ran(), "ran\n"); n > 1 || res.Success && n == 0 {
			t.Errorf("the repetition: %s; the call wrote %q", res, ran())
		}
	})
}
