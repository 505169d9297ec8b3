package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"toolhost.dev/sdk/toolrpc"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/identity"
)

// maxFrame is the maximum size of a message between nodes. A result can have a size of 64 MiB.
const maxFrame = 80 << 20

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
	c, err := grpc.NewClient("passthrough:///"+p.Address, grpc.WithTransportCredentials(f.gate.Client(identity.ServerName(node))),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFrame), grpc.MaxCallSendMsgSize(maxFrame)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second, Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}}),
		grpc.WithIdleTimeout(time.Minute))
	if err == nil {
		f.peers[key] = c
	}
	return c, err
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
	within, end := f.host.StartSpan(r.trace, "forward "+node, map[string]string{"toolhost.node": f.node(), "toolhost.owner": node, "toolhost.session": r.wire.Session})
	defer func() { end(out.problem()) }()
	conn, err := f.conn(node)
	if err != nil {
		return attempt{verdict: absent, why: err.Error()}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.lease.Living(node), func() { cancel(errNodeEnded) })() // a suspended node does not close its connections
	stream, err := fleetpb.NewNodeServiceClient(conn).Forward(ctx)
	if err != nil {
		return attempt{verdict: absent, why: "the node " + node + " does not answer: " + status.Convert(err).Message()}
	}
	first, err := r.start(ctx, node, within)
	if err != nil {
		return attempt{result: r.refused(ctx, err)}
	}
	up := &upstream{stream: stream}
	if err := up.send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Start{Start: first}}); err != nil && !errors.Is(err, io.EOF) {
		return attempt{verdict: absent, why: "the node " + node + " does not answer: " + status.Convert(err).Message()}
	}
	return r.receive(ctx, node, stream, up)
}

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
		text, signature, err = r.f.id.Sign(identity.Statement{Principal: who, Session: r.key, Call: r.id, Digest: r.digest[:]}, r.f.lease.Now())
	}
	if err != nil {
		return nil, err
	}
	out := &fleetpb.Start{
		CallId: r.id, Key: r.key, Statement: text, Signature: signature, Traceparent: trace, Request: r.text, Once: r.once, Gateway: r.f.node(),
		ReachesPerson: host.ReachesPerson(r.client), Decided: host.Decided(r.client), AnswersRequests: host.AnswersRequests(r.client),
	}
	if e := r.f.sessions.Find(r.key); e != nil {
		out.Epoch = e.Epoch
	}
	if end, ok := ctx.Deadline(); ok {
		out.DeadlineMs = max(time.Until(end).Milliseconds(), 1)
	}
	return out, nil
}

// upstream sends messages to the owner.
type upstream struct {
	mu     sync.Mutex
	stream fleetpb.NodeService_ForwardClient
}

func (u *upstream) send(m *fleetpb.ForwardRequest) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stream.Send(m)
}

// receive passes the messages of the owner on to the client, until the result arrives.
func (r *request) receive(ctx context.Context, node string, stream fleetpb.NodeService_ForwardClient, out *upstream) attempt {
	began, name := false, ""
	for {
		m, err := stream.Recv()
		switch {
		case err == nil:
		case errors.Is(context.Cause(ctx), errNodeEnded) && began:
			return attempt{verdict: lost, tool: name}
		case errors.Is(context.Cause(ctx), errNodeEnded):
			return attempt{verdict: absent, why: "the node " + node + " has ended"}
		case ctx.Err() != nil:
			return attempt{result: r.refused(ctx, canceledCall(ctx, began))}
		case began:
			return attempt{verdict: lost, tool: name}
		case status.Code(err) == codes.PermissionDenied || status.Code(err) == codes.InvalidArgument:
			return attempt{result: r.refused(ctx, tool.Errorf(tool.Internal, "The node %s refused the call: %s.", node, strings.TrimSuffix(status.Convert(err).Message(), ".")))}
		default:
			return attempt{verdict: absent, why: "the node " + node + " does not answer: " + status.Convert(err).Message()}
		}
		switch x := m.GetFrame().(type) {
		case *fleetpb.ForwardResponse_Queued:
			r.isQueued()
		case *fleetpb.ForwardResponse_Begun:
			began, name = true, x.Begun.GetTool()
			if x.Begun.GetWaits() {
				_ = out.send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Proceed{Proceed: &fleetpb.Proceed{}}}) // the error is ignored: the next Recv returns it
			}
		case *fleetpb.ForwardResponse_Progress:
			var metadata map[string]any
			_ = json.Unmarshal(x.Progress.GetMetadata(), &metadata) // the error is ignored: the metadata is only shown
			r.client.Progress(x.Progress.GetTitle(), metadata)
		case *fleetpb.ForwardResponse_Output:
			r.client.Output(tool.Stream(x.Output.GetStream()), x.Output.GetChunk())
		case *fleetpb.ForwardResponse_Ask:
			go r.answer(ctx, x.Ask, out)
		case *fleetpb.ForwardResponse_Log:
			var l tool.LogMessage
			if json.Unmarshal(x.Log.GetMessage(), &l) == nil {
				host.Log(r.client, l)
			}
		case *fleetpb.ForwardResponse_Refusal:
			return refusalFromPB(node, x.Refusal).attempt()
		case *fleetpb.ForwardResponse_Result:
			return r.result(node, x.Result)
		default:
			return attempt{result: r.refused(ctx, tool.Errorf(tool.Internal, "The node %s sent a message that this version of toolhost does not know.", node))}
		}
	}
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

// result returns the result that the owner sent.
func (r *request) result(node string, m *fleetpb.Result) attempt {
	res, err := toolrpc.DecodeResult(m.GetResult())
	if err == nil && len(m.GetRun()) > 0 {
		err = json.Unmarshal(m.GetRun(), &res.Run)
	}
	if err != nil {
		return attempt{result: r.unknown(node, "")}
	}
	if res.Error != nil {
		res.Error = res.Error.From(tool.Source(m.GetErrorSource()))
	}
	return attempt{result: res}
}

// answer lets the client answer a question of the owner, and sends the answer to the owner.
func (r *request) answer(ctx context.Context, m *fleetpb.Ask, out *upstream) {
	reply := &fleetpb.Answer{Id: m.GetId()}
	ask, err := toolrpc.DecodeAsk(m.GetAsk())
	if err == nil {
		var a tool.Answer
		if a, err = r.client.Ask(ctx, ask); err == nil {
			reply.By = a.By
			reply.Answer, err = toolrpc.EncodeAnswer(a)
		}
	}
	if err != nil {
		reply.Error = err.Error()
	}
	_ = out.send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Answer{Answer: reply}}) // the stream has ended then
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
