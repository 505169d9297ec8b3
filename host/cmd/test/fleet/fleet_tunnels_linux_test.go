package fleet

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/fleet/fleetpb"
)

// tunnel opens a tunnel to a node. It sends nothing.
func (o *thief) tunnel(n *fleetNode) (fleetpb.NodeService_TunnelClient, error) {
	return fleetpb.NewNodeServiceClient(o.node(n)).Tunnel(o.t.Context())
}

// TestFleetTunnelRevoked revokes an outward node while a call runs on it, through a tunnel. The call and the tunnels
// must end, and the node must stay out, although it offers connections again and again.
func TestFleetTunnelRevoked(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	o := newOutwardFleet(t, "", "")
	done := o.west.begin(fleetCall{Command: "touch runs; while [ ! -e stop ]; do sleep 0.02; done", Workspace: "@laptop", Session: "s"})
	hosttest.Wait(t, "the call runs", exists(filepath.Join(o.home, "runs")))
	stolen := o.laptop.steal()
	offer, err := stolen.tunnel(o.west)
	hosttest.Must(t, err)
	hosttest.Must(t, offer.Send(new(fleetpb.TunnelRequest)))
	o.east.do("fleet", "revoke", "laptop")
	if res := resultOf(t, done); res.Success || res.Error.Code != 520 {
		t.Errorf("the call that ran: %s", res)
	}
	if _, err := offer.Recv(); grpcstatus.Code(err) != codes.Unavailable && grpcstatus.Code(err) != codes.Unknown {
		t.Errorf("an open offer continues: %v", err)
	}
	hosttest.Wait(t, "the laptop notices it", func() bool { return strings.Contains(o.laptop.said(), "If its certificate was revoked") })
	for _, n := range []*fleetNode{o.east, o.west} {
		again, err := stolen.tunnel(n)
		if err == nil {
			_, err = again.Recv()
		}
		if grpcstatus.Code(err) != codes.Unavailable {
			t.Errorf("%s accepts another offer: %v", n.name, err)
		}
		res, err := n.call(t.Context(), fleetCall{Command: "touch late", Workspace: "@laptop", Session: "s-" + n.name})
		if err != nil || res.Success || !strings.Contains(res.String(), "laptop") || exists(filepath.Join(o.home, "late"))() {
			t.Errorf("a call after that through %s: %s, %v", n.name, res, err)
		}
	}
}

// TestFleetTunnelFlood opens far more tunnels and connections with the key of one node than it needs. The others must
// be refused, with a message for the operator, and the node that they are for must go on.
func TestFleetTunnelFlood(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	const streams, kept, conns, keptConns = 2000, 512, 100, 64
	o := newOutwardFleet(t, "", "")
	stolen := o.laptop.steal()
	to := fleetpb.NewNodeServiceClient(stolen.node(o.west))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var refused atomic.Int64
	for range streams {
		s, err := to.Tunnel(ctx)
		hosttest.Must(t, err)
		go func() {
			if _, err := s.Recv(); grpcstatus.Code(err) == codes.ResourceExhausted {
				refused.Add(1)
			}
		}()
	}
	hosttest.Wait(t, "tunnels are refused", func() bool { return refused.Load() >= streams-kept })
	if n := refused.Load(); n > streams-kept+8 { // the laptop itself has some
		t.Errorf("%d of %d tunnels are refused", n, streams)
	}
	accepted := 0
	for range conns {
		if stolen.ask(stolen.node(o.west)) == nil {
			accepted++
		}
	}
	if accepted >= keptConns || accepted < keptConns-8 {
		t.Errorf("%d of %d connections are accepted", accepted, conns)
	}
	for _, what := range []string{"tunnels", "connections"} {
		if n := strings.Count(o.west.said(), "opens too many "+what); n != 1 {
			t.Errorf("%d messages about %s", n, what)
		}
	}
	o.east.want("s", "true")
	o.west.want("s", "true")
	end()
	hosttest.Wait(t, "a tunnel is accepted again", func() bool {
		s, err := to.Tunnel(t.Context())
		hosttest.Must(t, err)
		hosttest.Must(t, s.Send(&fleetpb.TunnelRequest{To: "nobody"}))
		_, err = s.Recv()
		return grpcstatus.Code(err) != codes.ResourceExhausted
	})
}
