// Command toolhost-coordinator keeps the records of a fleet of toolhost nodes. The records contain which node has which
// session, and which calls were begun. It embeds a NATS server with JetStream. "toolhost serve --fleet" starts it on
// the nodes that the configuration names as coordinators.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"toolhost.dev/sdk/flock"

	"toolhost.dev/host/fleet/identity"
)

type settings struct {
	identity, store, listen, cluster string
	routes, name, advertise          string
	await, convert                   bool
	maxStore                         int64
}

func main() {
	var s settings
	flag.StringVar(&s.identity, "identity", "", "`directory` with the key and the certificates of the node")
	flag.StringVar(&s.store, "store", "", "`directory` for the records")
	flag.StringVar(&s.listen, "listen", "127.0.0.1:4222", "`address` for nodes")
	flag.StringVar(&s.cluster, "cluster", "", "`address` for the other coordinators; empty if this is the only one")
	flag.StringVar(&s.routes, "routes", "", "`addresses` of all coordinators, separated by commas")
	flag.StringVar(&s.name, "name", "", "`name` among the coordinators; empty means that of the node")
	flag.StringVar(&s.advertise, "advertise", "", "`address` where nodes reach this coordinator; empty means that of --listen")
	flag.BoolVar(&s.await, "await", false, "refuse nodes until the other coordinators have the records of the fleet")
	flag.BoolVar(&s.convert, "convert", false, "permit to convert the store of a single coordinator to that of one of several, or back")
	flag.Int64Var(&s.maxStore, "max-store", 4<<30, "maximum size of the records in `bytes`")
	flag.Parse()
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, "toolhost-coordinator:", err)
		os.Exit(1)
	}
}

func (s *settings) run() error {
	if s.identity == "" || s.store == "" || flag.NArg() > 0 {
		return errors.New("--identity and --store are required. \"toolhost serve --fleet\" starts this program; see docs/fleet.md")
	}
	id, err := identity.Open(s.identity)
	if err != nil {
		return fmt.Errorf("the identity of the node cannot be read: %w", err)
	}
	peers, nodes := new(peers), newNodes()
	opts, err := s.options(id, peers)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.store, 0o700); err != nil {
		return err
	}
	unlock, err := lockStore(s.store)
	if err != nil {
		return err
	}
	defer unlock()
	if err := checkSpace(s.store); err != nil {
		return err
	}
	records := store(s.store)
	adopts, err := records.prepare(s.cluster != "", s.convert)
	if err != nil {
		return err
	}
	opts.CustomClientAuthentication = nodes
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("the settings of the NATS server are wrong: %w", err)
	}
	nodes.srv = srv
	nodes.admitted.Store(!adopts && !s.await)
	log := newSpaceLog(srv, opts)
	go srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		return fmt.Errorf("the NATS server is not ready after 30 s. Look for the reason in %s", opts.LogFile)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	opened := make(chan error, 1)
	if !nodes.admitted.Load() {
		go func() { opened <- nodes.open(ctx, records, adopts) }()
	}
	err = serve(ctx, srv, log, newTrust(srv, id, peers), opened)
	srv.Shutdown()
	srv.WaitForShutdown()
	return err
}

// healthEvery is the interval at which a coordinator checks that it can keep records. trustEvery is the interval at
// which it checks for revoked certificates.
const (
	healthEvery = 2 * time.Second
	trustEvery  = 500 * time.Millisecond
)

// serve waits until ctx ends. It returns an error if the server cannot keep records any more, or if a coordinator is
// revoked. The node then starts the program again. If the server admits nodes only later, the channel "opened" then
// receives nil, or the error that prevented it.
func serve(ctx context.Context, srv *server.Server, log *spaceLog, trust *trust, opened <-chan error) error {
	health, revoked := time.NewTicker(healthEvery), time.NewTicker(trustEvery)
	defer health.Stop()
	defer revoked.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-opened:
			if err != nil && ctx.Err() == nil {
				return err
			}
		case text := <-log.full:
			return fmt.Errorf("a record could not be written, because the disk is full. Free space on the disk; the node then restarts the coordinator. The message of the server is: %s", text)
		case <-revoked.C:
			if err := trust.enforce(); err != nil {
				return err
			}
		case <-health.C:
			if !srv.JetStreamEnabled() {
				return errors.New("the NATS server has stopped JetStream. Look for the reason in coordinator.log")
			}
		}
	}
}

// options returns the settings of the server. Each write is synced to disk, because the records decide which node may
// run a call.
func (s *settings) options(id *identity.Identity, peers *peers) (*server.Options, error) {
	host, port, err := split(s.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	opts := &server.Options{
		ServerName: cmp.Or(s.name, id.Node), ClientAdvertise: s.advertise, Host: host, Port: port, NoSigs: true,
		DisableJetStreamBanner: true,
		JetStream:              true, StoreDir: s.store, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: s.maxStore,
		SyncAlways: true,
		MaxPayload: 1 << 20, TLSConfig: id.Server(false), TLS: true, TLSVerify: true, TLSTimeout: 5,
		LogFile: filepath.Join(s.store, "coordinator.log"), LogSizeLimit: 8 << 20, Logtime: true,
	}
	opts.Tags = []string{tag + opts.ServerName}
	if s.cluster == "" {
		return opts, nil
	}
	chost, cport, err := split(s.cluster)
	if err != nil {
		return nil, fmt.Errorf("--cluster: %w", err)
	}
	both := id.Client(identity.CoordinatorName)
	both.ClientCAs, both.ClientAuth = both.RootCAs, id.Server(false).ClientAuth
	both.VerifyConnection = peers.note(both.VerifyConnection)
	opts.Cluster = server.ClusterOpts{Name: "fleet", Host: chost, Port: cport, TLSConfig: both, TLSTimeout: 5}
	for _, r := range strings.Split(s.routes, ",") {
		if r = strings.TrimSpace(r); r != "" {
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: r})
		}
	}
	if n := len(opts.Routes); !slices.Contains([]int{3, 5}, n) {
		return nil, fmt.Errorf("--routes names %d coordinators. A fleet needs 1, 3 or 5 coordinators, because two stop when one of them fails", n)
	}
	return opts, nil
}

func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	return host, port, err
}

// lockStore prevents two coordinators from using the same store.
func lockStore(dir string) (unlock func(), err error) {
	f, err := flock.Open(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another coordinator uses the store %s. Stop it first, or use another store", dir)
	}
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid()) // the node uses this process id to stop the coordinator
	}
	return func() { _ = f.Close() }, nil
}
