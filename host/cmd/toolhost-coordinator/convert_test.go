package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/identity"
)

func TestMain(m *testing.M) {
	if os.Getenv("TOOLHOST_TEST_COORDINATOR") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// group is a group of coordinators that run as processes.
type group struct {
	t    *testing.T
	dir  string
	ids  map[string]string // directories with the identities, by name of the coordinator
	port map[string]int
	runs map[string]*exec.Cmd
}

func newGroup(t *testing.T, names ...string) *group {
	t.Helper()
	g := &group{t: t, dir: t.TempDir(), ids: make(map[string]string), port: make(map[string]int), runs: make(map[string]*exec.Cmd)}
	root := filepath.Join(g.dir, "authority")
	must(t, os.MkdirAll(root, 0o700))
	authority, err := identity.CreateAuthority(root)
	must(t, err)
	for _, name := range names {
		dir := filepath.Join(g.dir, name)
		must(t, os.MkdirAll(dir, 0o700))
		public, err := identity.NewKey(dir)
		must(t, err)
		cert, err := authority.Sign(name, public)
		must(t, err)
		must(t, identity.Save(dir, cert, authority.Certificate()))
		g.ids[name] = dir
		g.port[name] = free(t)
	}
	t.Cleanup(func() {
		for name := range g.runs {
			g.stop(name)
		}
	})
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// free returns a free port. The next port is also free, for the connections of other coordinators.
func free(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 12_000 + 2*rand.IntN(4_000) // outside of the range from which the kernel chooses ports
		first, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		second, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		_ = first.Close()
		if err == nil {
			_ = second.Close()
			return port
		}
	}
	t.Fatal("no two ports are free")
	return 0
}

func (g *group) store(name string) string { return filepath.Join(g.ids[name], "coordinator") }

// command returns the command that runs a coordinator, alone or as one of several.
func (g *group) command(name string, several []string, more ...string) *exec.Cmd {
	args := []string{"--identity", g.ids[name], "--store", g.store(name), "--listen", fmt.Sprintf("127.0.0.1:%d", g.port[name])}
	if len(several) > 0 {
		var routes []string
		for _, n := range several {
			routes = append(routes, fmt.Sprintf("127.0.0.1:%d", g.port[n]+1))
		}
		args = append(args, "--cluster", fmt.Sprintf("127.0.0.1:%d", g.port[name]+1), "--routes", strings.Join(routes, ","))
	}
	c := exec.Command(os.Args[0], append(args, more...)...)
	c.Env = append(os.Environ(), "TOOLHOST_TEST_COORDINATOR=1")
	return c
}

func (g *group) start(name string, several []string, more ...string) {
	g.t.Helper()
	c := g.command(name, several, more...)
	c.Stderr = os.Stderr
	must(g.t, c.Start())
	g.runs[name] = c
}

func (g *group) stop(name string) {
	c := g.runs[name]
	delete(g.runs, name)
	_ = c.Process.Kill()
	_ = c.Wait()
}

// connect connects as a node to a coordinator.
func (g *group) connect(name string) (*nats.Conn, jetstream.JetStream) {
	g.t.Helper()
	id, err := identity.Open(g.ids[name])
	must(g.t, err)
	nc, err := nats.Connect(fmt.Sprintf("tls://127.0.0.1:%d", g.port[name]), nats.Secure(id.Client(identity.CoordinatorName)), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.IgnoreAuthErrorAbort())
	must(g.t, err)
	g.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(g.t, err)
	return nc, js
}

// until repeats a request until it succeeds.
func until(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	var err error
	for range 600 {
		c, cancel := context.WithTimeout(t.Context(), time.Second)
		err = f(c)
		cancel()
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s: %v", what, err)
}

var buckets = []string{"nodes", "sessions", "quotas", "tokens", "objects", "config"}

// fill creates a journal and buckets with records, and returns the last sequence number of the journal.
func fill(t *testing.T, js jetstream.JetStream) (last uint64) {
	t.Helper()
	until(t, "journal", func(ctx context.Context) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "JOURNAL", Subjects: []string{"j.*"}, Storage: jetstream.FileStorage, MaxMsgsPerSubject: 512, MaxBytes: 1 << 30, Discard: jetstream.DiscardNew, DenyDelete: true})
		return err
	})
	for _, name := range buckets {
		until(t, "bucket", func(ctx context.Context) error {
			kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, Storage: jetstream.FileStorage})
			if err == nil {
				_, err = kv.Put(ctx, "a", []byte("value"))
			}
			return err
		})
	}
	for i := range 100 {
		ack, err := js.Publish(t.Context(), "j.s", fmt.Append(nil, i))
		must(t, err)
		last = ack.Sequence
	}
	return last
}

// check checks that the records exist, and that a compare-and-swap with the old sequence number succeeds.
func check(t *testing.T, js jetstream.JetStream, last uint64) uint64 {
	t.Helper()
	until(t, "the last record", func(ctx context.Context) error {
		st, err := js.Stream(ctx, "JOURNAL")
		if err != nil {
			return err
		}
		m, err := st.GetLastMsgForSubject(ctx, "j.s")
		if err == nil && m.Sequence != last {
			t.Fatalf("the last record is %d, not %d", m.Sequence, last)
		}
		return err
	})
	until(t, "an append", func(ctx context.Context) error {
		ack, err := js.Publish(ctx, "j.s", []byte("more"), jetstream.WithExpectLastSequencePerSubject(last))
		if err == nil {
			last = ack.Sequence
		}
		return err
	})
	for _, name := range buckets {
		until(t, "a value of "+name, func(ctx context.Context) error {
			kv, err := js.KeyValue(ctx, name)
			if err != nil {
				return err
			}
			e, err := kv.Get(ctx, "a")
			if err == nil && string(e.Value()) != "value" {
				return errors.New("the value is lost")
			}
			return err
		})
	}
	return last
}

// created returns the time at which the group got a stream.
func created(t *testing.T, js jetstream.JetStream, stream string) (at time.Time) {
	t.Helper()
	until(t, "the time of "+stream, func(ctx context.Context) error {
		st, err := js.Stream(ctx, stream)
		if err == nil {
			at = st.CachedInfo().Created
		}
		return err
	})
	return at
}

// TestConvert checks that the store of a single coordinator can be converted to the store of one of three coordinators,
// and back. The sequence numbers must not change. Without the flag --convert, a coordinator must refuse a store of the
// other kind. If a coordinator is killed during the conversion, no record may be lost.
func TestConvert(t *testing.T) {
	t.Parallel()
	g := newGroup(t, "a", "b", "c")
	all := []string{"a", "b", "c"}
	g.start("a", nil)
	_, js := g.connect("a")
	last := fill(t, js)
	g.stop("a")

	refused := func(several []string, want string) {
		t.Helper()
		var said bytes.Buffer
		c := g.command("a", several)
		c.Stderr = &said
		if err := c.Run(); err == nil || !strings.Contains(said.String(), want) {
			t.Errorf("a store of the other kind: %v, %q", err, &said)
		}
	}
	refused(all, "coordinators add")
	g.start("a", all, "--convert") // this coordinator is killed before the other coordinators run
	until(t, "the links", func(context.Context) error { _, err := os.Stat(filepath.Join(g.store("a"), "single")); return err })
	g.stop("a")
	must(t, os.RemoveAll(filepath.Join(g.store("a"), "jetstream", "$G", "streams", "JOURNAL"))) // do the same as the server, which removes an unknown stream
	g.start("b", all, "--await")
	g.start("c", all, "--await")
	nc, _ := g.connect("b")
	until(t, "a node is refused", func(context.Context) error {
		if err := nc.LastError(); !errors.Is(err, nats.ErrAuthorization) {
			return fmt.Errorf("the last error is %w", err)
		}
		return nil
	})
	g.start("a", all, "--convert")
	_, js = g.connect("b")
	last = check(t, js, last)
	until(t, "the links are removed", func(context.Context) error { // only after the other coordinators admit nodes
		if exists(filepath.Join(g.store("a"), "single")) {
			return errors.New("they exist")
		}
		return nil
	})
	streams := []string{"JOURNAL"}
	for _, name := range buckets {
		streams = append(streams, "KV_"+name)
	}
	for _, name := range streams {
		// The other coordinators admit nodes when they see the journal, and a node creates missing buckets.
		if name != "JOURNAL" && created(t, js, name).After(created(t, js, "JOURNAL")) {
			t.Errorf("the stream %s was adopted after the journal", name)
		}
		resize(t, js, name, 3)
	}
	g.stop("a")
	last = check(t, js, last)
	refused(nil, "coordinators remove")
	var said bytes.Buffer
	c := g.command("a", nil, "--convert")
	c.Stderr = &said
	if err := c.Run(); err == nil || !strings.Contains(said.String(), "copies") {
		t.Errorf("a store with one of several copies: %v, %q", err, &said)
	}
	g.start("a", all)
	for _, name := range streams {
		resize(t, js, name, 1)
	}
	check(t, js, last)
}

// TestConvertControl leaves out two parts of the conversion: the links, and the refusal of nodes by new coordinators.
// The records must then differ from those of the fleet, which shows that TestConvert depends on these parts.
func TestConvertControl(t *testing.T) {
	t.Parallel()
	g := newGroup(t, "a", "b", "c")
	all := []string{"a", "b", "c"}
	g.start("a", nil)
	_, js := g.connect("a")
	fill(t, js)
	g.stop("a")
	g.start("a", all, "--convert")
	until(t, "the group", func(context.Context) error {
		_, err := os.Stat(filepath.Join(g.store("a"), "jetstream", "$SYS", "_js_", "_meta_"))
		return err
	})
	g.stop("a")
	must(t, os.RemoveAll(filepath.Join(g.store("a"), "single")))
	for _, name := range all {
		g.start(name, all)
	}
	_, js = g.connect("b")
	until(t, "the coordinators know no journal", func(ctx context.Context) error {
		if _, err := js.Stream(ctx, "JOURNAL"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("the journal: %w", err)
		}
		return nil
	})
}

// resize changes the number of copies of a stream, and waits until all copies are current.
func resize(t *testing.T, js jetstream.JetStream, name string, copies int) {
	t.Helper()
	until(t, "copies of "+name, func(ctx context.Context) error {
		st, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		cfg := st.CachedInfo().Config
		cfg.Replicas, cfg.Placement = copies, nil
		_, err = js.UpdateStream(ctx, cfg)
		return err
	})
	until(t, "copies of "+name, func(ctx context.Context) error {
		st, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		info := st.CachedInfo()
		if info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != copies-1 {
			return fmt.Errorf("%+v", info.Cluster)
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current {
				return fmt.Errorf("%+v", r)
			}
		}
		return nil
	})
}
