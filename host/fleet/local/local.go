// Package local lets programs on the machine of a node send calls into the fleet. [Serve] serves them on a Unix socket,
// and [Dial] connects a host in another process of the same user.
package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/host/internal/control"
)

// socket is the name of the socket in the directory of a node.
const socket = "calls.sock"

// Serve serves calls of other processes of the user on a socket in the directory of a node, until stop is called. The
// calls have the rights of the local user. The function stop waits until the running calls have ended. After stopGrace,
// it cancels them. Then they have the same time again to return their results.
func Serve(h *host.Host, dir string) (stop func(), err error) {
	address, through, err := control.Reach(dir, socket)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(address) // an earlier run of the node can have left it, and no other one uses the directory
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err == nil {
		err = os.Chmod(address, 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the socket for calls cannot be opened: %w", err), through.Close())
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(hop.MaxMessage), grpc.MaxSendMsgSize(hop.MaxMessage))
	s := &service{host: h}
	var cancel context.CancelCauseFunc
	s.calling, cancel = context.WithCancelCause(context.Background())
	fleetpb.RegisterNodeServiceServer(server, s)
	go func() {
		_ = server.Serve(own{l}) // the error is ignored: it means that the server was stopped
		_ = through.Close()      // the socket was removed through it
	}()
	return func() {
		late := []*time.Timer{
			time.AfterFunc(stopGrace, func() { cancel(host.ErrStopped) }), time.AfterFunc(2*stopGrace, server.Stop),
		}
		server.GracefulStop()
		for _, timer := range late {
			timer.Stop()
		}
		cancel(nil)
	}, nil
}

const stopGrace = 2 * time.Second

// own accepts only connections of processes of the same user that are not in a sandbox of the host.
type own struct{ *net.UnixListener }

// Accept implements [net.Listener].
func (l own) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := control.PeerUser(c); err == nil && uid == os.Getuid() {
			return c, nil
		}
		_ = c.Close() // the error is ignored: the connection is refused
	}
}

// service serves the calls.
type service struct {
	fleetpb.UnimplementedNodeServiceServer
	host    *host.Host
	calling context.Context // calls end with it
}

// Forward implements fleetpb.NodeServiceServer.
func (s *service) Forward(stream fleetpb.NodeService_ForwardServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	request, err := hop.Decode(start.GetRequest())
	if err != nil {
		return err
	}
	req := request.Host(request.Workspace)
	req.Trace = start.GetTraceparent()
	if start.GetOnce() {
		req.Once = start.GetCallId()
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.calling, func() { cancel(context.Cause(s.calling)) })()
	c := hop.NewCaller(start, cancel)
	c.Attach(stream)
	go func() {
		c.Serve(stream)
		c.Leave()
	}()
	p := s.host.Begin(req, c.Client())
	c.Queued(p.Native())
	return c.Result(p.Run(ctx))
}

// path returns the path of the socket of the node with a state directory.
func path(state string) string { return filepath.Join(state, "fleet", socket) }
