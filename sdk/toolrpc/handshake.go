// Package toolrpc implements [tool.Plugin] over gRPC and go-plugin. [Serve] is the plugin's end of the connection.
// [PluginSets] and [Dispense] are the host's end. Plugin authors call [toolhost.dev/sdk.Serve] instead. The file
// docs/protocol.md specifies the protocol.
package toolrpc

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

const (
	// ProtocolVersion is the version of the application protocol that the go-plugin handshake
	// announces.
	ProtocolVersion = 2
	// MaxMessageSize is the maximum size of a message in either direction, in bytes.
	MaxMessageSize = 64 << 20
	// MaxSessionState is the maximum size of a [tool.Result.SessionState], in bytes.
	MaxSessionState = 1 << 20
	// WaitEnv is the name of an environment variable. If it is set, a plugin waits for a debugger before it serves.
	WaitEnv = "TOOLHOST_WAIT_FOR_DEBUGGER"
	// LifelineEnv is the name of an environment variable. Its value is the descriptor of a pipe that the host keeps
	// open while it runs. End of file on the pipe means that the host has exited.
	LifelineEnv = "TOOLHOST_LIFELINE_FD"

	// SocketDirEnv is the name of an environment variable. Its value is the directory in which the plugin must listen.
	SocketDirEnv = plugin.EnvUnixSocketDir

	pluginKey = "toolhost"
	window    = 1 << 20
)

// Handshake is the configuration of the go-plugin handshake. It must be the same in the host and in the plugin.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "TOOLHOST_PLUGIN",
	MagicCookieValue: "6b1f4f4c-toolhost-plugin",
}

// PluginSets returns go-plugin's versioned plugin sets for impl. In the host, impl is nil, and the sets include the
// earlier version of the protocol.
func PluginSets(impl tool.Plugin) map[int]plugin.PluginSet {
	sets := map[int]plugin.PluginSet{ProtocolVersion: {pluginKey: &grpcPlugin{impl: impl}}}
	if impl == nil {
		sets[LegacyVersion] = plugin.PluginSet{pluginKey: legacyPlugin{}}
	}
	return sets
}

// Speaks reports whether the host supports a version of the protocol.
func Speaks(version int64) bool { return version == ProtocolVersion || version == LegacyVersion }

// DialOptions returns the gRPC options of the host. With these options, the connection never becomes idle. This is
// necessary because the host cannot connect a second time: the socket is unlinked after the first connection.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageSize), grpc.MaxCallSendMsgSize(MaxMessageSize)),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(4 * window),
		grpc.WithIdleTimeout(0),
	}
}

// Serve serves a plugin until the host ends it. It listens on a socket, calls the function listening, and then writes
// the handshake line to os.Stdout. go-plugin replaces os.Stdout after the handshake.
func Serve(impl tool.Plugin, listening func()) {
	if os.Getenv("PLUGIN_PROTOCOL_VERSIONS") == "" {
		// Without the variable PLUGIN_PROTOCOL_VERSIONS, go-plugin would serve the lowest version in the plugin
		// sets.
		_ = os.Setenv("PLUGIN_PROTOCOL_VERSIONS", strconv.Itoa(ProtocolVersion))
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  Handshake,
		VersionedPlugins: PluginSets(impl),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			listening() // go-plugin makes the server after the socket
			return newGRPCServer(opts)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
}

func newGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(MaxMessageSize), grpc.MaxSendMsgSize(MaxMessageSize),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(4*window))...)
}

// Dispense returns the plugin of a started go-plugin client, for all supported versions of the protocol. A plugin of
// version 2 is a [*Client]. Dispense sends hostVersion to the plugin.
func Dispense(c plugin.ClientProtocol, hostVersion string) (tool.Plugin, error) {
	raw, err := c.Dispense(pluginKey)
	if err != nil {
		return nil, err
	}
	if client, ok := raw.(*Client); ok {
		client.HostVersion = hostVersion
	}
	p, ok := raw.(tool.Plugin)
	if !ok {
		return nil, errors.New("toolrpc: the plugin set was not made by PluginSets")
	}
	return p, nil
}

type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	impl tool.Plugin
}

func (p *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	Register(s, p.impl)
	return nil
}

// Register adds the services of a plugin to a gRPC server. Only programs that do not use go-plugin call it. Their host
// connects with [DialOptions] and [NewClient].
func Register(s grpc.ServiceRegistrar, impl tool.Plugin) {
	serves := &server{impl: impl}
	toolpb.RegisterPluginServiceServer(s, serves)
	if r, ok := impl.(tool.Relay); ok {
		toolpb.RegisterRelayServiceServer(s, &relayServer{server: serves, impl: r})
	}
}

func (p *grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}
