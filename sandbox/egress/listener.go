package egress

import (
	"net"
	"sync"
	"sync/atomic"
)

// limitedListener accepts at most maxConnections open connections. It immediately closes further connections.
type limitedListener struct {
	net.Listener
	open atomic.Int64
}

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= maxConnections {
			return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = c.Close()
	}
}

type countedConn struct {
	net.Conn
	closed func()
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// CloseWrite closes the connection for writing.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
