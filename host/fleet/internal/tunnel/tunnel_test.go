package tunnel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/internal/tunnel"
)

// relay is a node that others connect to.
type relay struct {
	fleetpb.UnimplementedNodeServiceServer
	offers *tunnel.Offers
}

func (r *relay) Tunnel(s fleetpb.NodeService_TunnelServer) error {
	m, err := s.Recv()
	if err != nil {
		return err
	}
	if to := m.GetTo(); to != "" {
		return r.offers.Relay(to, s)
	}
	return r.offers.Accept("laptop", s)
}

// start starts a node that others connect to, and a laptop that offers it connections. The laptop echoes what it gets.
func start(t *testing.T) (*relay, *grpc.ClientConn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{offers: tunnel.NewOffers()}
	server := grpc.NewServer()
	fleetpb.RegisterNodeServiceServer(server, r)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	laptop := tunnel.Listen()
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = server.Serve(l) })
	all.Go(func() { laptop.Offer(ctx, conn) })
	all.Go(func() {
		for {
			c, err := laptop.Accept()
			if err != nil {
				return
			}
			all.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { // all goroutines must end
		r.offers.Close()
		end()
		_ = laptop.Close()
		_ = conn.Close()
		server.Stop()
		all.Wait()
	})
	return r, conn
}

func echo(c net.Conn, text string) error {
	go func() { _, _ = io.WriteString(c, text) }()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		return fmt.Errorf("sent %d bytes, got %d: %w", len(text), len(got), errors.Join(err))
	}
	return nil
}

// TestConnections checks that many connections at once carry their own bytes, directly and through a relay.
func TestConnections(t *testing.T) {
	r, conn := start(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			dial := func() (net.Conn, error) { return r.offers.Take(t.Context(), "laptop") }
			if i%2 == 1 {
				dial = func() (net.Conn, error) { return tunnel.Dial(t.Context(), conn, "laptop") }
			}
			c, err := dial()
			if err == nil {
				err = errors.Join(echo(c, fmt.Sprintf("%d:%0100000d", i, i)), c.Close())
			}
			if err != nil {
				t.Error(i, err)
			}
		})
	}
	all.Wait()
}

// TestUnknownNode checks that a connection to a node without an offer fails.
func TestUnknownNode(t *testing.T) {
	r, conn := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := r.offers.Take(ctx, "nobody"); err == nil {
		t.Error(c)
	}
	c, err := tunnel.Dial(t.Context(), conn, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a node without an offer was reached")
	}
}
