package bus

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolhost.dev/host/fleet/internal/testnats"
)

// TestPeerID compares the ID of a server with the one that the server itself uses in its group.
func TestPeerID(t *testing.T) {
	s := testnats.Server(t, nil)
	if got := PeerID(s.Name()); got != s.Node() {
		t.Errorf("the ID of %s is %s, not %s", s.Name(), got, s.Node())
	}
}

// cluster is a group of servers that keep their names, ports and stores when they start again.
type cluster struct {
	t      *testing.T
	routes []*url.URL
	stores []string
	runs   []*server.Server
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, runs: make([]*server.Server, n)}
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.routes = append(c.routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		c.stores = append(c.stores, t.TempDir())
		defer l.Close()
	}
	return c
}

func (c *cluster) start(i int) {
	c.t.Helper()
	admits := new(admission)
	defer func() { admits.server.Store(c.runs[i]) }()
	c.runs[i] = testnats.Server(c.t, func(o *server.Options) {
		o.ServerName, o.StoreDir = fmt.Sprintf("server%d", i), c.stores[i]
		o.CustomClientAuthentication = admits
		o.Cluster.Name, o.Cluster.Host, o.Cluster.PoolSize = "fleet", "127.0.0.1", -1
		if _, err := fmt.Sscanf(c.routes[i].Port(), "%d", &o.Cluster.Port); err != nil {
			c.t.Fatal(err)
		}
		o.Routes = slices.Clone(c.routes)
	})
}

// admission puts the user "system" into the account of the servers, and all others into the global one.
type admission struct{ server atomic.Pointer[server.Server] }

func (a *admission) Check(c server.ClientAuthentication) bool {
	srv := a.server.Load()
	if srv == nil {
		return false
	}
	u := &server.User{Username: c.GetOpts().Username}
	if u.Username == "system" {
		u.Account = srv.SystemAccount()
	}
	c.RegisterUser(u)
	return true
}

func (c *cluster) stop(i int) {
	c.runs[i].Shutdown()
	c.runs[i].WaitForShutdown()
}

// TestUnknownServer removes a server from the group that no running server has heard from. The leader does not know its
// name. Otherwise the server would count for the majority forever.
func TestUnknownServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	for i := range 4 {
		c.start(i)
	}
	connect := func() *Bus {
		nc, err := nats.Connect(c.runs[0].ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return &Bus{Conn: nc}
	}
	var b *Bus
	group := func(n int, also func(Peer) bool) {
		t.Helper()
		testnats.Eventually(t, fmt.Sprintf("a group of %d", n), func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // without a leader, there is no answer
			defer cancel()
			all, err := b.Group(ctx)
			return err == nil && len(all) == n && slices.ContainsFunc(all, also)
		})
	}
	b = connect()
	group(4, func(p Peer) bool { return p.Is("server3") && p.Name == "server3" })
	for i := range 4 {
		c.stop(i)
	}
	for i := range 3 {
		c.start(i)
	}
	b = connect()
	group(4, func(p Peer) bool { return p.Is("server3") && !p.Runs() && p.Label() == p.ID })
	if err := b.RemoveServer(t.Context(), PeerID("server3")); err != nil {
		t.Fatal(err)
	}
	group(3, func(p Peer) bool { return p.Is("server0") })
}
