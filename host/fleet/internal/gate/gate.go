// Package gate secures the connections between the nodes of a fleet. It ends the connections of a node whose
// certificate was revoked. [New] returns a [Gate].
package gate

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"toolhost.dev/host/fleet/identity"
)

// Gate makes the credentials for connections with other nodes. It is safe for concurrent use.
type Gate struct {
	// Tunnels limits the tunnels that a node opens.
	Tunnels *Limit
	id      *identity.Identity
	accepts *Limit

	mu   sync.Mutex
	open map[*conn]struct{}
}

const (
	// maxTunnels is for hundreds of outward nodes. Each has a tunnel to each other one with which it exchanges calls.
	maxTunnels = 512
	// maxAccepted is far more than the one connection that a node needs.
	maxAccepted = 64
)

// New returns the gate of a node.
func New(id *identity.Identity, log *slog.Logger) *Gate {
	return &Gate{id: id, open: make(map[*conn]struct{}), Tunnels: newLimit("tunnels", maxTunnels, log),
		accepts: newLimit("connections", maxAccepted, log)}
}

// Server returns the credentials for the connections that other nodes open. A client without a certificate of the fleet
// can connect, too, and send up to maxStranger bytes.
func (g *Gate) Server() credentials.TransportCredentials {
	return &watched{credentials.NewTLS(g.id.Server(true)), g}
}

// Client returns the credentials for connections to a server of this name.
func (g *Gate) Client(server string) credentials.TransportCredentials {
	return &watched{credentials.NewTLS(g.id.Client(server)), g}
}

// Cut ends the connections with nodes whose certificates are revoked, and returns their number.
func (g *Gate) Cut() (n int) {
	g.mu.Lock()
	var ended []*conn
	for c := range g.open {
		if g.id.Revocations().Check(c.peer) != nil {
			ended = append(ended, c)
		}
	}
	g.mu.Unlock()
	for _, c := range ended {
		_ = c.Close() // the error is ignored: the connection is not used any more
	}
	return len(ended)
}

// watched are credentials whose connections are added to the gate.
type watched struct {
	credentials.TransportCredentials
	gate *Gate
}

// Clone implements credentials.TransportCredentials.
func (w *watched) Clone() credentials.TransportCredentials {
	return &watched{w.TransportCredentials.Clone(), w.gate}
}

// ServerHandshake implements credentials.TransportCredentials.
func (w *watched) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(raw)
	c, info, err = w.gate.watch(w.gate.accepts, c, info, err)
	if tls, ok := info.(credentials.TLSInfo); ok && err == nil && len(tls.State.PeerCertificates) == 0 {
		c = &stranger{Conn: c}
	}
	return c, info, err
}

// ClientHandshake implements credentials.TransportCredentials.
func (w *watched) ClientHandshake(ctx context.Context, authority string,
	raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	return w.gate.watch(nil, c, info, err)
}

// watch adds a connection to the gate until the connection is closed. It refuses the connection if the limit of its
// node is reached. A nil limit means no limit.
func (g *Gate) watch(limit *Limit, c net.Conn, info credentials.AuthInfo,
	err error) (net.Conn, credentials.AuthInfo, error) {
	tls, ok := info.(credentials.TLSInfo)
	if err != nil || !ok || len(tls.State.PeerCertificates) == 0 {
		return c, info, err
	}
	out := &conn{Conn: c, gate: g, peer: tls.State.PeerCertificates[0], leave: func() {}}
	if limit != nil {
		leave, err := limit.Enter(out.peer.Subject.CommonName)
		if err != nil {
			_ = c.Close() // the error is ignored: the connection is refused
			return nil, nil, err
		}
		out.leave = sync.OnceFunc(leave)
	}
	g.mu.Lock()
	g.open[out] = struct{}{}
	g.mu.Unlock()
	if err := g.id.Revocations().Check(out.peer); err != nil { // perhaps revoked after the handshake, and missed by Cut
		_ = out.Close()
		return nil, nil, err
	}
	return out, info, nil
}

// maxStranger is the maximum number of bytes from a client without a certificate. A request to join is much shorter.
// The server would store a longer message before it refuses the client.
const maxStranger = 64 << 10

// stranger is a connection with a client without a certificate.
type stranger struct {
	net.Conn
	read int
}

// Read implements net.Conn.
func (c *stranger) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.read += n; c.read > maxStranger {
		return 0, errors.New("a client without a certificate sent too much")
	}
	return n, err
}

// conn is a connection with another node.
type conn struct {
	net.Conn
	gate  *Gate
	peer  *x509.Certificate
	leave func() // uncounts the connection
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.open, c)
	c.gate.mu.Unlock()
	c.leave()
	return c.Conn.Close()
}
