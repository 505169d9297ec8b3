package bus_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/testnats"
)

// TestFollowStays checks that a connection does not go to a server that the node no longer follows. While such a server
// runs, the others announce it to their clients.
func TestFollowStays(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // for its certificate
	t.Cleanup(web.Close)
	port, store := 0, t.TempDir()
	run := func(name string, edit func(*server.Options)) *server.Server {
		return testnats.Server(t, func(o *server.Options) {
			o.ServerName, o.StoreDir, o.TLS, o.TLSTimeout = name, store, true, 10
			o.TLSConfig = &tls.Config{Certificates: web.TLS.Certificates}
			if edit != nil {
				edit(o)
			}
		})
	}
	stop := func(s *server.Server) {
		s.Shutdown()
		s.WaitForShutdown()
	}
	clustered := func(route string) func(*server.Options) {
		return func(o *server.Options) {
			o.JetStream, o.Cluster = false, server.ClusterOpts{Name: "fleet", Host: "127.0.0.1", Port: -1}
			if route != "" {
				o.Routes = []*url.URL{{Scheme: "nats-route", Host: route}}
			} else {
				o.Port = port
			}
		}
	}
	first := run("first", nil)
	port = first.Addr().(*net.TCPAddr).Port
	address := first.Addr().String()
	b, err := bus.Connect(t.Context(), bus.Options{
		Servers: []string{"tls://" + address}, Name: "n", Replicas: 1, JournalBytes: 8 << 20, Log: slog.New(slog.DiscardHandler),
		TLS: web.Client().Transport.(*http.Transport).TLSClientConfig,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	stop(first)
	first = run("first", clustered(""))
	leaves := run("leaves", clustered(first.ClusterAddr().String()))
	testnats.Eventually(t, "the node is connected to the first server", b.Conn.IsConnected)
	client := web.Client().Transport.(*http.Transport).TLSClientConfig
	other, err := nats.Connect("tls://"+address, nats.Secure(client))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	testnats.Eventually(t, "the first server announces the other one", func() bool {
		return slices.Contains(other.DiscoveredServers(), "tls://"+leaves.Addr().String())
	})
	if err := b.Follow([]string{address}); err != nil {
		t.Fatal(err)
	}
	if err := b.Conn.ForceReconnect(); err != nil { // the announcement comes again
		t.Fatal(err)
	}
	testnats.Eventually(t, "the node has an answer", func() bool { return b.Conn.FlushTimeout(time.Second) == nil })
	stop(first)
	testnats.Eventually(t, "the connection is lost", func() bool { return b.Conn.ConnectedUrl() != "tls://"+address })
	run("first", func(o *server.Options) { o.Port = port })
	testnats.Eventually(t, "the node is connected", func() bool { return b.Conn.IsConnected() && b.Conn.FlushTimeout(time.Second) == nil })
	if got := b.Conn.ConnectedUrl(); got != "tls://"+address {
		t.Errorf("the node is connected to %s, and follows only %s", got, address)
	}
}
