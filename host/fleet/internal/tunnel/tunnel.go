// Package tunnel carries connections to nodes to which others cannot connect, such as a laptop behind NAT. Such a node
// offers connections to the nodes that it reaches: [Listener.Offer] keeps one offer open at another node, and
// [Offers.Take] uses it there. A tunnel carries only the bytes of a connection. The two nodes authenticate each other
// inside of it, as on any other connection.
package tunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"toolhost.dev/host/fleet/fleetpb"
)

// stream is one end of a tunnel.
type stream interface {
	send(b []byte) error
	receive() ([]byte, error)
}

// client is the end of the node that opened the tunnel.
type client struct {
	fleetpb.NodeService_TunnelClient
}

func (c client) send(b []byte) error { return c.Send(&fleetpb.TunnelRequest{Data: b}) }

func (c client) receive() ([]byte, error) {
	m, err := c.Recv()
	return m.GetData(), err
}

// server is the end of the other node.
type server struct {
	fleetpb.NodeService_TunnelServer
}

func (s server) send(b []byte) error { return s.Send(&fleetpb.TunnelResponse{Data: b}) }

func (s server) receive() ([]byte, error) {
	m, err := s.Recv()
	return m.GetData(), err
}

// chunk is the maximum number of bytes in a message.
const chunk = 32 << 10

// carry copies bytes between a tunnel and a connection until one of them ends. Then it closes the connection. The
// caller must end the tunnel. The argument first contains bytes that were already received from the tunnel.
func carry(s stream, c net.Conn, first []byte) {
	go func() {
		defer c.Close() //nolint:errcheck // a pipe
		for b, err := first, error(nil); err == nil; b, err = s.receive() {
			if len(b) == 0 { // a pipe would pass it on
				continue
			}
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	defer c.Close() //nolint:errcheck // a pipe
	buf := make([]byte, chunk)
	for {
		n, err := c.Read(buf)
		if n > 0 && s.send(buf[:n]) != nil || err != nil {
			return
		}
	}
}

// Offers are the connections that other nodes offer to this one. It is safe for concurrent use.
type Offers struct {
	mu      sync.Mutex
	waiting map[string]*offer
	changed chan struct{} // closed when an offer arrives
	ctx     context.Context
	end     context.CancelFunc
}

// offer is a connection that is not used yet.
type offer struct {
	taken chan struct{} // closed when the offer is used or replaced
	conn  net.Conn      // set before taken is closed; nil if the offer was replaced
}

// NewOffers returns a set without offers.
func NewOffers() *Offers {
	o := &Offers{waiting: make(map[string]*offer), changed: make(chan struct{})}
	o.ctx, o.end = context.WithCancel(context.Background())
	return o
}

// Close ends all offers and the connections that came from them.
func (o *Offers) Close() { o.end() }

// Accept keeps an offer of a node until it is used, and then carries the connection. A node has one open offer: a newer
// one replaces it.
func (o *Offers) Accept(node string, s fleetpb.NodeService_TunnelServer) error {
	mine := &offer{taken: make(chan struct{})}
	o.mu.Lock()
	if old := o.waiting[node]; old != nil {
		close(old.taken)
	}
	o.waiting[node] = mine
	close(o.changed)
	o.changed = make(chan struct{})
	o.mu.Unlock()
	defer o.withdraw(node, mine)
	select {
	case <-mine.taken:
	case <-s.Context().Done():
		return s.Context().Err()
	case <-o.ctx.Done():
		return io.EOF
	}
	if mine.conn == nil {
		return fmt.Errorf("the node %s made a newer offer", node)
	}
	o.carry(server{s}, mine.conn)
	return nil
}

// carry carries a connection until it ends, or the set of offers is closed.
func (o *Offers) carry(s stream, c net.Conn) {
	defer context.AfterFunc(o.ctx, func() { _ = c.Close() })()
	carry(s, c, nil)
}

// withdraw removes an offer that was not used, or closes the connection of an offer that was used.
func (o *Offers) withdraw(node string, mine *offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting[node] == mine {
		delete(o.waiting, node)
	}
	if mine.conn != nil {
		_ = mine.conn.Close() // the error is ignored: it is a pipe
	}
}

// Take returns a connection to a node. It waits for an offer of the node until ctx ends.
func (o *Offers) Take(ctx context.Context, node string) (net.Conn, error) {
	for {
		o.mu.Lock()
		found, changed := o.waiting[node], o.changed
		if found != nil {
			delete(o.waiting, node)
			near, far := net.Pipe()
			found.conn = far
			close(found.taken)
			o.mu.Unlock()
			return near, nil
		}
		o.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("the node %s has opened no connection to this node", node)
		}
	}
}

// Relay connects the node that opened the tunnel to another node, through an offer of the other node.
func (o *Offers) Relay(to string, s fleetpb.NodeService_TunnelServer) error {
	ctx, cancel := context.WithTimeout(s.Context(), takePatience)
	defer cancel()
	c, err := o.Take(ctx, to)
	if err != nil {
		return err
	}
	o.carry(server{s}, c)
	return nil
}

// takePatience is how long Relay waits for an offer.
const takePatience = 2 * time.Second

// Dial returns a connection to a node. The connection goes through another node, at which the node has an offer.
func Dial(ctx context.Context, through *grpc.ClientConn, to string) (net.Conn, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end) // until the tunnel is open, ctx can end it
	s, err := fleetpb.NewNodeServiceClient(through).Tunnel(life)
	if err == nil {
		err = s.Send(&fleetpb.TunnelRequest{To: to})
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, err
	}
	near, far := net.Pipe()
	go func() {
		defer end()
		carry(client{s}, far, nil)
	}()
	return near, nil
}
