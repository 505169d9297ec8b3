package fleet

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"google.golang.org/grpc/health"
)

// TestConnectAgain checks a call to a node that has started again, while gRPC would still wait for its next attempt.
// Without connectAgain, this call fails with the error of the last attempt.
func TestConnectAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: backoff.Config{BaseDelay: time.Hour, Multiplier: 1, MaxDelay: time.Hour}}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func() error {
		_, err := healthgrpc.NewHealthClient(conn).Check(t.Context(), &healthgrpc.HealthCheckRequest{})
		return err
	}
	if err := call(); err == nil || conn.GetState() != connectivity.TransientFailure {
		t.Fatalf("a call of a node that is down: %v, %v", err, conn.GetState())
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healthgrpc.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	if err := call(); err == nil {
		t.Fatal("gRPC connected without waiting, so the test shows nothing")
	}
	connectAgain(t.Context(), conn)
	if err := call(); err != nil {
		t.Error(err)
	}

	// A node that stays down is not waited for when the call ends.
	server.Stop()
	for conn.GetState() != connectivity.TransientFailure {
		_ = call() // it fails, and gRPC notices that the node is down
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	connectAgain(ctx, conn)
}
