package mount

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestPrivateIdle checks that a private connection ends some time after its last use, and not before that.
func TestPrivateIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := mcp.NewInMemoryTransports()
		impl := &mcp.Implementation{Name: "test", Version: "1"}
		server, err := mcp.NewServer(impl, nil).Connect(t.Context(), theirs, nil)
		if err != nil {
			t.Fatal(err)
		}
		var ended atomic.Bool
		go func() {
			_ = server.Wait()
			ended.Store(true)
		}()
		t.Cleanup(func() { _ = server.Close() })
		p := &privateConns{mount: &mount{}}
		c := &privateConn{conn: newConn(p.mount, "s"), ready: make(chan struct{})}
		if c.conn.session, err = mcp.NewClient(impl, nil).Connect(t.Context(), ours, nil); err != nil {
			t.Fatal(err)
		}
		close(c.ready)
		p.by = map[string]*privateConn{"s": c}
		use := func(long time.Duration) {
			t.Helper()
			got, done, err := p.enter(t.Context(), "s")
			if err != nil || got != c.conn {
				t.Fatalf("the session has another connection: %v", err)
			}
			time.Sleep(long)
			done()
		}
		for range 3 {
			use(2 * privateIdle)
			time.Sleep(privateIdle / 2)
			use(0)
			time.Sleep(privateIdle - time.Second)
		}
		synctest.Wait()
		if ended.Load() {
			t.Fatal("the connection ended too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !ended.Load() || len(p.by) != 0 {
			t.Errorf("the connection did not end: %d connections", len(p.by))
		}
	})
}

// TestPrivateEnded checks that a call does not get a connection that the server has just ended.
func TestPrivateEnded(t *testing.T) {
	p := &privateConns{mount: &mount{cfg: Config{Command: []string{"/nowhere/server"}}, limits: Limits{Start: time.Minute}}}
	c := &privateConn{conn: newConn(p.mount, "s"), ready: make(chan struct{})}
	c.conn.server = &server{wire: newWire(strings.NewReader(""), os.Stdout, c.conn.schemas, func() {}, nil)}
	close(c.ready)
	p.by = map[string]*privateConn{"s": c}
	<-c.conn.server.wire.failed
	got, _, err := p.enter(t.Context(), "s")
	if got == c.conn || err == nil || !strings.Contains(err.Error(), "/nowhere/server") {
		t.Errorf("the call got the old connection: %t, %v", got == c.conn, err)
	}
}
