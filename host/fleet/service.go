package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/hop"
)

// service serves the other nodes.
type service struct {
	fleetpb.UnimplementedNodeServiceServer
	fleet *Fleet
}

// serve answers the requests of other nodes on a listener.
func (f *Fleet) serve(l net.Listener) {
	f.server = grpc.NewServer(
		grpc.Creds(f.gate.Server()), grpc.MaxRecvMsgSize(hop.MaxMessage), grpc.MaxSendMsgSize(hop.MaxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 5 * time.Second, Timeout: 5 * time.Second}), // a lost gateway must not block a session
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
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
	hold := start.GetHold()
	if start.GetResumed() {
		if c := f.holds.Find(node, hold); c != nil {
			return f.follow(stream, node, hold, c)
		}
		return stream.Send(&fleetpb.ForwardResponse{
			Frame: &fleetpb.ForwardResponse_Refusal{
				Refusal: refusalToPB(&refusal{reason: lost, err: fmt.Errorf("the node %s does not know the call any more", f.node())}),
			},
		})
	}
	ctx, cancel := contextOf(ctx, start)
	c := hop.NewCaller(start, cancel)
	in.queued, in.begun = c.Queued, c.Begun
	if hold == "" {
		defer cancel(nil)
		c.Attach(stream)
		go func() {
			c.Serve(stream)
			c.Leave()
		}()
		return f.serveCall(ctx, cancel, in, c)
	}
	added := f.holds.Add(node, hold, c, func() {
		defer cancel(nil)
		_ = f.serveCall(ctx, cancel, in, c) // the error is ignored: the gateway is not connected, and can come back
	})
	if added != c { // the gateway does not know that the call arrived, or this node ends
		cancel(nil)
	}
	if added == nil {
		return status.Error(codes.Unavailable, "the node ends")
	}
	return f.follow(stream, node, hold, added)
}

// contextOf returns the context of a forwarded call. It does not end with the connection: [hop.Caller.Leave] ends the
// call.
func contextOf(ctx context.Context, start *fleetpb.Start) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if start.GetDeadlineMs() == 0 {
		return ctx, cancel
	}
	ctx, late := context.WithTimeout(ctx, time.Duration(start.GetDeadlineMs())*time.Millisecond)
	return ctx, func(cause error) {
		cancel(cause)
		late()
	}
}

// serveCall runs a forwarded call and sends its result. The argument "cancel" is the cancel function of ctx.
func (f *Fleet) serveCall(ctx context.Context, cancel context.CancelCauseFunc, in *incoming, c *hop.Caller) error {
	defer context.AfterFunc(f.calling, func() { cancel(context.Cause(f.calling)) })()
	res, refused := f.runHere(ctx, in, c.Client())
	if refused == nil {
		return c.Result(res)
	}
	if refused.reason == moved {
		f.metrics.notOwner.Add(1)
	}
	return c.Refuse(refusalToPB(refused))
}

// follow serves a connection of a gateway that comes back if the connection is lost.
func (f *Fleet) follow(stream fleetpb.NodeService_ForwardServer, node, hold string, c *hop.Caller) error {
	c.Attach(stream)
	if c.Serve(stream) {
		f.holds.Drop(node, hold)
	} else {
		f.holds.Lost(node, hold)
	}
	return nil
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
	in := &incoming{key: start.GetKey(), id: start.GetCallId(), once: start.GetOnce(), gateway: node, principal: who,
		trace: start.GetTraceparent()}
	if in.wire, err = hop.Decode(start.GetRequest()); err != nil {
		return nil, err
	}
	in.digest = in.wire.Content()
	if in.key != directory.Key(who.Owner(), in.wire.Workspace, in.wire.Session) {
		return nil, errors.New("the session does not belong to the principal")
	}
	return in, nil
}

// Tunnel implements fleetpb.NodeServiceServer. See package tunnel.
func (s *service) Tunnel(stream fleetpb.NodeService_TunnelServer) error {
	node, _, err := peerNode(stream.Context())
	if err != nil {
		return err
	}
	leave, err := s.fleet.gate.Tunnels.Enter(node)
	if err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	defer leave()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if to := first.GetTo(); to != "" {
		return s.fleet.tunnels.Relay(to, stream)
	}
	return s.fleet.tunnels.Accept(node, stream)
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
