package gate_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/identity"
	"toolhost.dev/host/fleet/internal/gate"
)

// admits counts requests to join.
type admits struct {
	fleetpb.UnimplementedNodeServiceServer
	n atomic.Int32
}

func (a *admits) Join(context.Context, *fleetpb.JoinRequest) (*fleetpb.JoinResponse, error) {
	a.n.Add(1)
	return new(fleetpb.JoinResponse), nil
}

// TestStrangers checks that a client without a certificate can send a request to join, but not fill the memory.
func TestStrangers(t *testing.T) {
	a, err := identity.CreateAuthority(t.TempDir())
	ok(t, err)
	one := node(t, a, "one")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	ok(t, err)
	server, nodes := grpc.NewServer(grpc.Creds(gate.New(one, slog.New(slog.DiscardHandler)).Server()), grpc.MaxRecvMsgSize(8<<20)), new(admits)
	fleetpb.RegisterNodeServiceServer(server, nodes)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	two := gate.New(node(t, a, "two"), slog.New(slog.DiscardHandler)).Client(identity.ServerName("one"))
	stranger := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	for _, c := range []struct {
		name   string
		from   credentials.TransportCredentials
		size   int
		passes bool
	}{{"a stranger", stranger, 1 << 10, true}, {"a stranger that sends much", stranger, 1 << 20, false}, {"a node", two, 1 << 20, true}} {
		nodes.n.Store(0)
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(c.from))
		ok(t, err)
		_, err = fleetpb.NewNodeServiceClient(conn).Join(t.Context(), &fleetpb.JoinRequest{Secret: strings.Repeat("x", c.size)})
		if (err == nil) != c.passes || (nodes.n.Load() == 1) != c.passes {
			t.Errorf("%s: %v, %d requests", c.name, err, nodes.n.Load())
		}
		ok(t, conn.Close())
	}
}

func node(t *testing.T, a *identity.Authority, name string) *identity.Identity {
	t.Helper()
	dir := t.TempDir()
	public, err := identity.NewKey(dir)
	ok(t, err)
	cert, err := a.Sign(name, public)
	ok(t, err)
	ok(t, identity.Save(dir, cert, a.Certificate()))
	id, err := identity.Open(dir)
	ok(t, err)
	return id
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
