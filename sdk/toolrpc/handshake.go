// Package toolrpc carries [tool.Plugin] over gRPC and go-plugin: both ends of the
// wire and the conversion between them. docs/protocol.md is its specification.
package toolrpc

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

const (
	// ProtocolVersion is the application protocol version announced in the go-plugin handshake.
	ProtocolVersion = 2
	// MaxMessageSize bounds one message in either direction, in bytes.
	MaxMessageSize = 64 << 20
	// MaxSessionState bounds Result.SessionState, in bytes.
	MaxSessionState = 1 << 20
	// LifelineEnv names the descriptor of a pipe that the host keeps open as long
	// as it lives: end of file there means that the host is gone.
	LifelineEnv = "TOOLHOST_LIFELINE_FD"

	pluginKey = "toolhost"
	window    = 1 << 20
)

// Handshake is what host and plugin must agree on before they talk.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "TOOLHOST_PLUGIN",
	MagicCookieValue: "6b1f4f4c-toolhost-plugin",
}

// PluginSets gives go-plugin's versioned plugin sets. impl is nil on the host's side.
func PluginSets(impl tool.Plugin) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{ProtocolVersion: {pluginKey: &grpcPlugin{impl: impl}}}
}

// DialOptions are the host's gRPC options. The connection never goes idle: its
// socket is unlinked once connected, so it could not be dialed again.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageSize), grpc.MaxCallSendMsgSize(MaxMessageSize)),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(4 * window),
		grpc.WithIdleTimeout(0),
	}
}

// NewGRPCServer makes the plugin's gRPC server; it has the form go-plugin wants.
func NewGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(MaxMessageSize), grpc.MaxSendMsgSize(MaxMessageSize),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(4*window))...)
}

// Dispense gives the plugin behind a started go-plugin client.
func Dispense(c plugin.ClientProtocol) (*Client, error) {
	raw, err := c.Dispense(pluginKey)
	if err != nil {
		return nil, err
	}
	client, ok := raw.(*Client)
	if !ok {
		return nil, errors.New("toolrpc: the plugin set was not made by PluginSets")
	}
	return client, nil
}

type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	impl tool.Plugin
}

func (p *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	toolpb.RegisterPluginServiceServer(s, &server{impl: p.impl})
	return nil
}

func (p *grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}
