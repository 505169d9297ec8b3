package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/internal/directory"
)

// service serves the other nodes.
type service struct {
	fleetpb.UnimplementedNodeServiceServer
	fleet *Fleet
}

// serve answers the requests of other nodes on a listener.
func (f *Fleet) serve(l net.Listener) {
	f.server = grpc.NewServer(
		grpc.Creds(f.gate.Server()), grpc.MaxRecvMsgSize(maxFrame), grpc.MaxSendMsgSize(maxFrame),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 5 * time.Second, Timeout: 5 * time.Second}), // a lost gateway must not block a session
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	fleetpb.RegisterNodeServiceServer(f.server, &service{fleet: f})
	f.tasks.Go(func() { _ = f.server.Serve(l) }) // the error is ignored: it means that the server was stopped
}

// isReady reports whether the node has joined and can run calls.
func (f *Fleet) isReady() bool {
	select {
	case <-f.ready:
		return true
	default:
		return false
	}
}

// peerNode returns the name and the certificate of the node that calls. It returns an error for a client without a
// certificate.
func peerNode(ctx context.Context) (node string, certificate []byte, err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", nil, status.Error(codes.Unauthenticated, "the connection has no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return "", nil, status.Error(codes.Unauthenticated, "only nodes of the fleet can do this")
	}
	cert := info.State.PeerCertificates[0]
	return cert.Subject.CommonName, cert.Raw, nil
}

func peerAddress(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// Forward implements fleetpb.NodeServiceServer.
func (s *service) Forward(stream fleetpb.NodeService_ForwardServer) error {
	f, ctx := s.fleet, stream.Context()
	node, certificate, err := peerNode(ctx)
	if err != nil {
		return err
	}
	if !f.isReady() {
		return status.Error(codes.Unavailable, "the node starts")
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return status.Error(codes.InvalidArgument, "the first message is not a start")
	}
	in, err := f.incoming(node, certificate, start)
	if err != nil {
		f.log.Warn("a call of another node was refused", "node", node, "why", err)
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if start.GetDeadlineMs() > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(start.GetDeadlineMs())*time.Millisecond)
		defer cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &downstream{stream: stream, asks: make(map[uint32]chan *fleetpb.Answer), proceed: make(chan struct{}, 1)}
	go func() {
		d.read()
		cancel() // the gateway is gone
	}()
	in.queued = func(native bool) {
		_ = d.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Queued{Queued: &fleetpb.Queued{Native: native}}}) // the stream has ended then
	}
	in.begun = d.begun
	res, refused := f.runHere(ctx, in, d.client(start))
	if refused != nil {
		if refused.reason == moved {
			f.metrics.notOwner.Add(1)
		}
		return d.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Refusal{Refusal: refusalToPB(refused)}})
	}
	return d.result(res)
}

// incoming checks the first message of a forwarded call.
func (f *Fleet) incoming(node string, certificate []byte, start *fleetpb.Start) (*incoming, error) {
	if start.GetGateway() != node {
		return nil, fmt.Errorf("the call is by node %s, not by %s", node, start.GetGateway())
	}
	said, err := f.id.Verify(node, certificate, start.GetStatement(), start.GetSignature(), f.lease.Now())
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(start.GetRequest())
	if said.Session != start.GetKey() {
		return nil, errors.New("the statement about the principal belongs to another session")
	}
	// A statement about all calls of the session is enough: the connection proves that the node itself sends this call.
	ofSession := said.Call == "" && len(said.Digest) == 0
	if !ofSession && (string(said.Digest) != string(digest[:]) || said.Call != start.GetCallId()) {
		return nil, errors.New("the statement about the principal belongs to another call")
	}
	who, err := host.DecodePrincipal(said.Principal)
	if err != nil {
		return nil, err
	}
	in := &incoming{key: start.GetKey(), id: start.GetCallId(), once: start.GetOnce(), gateway: node, principal: who, wire: new(wire), trace: start.GetTraceparent()}
	if err := json.Unmarshal(start.GetRequest(), in.wire); err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	in.digest = in.wire.content()
	if in.key != directory.Key(who.Owner(), in.wire.Workspace, in.wire.Session) {
		return nil, errors.New("the session does not belong to the principal")
	}
	return in, nil
}

// downstream sends messages to the gateway. It is the client of a forwarded call.
type downstream struct {
	sending sync.Mutex
	stream  fleetpb.NodeService_ForwardServer
	proceed chan struct{}

	mu    sync.Mutex
	last  uint32
	asks  map[uint32]chan *fleetpb.Answer
	ended bool
}

func (d *downstream) send(m *fleetpb.ForwardResponse) error {
	d.sending.Lock()
	defer d.sending.Unlock()
	return d.stream.Send(m)
}

// read reads the messages of the gateway until the stream ends.
func (d *downstream) read() {
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended = true
		for _, c := range d.asks {
			close(c)
		}
		clear(d.asks)
	}()
	for {
		m, err := d.stream.Recv()
		if err != nil {
			return
		}
		switch x := m.GetFrame().(type) {
		case *fleetpb.ForwardRequest_Answer:
			d.mu.Lock()
			c := d.asks[x.Answer.GetId()]
			delete(d.asks, x.Answer.GetId())
			d.mu.Unlock()
			if c != nil {
				c <- x.Answer
			}
		case *fleetpb.ForwardRequest_Proceed:
			select {
			case d.proceed <- struct{}{}:
			default:
			}
		default:
			return // an unknown message ends the call
		}
	}
}

// begun reports to the gateway that the call begins. If waits is true, begun waits until the gateway has confirmed
// this.
func (d *downstream) begun(ctx context.Context, name string, waits bool) error {
	if err := d.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Begun{Begun: &fleetpb.Begun{Tool: name, Waits: waits}}}); err != nil && waits {
		return err
	}
	if !waits {
		return nil
	}
	select {
	case <-d.proceed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *downstream) result(res *tool.Result) error {
	plain := *res
	plain.Effects, plain.SessionState = nil, nil
	b, err := toolrpc.EncodeResult(&plain)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	run, err := json.Marshal(res.Run)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	out := &fleetpb.Result{Result: b, Run: run}
	if res.Error != nil {
		out.ErrorSource = string(res.Error.Source)
	}
	return d.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Result{Result: out}})
}

// client returns the client of a forwarded call.
func (d *downstream) client(start *fleetpb.Start) host.Client {
	c := &remoteClient{downstream: d, reaches: start.GetReachesPerson(), decided: start.GetDecided()}
	if start.GetAnswersRequests() {
		return &answeringClient{c}
	}
	return c
}

// remoteClient is the client of a forwarded call. It implements [host.Client].
type remoteClient struct {
	*downstream
	reaches, decided bool
}

// Progress implements [host.Client].
func (c *remoteClient) Progress(title string, metadata map[string]any) {
	b, _ := json.Marshal(metadata)                                                                                                         // the error is ignored: the metadata is only shown
	_ = c.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Progress{Progress: &fleetpb.Progress{Title: title, Metadata: b}}}) // the stream has ended then
}

// Output implements [host.Client]. It blocks while the client of the gateway is slow.
func (c *remoteClient) Output(s tool.Stream, chunk []byte) {
	_ = c.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Output{Output: &fleetpb.Output{Stream: int32(s), Chunk: chunk}}})
}

// Log implements tool.Logger.
func (c *remoteClient) Log(m tool.LogMessage) {
	if b, err := json.Marshal(m); err == nil {
		_ = c.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Log{Log: &fleetpb.Log{Message: b}}}) // the stream has ended then
	}
}

// ReachesPerson reports whether a person can answer at once.
func (c *remoteClient) ReachesPerson() bool { return c.reaches }

// Decided reports whether permission requests are answered without a person.
func (c *remoteClient) Decided() bool { return c.decided }

// answeringClient is a remoteClient that can also answer requests of MCP servers.
type answeringClient struct{ *remoteClient }

// AnswersRequests marks a client that can answer requests of MCP servers.
func (*answeringClient) AnswersRequests() {}

// Ask implements [host.Client]. If the gateway was lost, the answer is that there is nobody to ask.
func (c *remoteClient) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	b, err := toolrpc.EncodeAsk(ask)
	if err != nil {
		return tool.Answer{}, err
	}
	answer := make(chan *fleetpb.Answer, 1)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nobody(), nil
	}
	c.last++
	id := c.last
	c.asks[id] = answer
	c.mu.Unlock()
	if err := c.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Ask{Ask: &fleetpb.Ask{Id: id, Ask: b}}}); err != nil {
		return nobody(), nil //nolint:nilerr // the gateway is gone
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nobody(), nil
		case m.GetError() != "":
			return tool.Answer{}, errors.New(m.GetError())
		}
		a, err := toolrpc.DecodeAnswer(m.GetAnswer())
		a.By = m.GetBy()
		return a, err
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.asks, id)
		c.mu.Unlock()
		return tool.Answer{}, ctx.Err()
	}
}

func nobody() tool.Answer {
	return tool.Answer{Outcome: tool.NobodyToAsk, Message: "the node of the client is gone"}
}

// Query implements fleetpb.NodeServiceServer.
func (s *service) Query(ctx context.Context, req *fleetpb.QueryRequest) (*fleetpb.QueryResponse, error) {
	node, _, err := peerNode(ctx)
	if err != nil {
		return nil, err
	}
	if !s.fleet.isReady() {
		return nil, status.Error(codes.Unavailable, "the node starts")
	}
	out, err := s.fleet.operateHere(ctx, node, req.GetOperation(), req.GetArguments())
	if err != nil {
		return &fleetpb.QueryResponse{Error: err.Error()}, nil //nolint:nilerr // the answer contains the error
	}
	b, err := json.Marshal(out)
	return &fleetpb.QueryResponse{Result: b}, err
}
