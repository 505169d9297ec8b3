package toolrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"toolhost.dev/sdk/tool"
	toolpbv1 "toolhost.dev/sdk/toolpb/v1"
)

// LegacyVersion is the earlier version of the protocol. Hosts still support it.
const LegacyVersion = 1

// legacyClient is the host's end of a connection with protocol version 1. It is safe for concurrent use.
type legacyClient struct {
	rpc toolpbv1.PluginServiceClient
}

var _ tool.Plugin = (*legacyClient)(nil)

// Describe implements [tool.Plugin]. Traits that version 1 cannot express get their safest value.
func (c *legacyClient) Describe(ctx context.Context) (*tool.Description, error) {
	r, err := c.rpc.Describe(ctx, &toolpbv1.DescribeRequest{})
	if err != nil {
		return nil, callError(err)
	}
	d := &tool.Description{Name: r.GetName(), Version: r.GetVersion()}
	for _, t := range r.GetTools() {
		d.Tools = append(d.Tools, tool.Definition{
			Name: t.GetName(), Description: t.GetDescription(), Input: t.GetParameters(), Category: tool.CategoryCustom,
			Traits: tool.Traits{ReadOnly: t.GetReadOnly()},
		})
	}
	return d, nil
}

// Configure implements [tool.Plugin]. Version 1 has no configuration, and the host refuses to send
// one.
func (*legacyClient) Configure(context.Context, tool.Configuration) ([]tool.Diagnostic, error) {
	return nil, nil
}

// Health implements [tool.Plugin]. The plugin counts as healthy if it can describe itself.
func (c *legacyClient) Health(ctx context.Context, name string) (tool.Health, error) {
	d, err := c.Describe(ctx)
	if err != nil {
		return tool.Health{}, err
	}
	if name == "" {
		return tool.Health{Status: tool.Healthy}, nil
	}
	for _, t := range d.Tools {
		if t.Name == name {
			return tool.Health{Status: tool.Healthy}, nil
		}
	}
	return tool.Health{Status: tool.HealthNotFound, Message: "the plugin has no such tool"}, nil
}

// Drain implements [tool.Plugin]. It does nothing, because a plugin of version 1 cannot refuse calls.
func (*legacyClient) Drain(context.Context, time.Duration) (int, error) { return 0, nil }

// Call implements [tool.Plugin]. When ctx ends, the context of the call in the plugin ends as well. Call does not wait
// for the handler in the plugin.
func (c *legacyClient) Call(ctx context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
	r, err := c.rpc.Run(ctx, &toolpbv1.RunRequest{
		Tool: call.Tool, Arguments: call.Arguments, SessionId: valid(call.SessionID), CallId: call.ID,
		Cwd: valid(call.Cwd),
	})
	switch {
	case ctx.Err() != nil:
		return tool.Failed(tool.AsError(context.Cause(ctx)).From(tool.SourceHost))
	case err != nil:
		return tool.Failed(callError(err))
	}
	data := bytes.TrimSpace(r.GetData())
	if len(data) > 0 && !json.Valid(data) {
		return tool.Failed(tool.Errorf(tool.Internal, "The plugin returned data that is not JSON. Report this to the plugin's author.").From(tool.SourcePlugin))
	}
	out := new(tool.Result)
	var text string
	switch {
	case len(data) == 0 || string(data) == "null":
	case json.Unmarshal(data, &text) == nil:
		out.Output = text
	default:
		out.Output, out.Data = string(data), data
	}
	if !r.GetSuccess() {
		why := r.GetError()
		if why == "" {
			why = call.Tool + " failed without an error message. Report this to the plugin's author."
		}
		out.Error = tool.Errorf(tool.ExecutionFailed, "%s", why).From(tool.SourceTool)
	}
	return out
}

// legacyPlugin implements go-plugin's interface for version 1 of the protocol. It implements only the host's end.
type legacyPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (legacyPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("toolrpc: version 1 of the protocol cannot be served, only version 2")
}

func (legacyPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &legacyClient{rpc: toolpbv1.NewPluginServiceClient(conn)}, nil
}
