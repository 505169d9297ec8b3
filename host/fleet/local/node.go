package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/host/internal/control"
	"toolhost.dev/host/router"
)

// Node is the node on this machine, as another process sees it. It implements [host.Fleet]: after [host.Host.Join], the
// node runs the requests of the host that name a workspace of the fleet. It is safe for concurrent use.
type Node struct {
	host *host.Host
	conn *grpc.ClientConn

	mu   sync.Mutex
	last chan struct{} // closed when the last request is queued
}

// Dial connects a host to the node on this machine that has the same state directory. The caller must close the node.
func Dial(h *host.Host) (*Node, error) {
	at := path(h.StateDir())
	if _, err := os.Stat(at); err != nil {
		return nil, fmt.Errorf("no node of a fleet runs with the state directory %s. Start one with toolhost serve --fleet, or name its state directory: --state DIR", cmp.Or(h.StateDir(), "(none)"))
	}
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()), // a Unix socket of the user
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(hop.MaxMessage), grpc.MaxCallSendMsgSize(hop.MaxMessage)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			address, through, err := control.Reach(filepath.Split(at))
			if err != nil {
				return nil, err
			}
			defer through.Close() //nolint:errcheck // only held
			return new(net.Dialer).DialContext(ctx, "unix", address)
		}))
	if err != nil {
		return nil, err
	}
	return &Node{host: h, conn: conn}, nil
}

// Close ends the connection.
func (n *Node) Close() error { return n.conn.Close() }

// Stats implements [host.Fleet].
func (n *Node) Stats() host.FleetStats { return host.FleetStats{} }

// Begin implements [host.Fleet].
func (n *Node) Begin(req host.Request, client host.Client) host.Queued {
	if req.Workspace == "" || strings.ContainsAny(req.Workspace, `/\`) {
		return nil
	}
	r := &request{node: n, req: req, client: client, mine: make(chan struct{})}
	if r.client == nil {
		r.client = hop.Silent{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r.before, n.last = n.last, r.mine
	return r
}

// request is a request that the node runs. It implements [host.Queued].
type request struct {
	node         *Node
	req          host.Request
	client       host.Client
	before, mine chan struct{} // closed when the earlier request, and this one, are queued
	once         sync.Once
}

func (r *request) queued() { r.once.Do(func() { close(r.mine) }) }

// Native implements [host.Queued].
func (r *request) Native() bool {
	return r.req.Command != "" && r.node.host.Explain(host.Request{Command: r.req.Command}).Layer == router.Native
}

// Run implements [host.Queued].
func (r *request) Run(ctx context.Context) *tool.Result {
	defer r.queued()
	if r.before != nil {
		select {
		case <-r.before:
		case <-ctx.Done():
			return r.failed(tool.Canceled, "The call did not start, because its caller ended it while it waited for earlier calls. Nothing was run.")
		}
	}
	text, err := json.Marshal(hop.RequestOf(&r.req, r.req.Workspace))
	if err != nil {
		return r.failed(tool.InvalidArguments, "The arguments are not JSON: %w.", err)
	}
	start := &fleetpb.Start{
		CallId: cmp.Or(r.req.Once, rand.Text()), Once: r.req.Once != "", Traceparent: r.req.Trace, Request: text,
		ReachesPerson: host.ReachesPerson(r.client), Decided: host.Decided(r.client),
		AnswersRequests: host.AnswersRequests(r.client), Parks: host.Parks(r.client),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the client is not asked any more
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stream, err := fleetpb.NewNodeServiceClient(r.node.conn).Forward(life)
	if err != nil {
		return r.failed(tool.Unavailable, "The node on this machine does not answer: %w. Nothing was run. Is toolhost serve --fleet running?", err)
	}
	call := hop.NewCall(r.client, r.queued)
	if err := call.Use(stream, start); err != nil && err != io.EOF { //nolint:errorlint // as documented for Send
		return r.failed(tool.Unavailable, "The node on this machine does not answer: %w. Nothing was run.", err)
	}
	defer context.AfterFunc(ctx, func() { // it is stopped before cancel is called
		call.Cancel()
		time.AfterFunc(hop.CancelPatience, end)
	})()
	last, err := call.Receive(ctx, stream)
	if err != nil && call.Heard() > 0 {
		return r.failed(tool.Unavailable, "The node on this machine ended while the call ran: %w. The call may have changed something.", err)
	}
	if err != nil {
		return r.failed(tool.Unavailable, "The node on this machine does not answer: %w. Nothing was run. Is toolhost serve --fleet running?", err)
	}
	res, err := hop.Result(last.GetResult())
	if err != nil {
		return r.failed(tool.Internal, "The answer of the node cannot be read: %w.", err)
	}
	return res
}

// failed returns the result of a call that the node did not run.
func (r *request) failed(kind tool.Kind, format string, args ...any) *tool.Result {
	return &tool.Result{
		Error: tool.Errorf(kind, format, args...).From(tool.SourceHost), Run: tool.Run{CallID: r.req.ID},
	}
}
