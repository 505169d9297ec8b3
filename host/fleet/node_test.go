package fleet

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/identity"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/host/fleet/internal/testnats"
	"toolhost.dev/sandbox/deadline"
)

// testRecords are the records of a fleet, on a server that ends with the test.
type testRecords struct {
	server    *server.Server
	authority *identity.Authority
}

func newTestRecords(t *testing.T) *testRecords {
	t.Helper()
	a, err := identity.CreateAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &testRecords{testnats.Server(t, nil), a}
}

// node returns a node without a host. It has a lease and the workspace "repo" with the given files. The function "end"
// stops the renewal of the lease without a message to the other nodes.
func (r *testRecords) node(t *testing.T, name, shared string) (f *Fleet, end func()) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	public, err := identity.NewKey(dir)
	ok(err)
	cert, err := r.authority.Sign(name, public)
	ok(err)
	ok(identity.Save(dir, cert, r.authority.Certificate()))
	id, err := identity.Open(dir)
	ok(err)
	b, err := bus.Connect(t.Context(), bus.Options{Servers: []string{r.server.ClientURL()}, Name: name, Replicas: 1, JournalBytes: 8 << 20, Log: log})
	ok(err)
	f = &Fleet{
		id: id, dir: dir, bus: b, log: log, owned: make(map[string]*owned), ready: make(chan struct{}),
		settings: &host.FleetSettings{Lease: 2 * time.Second, Workspaces: []host.FleetWorkspace{{Name: "repo", Path: "/repo", Shared: shared}}},
	}
	f.lease = lease.New(b.Nodes, f.testRecord(shared), lease.Settings{Lease: 2 * time.Second, Clock: deadline.Now, Renewed: func(time.Duration) {}, Lost: func() {}, Log: log})
	f.sessions = directory.New(b.Sessions, f.lease.Now, log)
	ok(f.lease.Join(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { f.lease.Run(ctx) })
	all.Go(func() { f.sessions.Run(ctx) })
	end = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(func() {
		end()
		b.Close()
	})
	ok(f.lease.Loaded(t.Context()))
	ok(f.sessions.Loaded(t.Context()))
	return f, end
}

func (f *Fleet) testRecord(shared string) lease.Record {
	return lease.Record{
		Node: f.id.Node, Address: f.id.Node, Certificate: f.id.Certificate(), Place: f.id.Node, State: lease.StateReady,
		Workspaces: map[string]lease.Workspace{"repo": {Shared: shared, Path: "/repo"}},
	}
}
