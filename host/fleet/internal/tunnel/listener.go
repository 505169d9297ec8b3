package tunnel

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"toolhost.dev/host/fleet/fleetpb"
)

// Listener accepts the connections that other nodes open through offers of this node. It implements [net.Listener].
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen returns a listener without offers.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return address{} }

// address is the address of a listener. Other nodes cannot connect to it.
type address struct{}

func (address) Network() string { return "tunnel" }

func (address) String() string { return "outward" }

// retryAfter is the time between two attempts to offer a connection to a node that does not answer.
const retryAfter = time.Second

// Offer keeps one offer open at another node until ctx ends. When the other node uses it, Offer makes the next one.
func (l *Listener) Offer(ctx context.Context, to *grpc.ClientConn) {
	var carried sync.WaitGroup
	defer carried.Wait()
	for ctx.Err() == nil {
		life, end := context.WithCancel(ctx)
		s, first, err := offered(life, to)
		if err != nil {
			end()
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
			continue
		}
		carried.Go(func() {
			defer end()
			l.serve(s, first)
		})
	}
}

// offered makes an offer and waits until the other node uses it. It returns the first bytes that the node sent.
func offered(ctx context.Context, to *grpc.ClientConn) (client, []byte, error) {
	s, err := fleetpb.NewNodeServiceClient(to).Tunnel(ctx, grpc.WaitForReady(true))
	if err != nil {
		return client{}, nil, err
	}
	out := client{s}
	if err := s.Send(new(fleetpb.TunnelRequest)); err != nil {
		return out, nil, err
	}
	first, err := out.receive()
	return out, first, err
}

// serve passes a connection to Accept and carries it.
func (l *Listener) serve(s client, first []byte) {
	near, far := net.Pipe()
	select {
	case l.conns <- near:
	case <-l.closed:
		return
	}
	carry(s, far, first)
}
