package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/identity"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/host/fleet/internal/tunnel"
)

// conn returns the connection to a node.
func (f *Fleet) conn(node string) (*grpc.ClientConn, error) {
	p := f.lease.Peer(node)
	if p == nil {
		return nil, fmt.Errorf("the node %s is unknown", node)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := node + " " + p.Address
	if c := f.peers[key]; c != nil {
		return c, nil
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(f.gate.Client(identity.ServerName(node))),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(hop.MaxMessage), grpc.MaxCallSendMsgSize(hop.MaxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: 2 * time.Second, Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second,
			},
		}),
		grpc.WithIdleTimeout(time.Minute),
	}
	if p.Outward {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, node string) (net.Conn, error) {
			return f.reach(ctx, node)
		}))
	}
	c, err := grpc.NewClient("passthrough:///"+cmp.Or(p.Address, node), options...)
	if err == nil {
		f.peers[key] = c
	}
	return c, err
}

// reach returns a connection to an outward node. If this node is outward, too, the connection goes through another
// node.
func (f *Fleet) reach(ctx context.Context, node string) (net.Conn, error) {
	if f.outward == nil {
		return f.tunnels.Take(ctx, node)
	}
	err := errors.New("no node can be reached that has a connection to it")
	for name, p := range f.lease.Peers() { // in random order
		if p.Outward || !p.Lives() {
			continue
		}
		through, failed := f.conn(name)
		if failed != nil {
			continue
		}
		var c net.Conn
		if c, err = tunnel.Dial(ctx, through, node); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("the node %s cannot be reached: %w", node, err)
}

// offer keeps a connection to this node open at each node that listens, until ctx ends. Such a node needs no lease,
// because it can send calls of workspaces that are not shared without one.
func (f *Fleet) offer(ctx context.Context) {
	var offers sync.WaitGroup
	defer offers.Wait()
	made := make(map[string]context.CancelFunc)
	for {
		peers := f.lease.Peers()
		for name, p := range peers {
			if key := name + " " + p.Address; name != f.node() && !p.Outward && p.State != lease.StateLeft &&
				made[key] == nil {
				to, err := f.conn(name)
				if err != nil {
					f.log.Error("no connection can be offered to a node", "node", name, "why", err)
					continue
				}
				life, end := context.WithCancel(ctx)
				made[key] = end
				offers.Go(func() { f.outward.Offer(life, to) })
			}
		}
		for key, end := range made {
			name, address, _ := strings.Cut(key, " ")
			if p := peers[name]; p == nil || p.Address != address || p.State == lease.StateLeft {
				end()
				delete(made, key)
			}
		}
		select {
		case <-ctx.Done():
			for _, end := range made {
				end()
			}
			return
		case <-time.After(time.Second):
		}
	}
}

// connectAgain connects at once to a node that could not be reached last time. Without it, a call shortly after the
// node has started again would fail with the error of the last attempt, because gRPC waits between two attempts.
// Without a connection after two seconds, the call returns the error.
func connectAgain(ctx context.Context, conn *grpc.ClientConn) {
	if conn.GetState() != connectivity.TransientFailure {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn.ResetConnectBackoff()
	for s := conn.GetState(); s != connectivity.Ready && conn.WaitForStateChange(ctx, s); s = conn.GetState() {
		conn.Connect()
	}
}

// forward runs the call on another node.
func (r *request) forward(ctx context.Context, node string) (out attempt) {
	f := r.f
	start := time.Now()
	defer func() { f.metrics.forwarded(time.Since(start)) }()
	within, end := f.host.StartSpan(r.trace, "forward "+node, map[string]string{
		"toolhost.node": f.node(), "toolhost.owner": node, "toolhost.session": r.wire.Session,
	})
	defer func() { end(out.problem()) }()
	peer := f.lease.Peer(node)
	conn, err := f.conn(node)
	if err != nil {
		return attempt{verdict: absent, why: err.Error()}
	}
	t := &trip{r: r, node: node, conn: conn, trace: within,
		held: (f.outward != nil || peer != nil && peer.Outward) && !without("hold")}
	t.call = hop.NewCall(r.client, r.isQueued)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)                                                 // the client is not asked any more
	if e := f.sessions.Find(r.key); !t.held || e != nil && e.Shared { // a suspended node does not close its connections
		defer context.AfterFunc(f.lease.Living(node), func() { cancel(errNodeEnded) })()
	}
	return t.run(ctx, t.exchange)
}

// trip is a call on its way to another node.
type trip struct {
	r     *request
	node  string
	conn  *grpc.ClientConn
	trace string // trace context of the hop
	held  bool   // whether the call goes on if the connection is lost
	call  *hop.Call
}

// run sends the call with the function exchange. If the connection is lost and the call is held, run comes back to it.
// It fails if the other node sends nothing for the time hop.Patience.
func (t *trip) run(ctx context.Context, exchange func(ctx context.Context, again bool) (attempt, bool)) attempt {
	out, cut := exchange(ctx, false)
	for lostAt := time.Now(); cut && t.held && t.call.Heard() > 0 && ctx.Err() == nil &&
		time.Since(lostAt) < hop.Patience; {
		t.r.client.Progress("waits for node "+t.node, map[string]any{
			"activity": "waits for node " + t.node + ", whose connection is lost",
		})
		select {
		case <-ctx.Done():
		case <-time.After(min(time.Since(lostAt)/4+50*time.Millisecond, 2*time.Second)):
		}
		before := t.call.Heard()
		if out, cut = exchange(ctx, true); t.call.Heard() > before {
			lostAt = time.Now()
		}
	}
	return out
}

// exchange sends the call on a new connection. If "again" is true, it asks for the result of the call that it sent
// before. The result "cut" reports whether the connection was lost before the call ended.
func (t *trip) exchange(ctx context.Context, again bool) (out attempt, cut bool) {
	r := t.r
	if again {
		if p := r.f.lease.Peer(t.node); p != nil && r.f.id.HasRevoked(p.Certificate) {
			return t.unanswered(errRevoked), false
		}
		connectAgain(ctx, t.conn)
	}
	first, err := r.start(ctx, t.node, t.trace)
	if err != nil {
		return attempt{result: r.refused(ctx, err)}, false
	}
	if t.held {
		first.Hold, first.Resumed = r.hold, again
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stream, err := fleetpb.NewNodeServiceClient(t.conn).Forward(life)
	if err != nil {
		return t.unanswered(err), true
	}
	if err := t.call.Use(stream, first); err != nil && !errors.Is(err, io.EOF) {
		return t.unanswered(err), true
	}
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errNodeEnded) {
			end()
			return
		}
		t.call.Cancel() // without it, the other node would think that the connection is lost
		time.AfterFunc(hop.CancelPatience, end)
	})()
	last, err := t.call.Receive(ctx, stream)
	if err != nil {
		return t.failed(ctx, err)
	}
	if t.held {
		_ = t.call.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Received{Received: &fleetpb.Received{}}}) // the error is ignored: the other node forgets the call later
		_ = stream.CloseSend()
		_, _ = stream.Recv() // until the other node has read it
	}
	return t.ended(ctx, last), false
}

// unanswered returns the outcome of a call that was not sent.
func (t *trip) unanswered(err error) attempt {
	why := "the node " + t.node + " does not answer: " + status.Convert(err).Message()
	if began, name := t.call.Began(); began {
		return attempt{verdict: lost, tool: name, why: why}
	}
	return attempt{verdict: absent, why: why}
}

// failed returns the outcome of a call whose connection ended with an error.
func (t *trip) failed(ctx context.Context, err error) (out attempt, cut bool) {
	began, name := t.call.Began()
	switch {
	case errors.Is(context.Cause(ctx), errNodeEnded) && began:
		return attempt{verdict: lost, tool: name}, false
	case errors.Is(context.Cause(ctx), errNodeEnded):
		return attempt{verdict: absent, why: "the node " + t.node + " has ended"}, false
	case ctx.Err() != nil:
		return attempt{result: t.r.refused(ctx, canceledCall(ctx, began))}, false
	case began:
		return attempt{verdict: lost, tool: name}, status.Code(err) != codes.ResourceExhausted // a message is too large, also next time
	case status.Code(err) == codes.PermissionDenied || status.Code(err) == codes.InvalidArgument:
		return attempt{
			result: t.r.refused(ctx, tool.Errorf(tool.Internal, "The node %s refused the call: %s.", t.node,
				strings.TrimSuffix(status.Convert(err).Message(), "."))),
		}, false
	}
	return t.unanswered(err), true
}

// ended returns the outcome in the last message of a call.
func (t *trip) ended(ctx context.Context, m *fleetpb.ForwardResponse) attempt {
	switch x := m.GetFrame().(type) {
	case *fleetpb.ForwardResponse_Refusal:
		out := refusalFromPB(t.node, x.Refusal).attempt()
		if began, name := t.call.Began(); began && out.verdict == absent { // the node began again meanwhile
			return attempt{verdict: lost, tool: name}
		}
		return out
	case *fleetpb.ForwardResponse_Result:
		res, err := hop.Result(x.Result)
		if err != nil {
			return attempt{result: t.r.unknown(t.node, "")}
		}
		return attempt{result: res}
	}
	return attempt{result: t.r.refused(ctx, tool.Errorf(tool.Internal, "The node %s sent a message that this version of toolhost does not know. Ask the operator to run the same version on all nodes.", t.node))}
}

// errRevoked means that the key of a node was revoked while the node ran a call.
var errRevoked = errors.New("its key was revoked")

// errNodeEnded is the cancellation cause of a forwarded call whose node has ended.
var errNodeEnded = errors.New("the node has ended")

// start returns the first message of a forwarded call to a node. trace is the trace context of the hop.
func (r *request) start(ctx context.Context, node, trace string) (*fleetpb.Start, error) {
	who, err := r.principal.Encode()
	if err != nil {
		return nil, err
	}
	var text, signature []byte
	if p := r.f.lease.Peer(node); p != nil && p.SessionStatements {
		text, signature, err = r.f.id.SignSession(who, r.key, r.f.lease.Now())
	} else {
		text, signature, err = r.f.id.Sign(identity.Statement{Principal: who, Session: r.key, Call: r.id,
			Digest: r.digest[:]}, r.f.lease.Now())
	}
	if err != nil {
		return nil, err
	}
	out := &fleetpb.Start{
		CallId: r.id, Key: r.key, Statement: text, Signature: signature, Traceparent: trace, Request: r.text,
		Once: r.once, Gateway: r.f.node(),
		ReachesPerson: host.ReachesPerson(r.client), Decided: host.Decided(r.client),
		AnswersRequests: host.AnswersRequests(r.client), Parks: host.Parks(r.client),
	}
	if e := r.f.sessions.Find(r.key); e != nil {
		out.Epoch = e.Epoch
	}
	if end, ok := ctx.Deadline(); ok {
		out.DeadlineMs = max(time.Until(end).Milliseconds(), 1)
	}
	return out, nil
}

func canceledCall(ctx context.Context, began bool) *tool.Error {
	text := "The call was canceled. Nothing was run."
	if began {
		text = "The call was canceled while it ran on another node. It may have changed something."
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tool.Errorf(tool.Timeout, "%s", text)
	}
	return tool.Errorf(tool.Canceled, "%s", text)
}

func refusalFromPB(node string, m *fleetpb.Refusal) *refusal {
	out := &refusal{owner: m.GetOwner(), epoch: m.GetEpoch(), err: errors.New(m.GetMessage())}
	switch m.GetReason() {
	case fleetpb.Refusal_REASON_NOT_OWNER:
		out.reason = moved
	case fleetpb.Refusal_REASON_REFUSED:
		out.reason = answered
	case fleetpb.Refusal_REASON_UNAVAILABLE, fleetpb.Refusal_REASON_UNSPECIFIED:
		out.reason = absent
	default:
		out.reason, out.err = absent, fmt.Errorf("the node %s refused the call", node)
	}
	var e tool.Error
	if json.Unmarshal([]byte(m.GetMessage()), &e) == nil && e.Kind != "" {
		out.err = &e
	}
	return out
}

func refusalToPB(r *refusal) *fleetpb.Refusal {
	out := &fleetpb.Refusal{Owner: r.owner, Epoch: r.epoch}
	var e *tool.Error
	if errors.As(r.err, &e) || r.reason == answered {
		if b, err := json.Marshal(tool.AsError(r.err)); err == nil {
			out.Message = string(b)
		}
	} else if r.err != nil {
		out.Message = r.err.Error()
	}
	switch r.reason {
	case moved:
		out.Reason = fleetpb.Refusal_REASON_NOT_OWNER
	case answered:
		out.Reason = fleetpb.Refusal_REASON_REFUSED
	case absent, lost:
		out.Reason = fleetpb.Refusal_REASON_UNAVAILABLE
	}
	return out
}
