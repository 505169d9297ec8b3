// Package testnats runs NATS servers for tests of the fleet. It also waits for conditions that other goroutines
// fulfill.
package testnats

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server starts a NATS server with JetStream, and stops it at the end of the test. The function "edit" can change the
// options. It can be nil.
func Server(t *testing.T, edit func(*server.Options)) *server.Server {
	t.Helper()
	opts := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true,
		NoLog: true, JetStreamMaxStore: 64 << 20, JetStreamMaxMemory: 16 << 20}
	if edit != nil {
		edit(opts)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

// Eventually waits until ok returns true. It fails the test after 90 seconds.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 9000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: not in 90 s", what)
}
