package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/identity"
)

// thief uses a stolen key of a node.
type thief struct {
	t  *testing.T
	id *identity.Identity
}

// steal copies the identity of a node. The copy does not contain later revocations.
func (n *fleetNode) steal() *thief {
	t := n.fleet.t
	t.Helper()
	dir := t.TempDir()
	hosttest.Must(t, exec.Command("cp", "-a", filepath.Join(n.state, "fleet")+"/.", dir).Run()) // with its sockets, which CopyFS refuses
	id, err := identity.Open(dir)
	hosttest.Must(t, err)
	return &thief{t, id}
}

// records connects to the coordinator at an address.
func (o *thief) records(address string) (*nats.Conn, error) {
	return nats.Connect("tls://"+address, nats.Secure(o.id.Client(identity.CoordinatorName)), nats.NoReconnect(), nats.Timeout(10*time.Second))
}

// ask sends a query that only nodes may send.
func (o *thief) ask(c *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(o.t.Context(), 10*time.Second)
	defer cancel()
	_, err := fleetpb.NewNodeServiceClient(c).Query(ctx, &fleetpb.QueryRequest{Operation: "figures", Arguments: []byte("{}")})
	return err
}

// node opens a connection to a node.
func (o *thief) node(n *fleetNode) *grpc.ClientConn {
	o.t.Helper()
	c, err := grpc.NewClient(n.listen, grpc.WithTransportCredentials(credentials.NewTLS(o.id.Client(identity.ServerName(n.name)))))
	hosttest.Must(o.t, err)
	o.t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestFleetRevoke revokes a node while a thief uses its key. Open connections with the key must end, and new ones must
// be refused. The fleet must continue without the node, and the node must be able to join again with a new key.
func TestFleetRevoke(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two", "three")
	one, two, three := f.nodes["one"], f.nodes["two"], f.nodes["three"]
	coordinator := one.coordinatorAddress()
	two.want("s", "SECRET=1")
	two.want("s2", "echo two > two")

	o := two.steal()
	records, err := o.records(coordinator)
	hosttest.Must(t, err)
	defer records.Close()
	stream, err := o.connectStream(three)
	hosttest.Must(t, err)
	toOne, toThree := o.node(one), o.node(three)
	for _, c := range []*grpc.ClientConn{toOne, toThree} {
		hosttest.Must(t, o.ask(c)) // the key is accepted before it is revoked
	}

	for _, bad := range [][]string{{"three", "revoke", "two", "only the first node"}, {"one", "revoke", "one", "begin a new fleet"}, {"one", "revoke", "tow", "did you mean \"two\""}} {
		_, err := f.nodes[bad[0]].try("fleet", bad[1], bad[2])
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(bad[3])) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	out := one.do("fleet", "revoke", "two")
	if !strings.Contains(out, "node two is revoked: 1 certificate\n") || !strings.Contains(out, "refused by: one, three\n") {
		t.Errorf("%s", out)
	}

	if out := one.do("fleet", "revoke", "two"); !strings.Contains(out, "node two was revoked before") {
		t.Errorf("%s", out)
	}

	if _, err := stream.Recv(); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("an open stream continues: %v", err)
	}
	hosttest.Wait(t, "the connection with the coordinator ends", records.IsClosed)
	if c, err := o.records(coordinator); err == nil {
		t.Error("the coordinator accepts the key")
		c.Close()
	}
	for _, c := range []*grpc.ClientConn{toOne, toThree, o.node(one), o.node(three)} {
		if err := o.ask(c); grpcstatus.Code(err) != codes.Unavailable {
			t.Errorf("a node accepts the key: %v", err)
		}
	}

	// The sessions of the node continue at other nodes, and the node gets no new sessions.
	hosttest.Wait(t, "a session of the node continues at another node", func() bool {
		res, err := three.call(t.Context(), fleetCall{Command: "cat two", Session: "s2"})
		return err == nil && res.Success && strings.Contains(res.Output, "two\n")
	})
	for i := range 8 {
		three.want("n"+strconv.Itoa(i), "true")
	}
	for _, n := range []*fleetNode{one, three} {
		if st := n.do("fleet", "status"); !strings.Contains(strings.Join(strings.Fields(st), " "), "two revoked") {
			t.Errorf("%s: %s", n.name, st)
		}
	}
	hosttest.Wait(t, "the operator of the node is notified", func() bool { return strings.Contains(two.said(), "If its certificate was revoked") })

	f.keepsRevocations(one, three, o)

	// The node joins again with a new key.
	two.kill()
	if err := two.tryRun(); err == nil || !strings.Contains(two.said(), "join with a new token") {
		t.Errorf("the node starts with its old key: %v", err)
	}
	one.do("fleet", "forget", "two")
	hosttest.Must(t, os.RemoveAll(filepath.Join(two.state, "fleet")))
	f.startNode(two)
	two.want("again", "true")
	if err := o.ask(o.node(three)); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("the old key is valid again: %v", err)
	}
	hosttest.NewClient(t, one.address(), hosttest.ServerToken).Want(200, `"(fleet revoke)"`, "GET", "/v1/log?layer=administration&text=fleet", "")
}

// connectStream opens a stream for a call to a node. The stream stays open for at most 30 seconds.
func (o *thief) connectStream(n *fleetNode) (fleetpb.NodeService_ForwardClient, error) {
	ctx, cancel := context.WithTimeout(o.t.Context(), 30*time.Second)
	o.t.Cleanup(cancel)
	return fleetpb.NewNodeServiceClient(o.node(n)).Forward(ctx)
}

// keepsRevocations overwrites the record of revoked certificates, as somebody with a stolen key could do, and restarts
// a node. The node must still refuse the revoked key, and must repair the record.
func (f *testFleet) keepsRevocations(one, three *fleetNode, o *thief) {
	t := f.t
	t.Helper()
	kv, err := one.jetStream().KeyValue(t.Context(), "config")
	hosttest.Must(t, err)
	_, err = kv.Put(t.Context(), "revocations", []byte("nonsense"))
	hosttest.Must(t, err)
	three.kill()
	three.run()
	if err := o.ask(o.node(three)); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("a restarted node accepts the key: %v", err)
	}
	e, err := kv.Get(t.Context(), "revocations")
	hosttest.Must(t, err)
	if string(e.Value()) == "nonsense" {
		t.Error("a node that knows what was revoked did not repair the record")
	}
}

// testCoordinator is a coordinator without a host.
type testCoordinator struct {
	t       *testing.T
	dir     string
	id      *identity.Identity
	client  string
	cluster string
	out     bytes.Buffer
	ended   chan struct{}
	cmd     *exec.Cmd
}

func (c *testCoordinator) run(routes string) {
	c.t.Helper()
	c.out.Reset()
	c.cmd = exec.Command(filepath.Join(hosttest.Bin, "toolhost-coordinator"), "--identity", c.dir, "--store", filepath.Join(c.dir, "store"), "--listen", c.client, "--cluster", c.cluster, "--routes", routes)
	c.cmd.Stderr = &c.out
	hosttest.Must(c.t, c.cmd.Start())
	ended := make(chan struct{})
	c.ended = ended
	go func() {
		_ = c.cmd.Wait()
		close(ended)
	}()
}

// route opens a connection to coordinator c in the same way as the coordinator "as" would. It returns an error if c
// refuses the connection.
func (c *testCoordinator) route(as *testCoordinator) error {
	conn, err := net.DialTimeout("tcp", c.cluster, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	// A coordinator sends the first byte of a connection.
	_, err = tls.Client(conn, as.id.Client(identity.CoordinatorName)).Read(make([]byte, 1))
	return err
}

// TestFleetRevokedCoordinator revokes one of three coordinators. The other two must end, which closes their connections
// to it. After a restart, they must keep records without the revoked coordinator, and must refuse its connections.
func TestFleetRevokedCoordinator(t *testing.T) {
	t.Parallel()
	authority, err := identity.CreateAuthority(t.TempDir())
	hosttest.Must(t, err)
	var all []*testCoordinator
	var routes []string
	for i := range 3 {
		c := &testCoordinator{t: t, dir: t.TempDir(), client: fleetPort(t), cluster: fleetPort(t)}
		public, err := identity.NewKey(c.dir)
		hosttest.Must(t, err)
		cert, err := authority.Sign(fmt.Sprintf("n%d", i), public)
		hosttest.Must(t, err)
		hosttest.Must(t, identity.Save(c.dir, cert, authority.Certificate()))
		c.id, err = identity.Open(c.dir)
		hosttest.Must(t, err)
		all, routes = append(all, c), append(routes, c.cluster)
	}
	for _, c := range all {
		c.run(strings.Join(routes, ","))
		t.Cleanup(func() {
			_ = c.cmd.Process.Kill()
			<-c.ended
		})
	}
	first, last := all[0], all[2]
	works := func() bool {
		nc, err := (&thief{t, first.id}).records(first.client)
		if err != nil {
			return false
		}
		defer nc.Close()
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(2*time.Second))
		hosttest.Must(t, err)
		_, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
		if err == nil {
			_, err = js.Publish(t.Context(), "s", []byte("x"))
		}
		return err == nil
	}
	hosttest.Wait(t, "three coordinators keep records", works)

	list, serials, err := authority.Revoke("n2")
	hosttest.Must(t, err)
	if len(serials) != 1 {
		t.Fatalf("%v", serials)
	}
	for _, c := range all[:2] {
		_, err := c.id.Revocations().Learn(list)
		hosttest.Must(t, err)
		select {
		case <-c.ended:
		case <-hosttest.Late(t):
			t.Fatal("a coordinator keeps its connections to a revoked coordinator")
		}
		if !strings.Contains(c.out.String(), "the coordinator of the node n2 was revoked") {
			t.Errorf("the coordinator printed: %s", c.out.String())
		}
	}
	for _, c := range all[:2] {
		c.run(strings.Join(routes, ","))
	}
	hosttest.Wait(t, "two coordinators keep records", works)
	if err := first.route(last); err == nil || !strings.Contains(err.Error(), "bad certificate") {
		t.Errorf("a revoked coordinator: %v", err)
	}
	if err := first.route(all[1]); err != nil {
		t.Errorf("another coordinator is refused: %v", err)
	}
	if nc, err := (&thief{t, last.id}).records(first.client); err == nil {
		nc.Close()
		t.Error("a revoked coordinator is accepted as a node")
	}
}
