// Package bare implements a minimal go-plugin plugin as the baseline for measurements of the host. The plugin echoes
// bytes in one of three ways: by a unary call, by one bidirectional stream per call, or by frames on one long-lived
// stream.
package bare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "BARE_PLUGIN", MagicCookieValue: "bench"}

const (
	unaryMethod  = "/bench.Bare/Unary"
	streamMethod = "/bench.Bare/Stream"
	framesMethod = "/bench.Bare/Frames"
)

var streamDesc = grpc.StreamDesc{StreamName: "Stream", ServerStreams: true, ClientStreams: true, Handler: serveStream}

var framesDesc = grpc.StreamDesc{StreamName: "Frames", ServerStreams: true, ClientStreams: true, Handler: serveFrames}

type glue struct{ plugin.NetRPCUnsupportedPlugin }

func (glue) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Bare", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			return in, dec(in)
		}}},
		Streams: []grpc.StreamDesc{streamDesc, framesDesc},
	}, nil)
	return nil
}

func (glue) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

func serveStream(_ any, s grpc.ServerStream) error {
	in := new(wrapperspb.BytesValue)
	if err := s.RecvMsg(in); err != nil {
		return err
	}
	return s.SendMsg(in)
}

// serveFrames answers each frame in a separate goroutine, as a plugin does for real calls.
func serveFrames(_ any, s grpc.ServerStream) error {
	var mu sync.Mutex
	for {
		in := new(wrapperspb.BytesValue)
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		go func() {
			mu.Lock()
			defer mu.Unlock()
			_ = s.SendMsg(in) // ignore the error, because it only means that the stream has ended
		}()
	}
}

// Serve runs the plugin until its client disconnects.
func Serve() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake, Plugins: plugin.PluginSet{"bare": glue{}}, GRPCServer: plugin.DefaultGRPCServer,
		Logger: hclog.NewNullLogger(),
	})
}

// Client is a connection to a running bare plugin.
type Client struct {
	client *plugin.Client
	conn   *grpc.ClientConn

	framesOnce sync.Once
	frames     grpc.ClientStream
	framesErr  error
	sendMu     sync.Mutex
	lastID     atomic.Uint64
	waiting    sync.Map
}

// Start starts the plugin binary.
func Start(path string) (*Client, error) {
	c := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: handshake, Plugins: plugin.PluginSet{"bare": glue{}}, Cmd: exec.Command(path),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
	})
	proto, err := c.Client()
	if err != nil {
		return nil, err
	}
	raw, err := proto.Dispense("bare")
	if err != nil {
		return nil, err
	}
	return &Client{client: c, conn: raw.(*grpc.ClientConn)}, nil //nolint:forcetypeassert // glue made it
}

// Stop ends the plugin.
func (c *Client) Stop() { c.client.Kill() }

// Unary echoes bytes with a unary call.
func (c *Client) Unary(ctx context.Context, b []byte) ([]byte, error) {
	out := new(wrapperspb.BytesValue)
	err := c.conn.Invoke(ctx, unaryMethod, wrapperspb.Bytes(b), out)
	return out.Value, err
}

// Stream echoes bytes with a new stream. The client keeps its end of the stream open until the answer arrives.
func (c *Client) Stream(ctx context.Context, b []byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.conn.NewStream(ctx, &streamDesc, streamMethod)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(wrapperspb.Bytes(b)); err != nil {
		return nil, err
	}
	out := new(wrapperspb.BytesValue)
	err = s.RecvMsg(out)
	return out.Value, err
}

// Frames echoes bytes with a frame on the stream that all calls share.
func (c *Client) Frames(ctx context.Context, b []byte) ([]byte, error) {
	c.framesOnce.Do(func() {
		if c.frames, c.framesErr = c.conn.NewStream(context.WithoutCancel(ctx), &framesDesc, framesMethod); c.framesErr == nil {
			go c.receive()
		}
	})
	if c.framesErr != nil {
		return nil, c.framesErr
	}
	id := c.lastID.Add(1)
	ch := make(chan []byte, 1)
	c.waiting.Store(id, ch)
	frame := append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(b)), id), b...)
	c.sendMu.Lock()
	err := c.frames.SendMsg(wrapperspb.Bytes(frame))
	c.sendMu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case out := <-ch:
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Client) receive() {
	for {
		in := new(wrapperspb.BytesValue)
		if err := c.frames.RecvMsg(in); err != nil || len(in.Value) < 8 {
			return
		}
		if ch, ok := c.waiting.LoadAndDelete(binary.BigEndian.Uint64(in.Value)); ok {
			ch.(chan []byte) <- in.Value[8:] //nolint:forcetypeassert // Frames stored it
		}
	}
}

// Check checks that each kind of call works.
func (c *Client) Check(ctx context.Context) error {
	for name, f := range map[string]func(context.Context, []byte) ([]byte, error){"unary": c.Unary, "stream": c.Stream, "frames": c.Frames} {
		out, err := f(ctx, []byte("x"))
		if err != nil || string(out) != "x" {
			return errors.Join(fmt.Errorf("the %s echo gives %q", name, out), err)
		}
	}
	return nil
}
