package shim

import (
	"io"
	"net"
	"sync"

	"toolhost.dev/host/internal/shim/wire"
)

// client is the host's end of the connection to one shim. A read from the client reads the standard input of
// the shim.
type client struct {
	conn *net.UnixConn

	mu sync.Mutex // locked while a frame is written

	want     sync.Once
	stdin    *io.PipeReader
	incoming *io.PipeWriter
}

func newClient(conn *net.UnixConn) *client {
	c := &client{conn: conn}
	c.stdin, c.incoming = io.Pipe()
	return c
}

// listen receives the shim's standard input until the shim disconnects.
func (c *client) listen() {
	var buf []byte
	for {
		kind, payload, err := wire.ReadFrame(c.conn, &buf)
		switch {
		case err != nil:
			_ = c.incoming.CloseWithError(io.ErrUnexpectedEOF)
			return
		case kind != wire.Stdin:
		case len(payload) == 0:
			_ = c.incoming.Close()
		default:
			_, _ = c.incoming.Write(payload) // the error is ignored, because the tool can stop reading at any time
		}
	}
}

// Read reads from the shim's standard input. The first call requests the input from the shim.
func (c *client) Read(p []byte) (int, error) {
	c.want.Do(func() {
		if err := c.frame(wire.WantStdin, nil); err != nil {
			_ = c.incoming.CloseWithError(err)
		}
	})
	return c.stdin.Read(p)
}

func (c *client) frame(k wire.Kind, payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return wire.WriteFrame(c.conn, k, payload)
}

// exit makes the shim exit with a status.
func (c *client) exit(status int) {
	_ = c.stdin.Close()
	if status < 0 || status > 255 {
		status = StatusCannotRun
	}
	_ = c.frame(wire.Exit, []byte{byte(status)})
}

// stream returns a writer for the standard output or standard error of the shim.
func (c *client) stream(k wire.Kind) io.Writer { return &output{c, k} }

type output struct {
	client *client
	kind   wire.Kind
}

func (o *output) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(n+wire.MaxFrame, len(p))]
		if err := o.client.frame(o.kind, piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}
