package bus_test

import (
	"cmp"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"toolhost.dev/host/fleet/internal/bus"
)

// connect connects a node to a server.
func connect(t *testing.T, s *server.Server, node string, journal int64) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Options{Servers: []string{s.ClientURL()}, Name: node, Replicas: 1, JournalBytes: cmp.Or(journal, 8<<20), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// proxy forwards connections to a server. While it is silent, it does not forward answers of the server.
type proxy struct {
	address string
	silent  atomic.Bool
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{address: l.Addr().String()}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				return
			}
			go func() {
				_, _ = io.Copy(upstream, client)
				_ = upstream.Close()
			}()
			go p.answers(client, upstream)
		}
	}()
	return p
}

func (p *proxy) answers(client, upstream net.Conn) {
	defer client.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := upstream.Read(b)
		for p.silent.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}
