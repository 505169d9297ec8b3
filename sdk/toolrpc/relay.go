package toolrpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"toolhost.dev/sdk/rawjson"
	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// hostCapabilities are the capabilities that the host sends to plugins.
var hostCapabilities = []string{
	tool.CapabilityRequests, tool.CapabilityRelay, tool.CapabilityToolCalls, tool.CapabilityLargeResults,
}

// relayServer is the plugin's end of the relay.
type relayServer struct {
	toolpb.UnimplementedRelayServiceServer
	server *server
	impl   tool.Relay
}

// Exchange implements the service. The server handles an exchange like a call; only the messages of the stream differ.
func (s *relayServer) Exchange(stream grpc.BidiStreamingServer[toolpb.ExchangeRequest, toolpb.ExchangeResponse]) error {
	return s.server.serveCall(&exchangeStream{stream}, s.impl.Exchange)
}

// exchangeStream adapts the plugin's stream of an exchange to the interface callStream.
type exchangeStream struct {
	grpc.BidiStreamingServer[toolpb.ExchangeRequest, toolpb.ExchangeResponse]
}

func (s *exchangeStream) Send(m *toolpb.CallResponse) error {
	return s.BidiStreamingServer.Send(&toolpb.ExchangeResponse{Message: m})
}

func (s *exchangeStream) Recv() (*toolpb.CallRequest, error) {
	m, err := s.BidiStreamingServer.Recv()
	if err != nil {
		return nil, err
	}
	return m.GetMessage(), nil
}

// Listen implements the service.
func (s *relayServer) Listen(_ *toolpb.ListenRequest, stream grpc.ServerStreamingServer[toolpb.ListenResponse]) error {
	return s.impl.Listen(stream.Context(), func(n tool.Notification) {
		_ = stream.Send(&toolpb.ListenResponse{
			Method: valid(n.Method), Params: n.Params, SessionId: valid(n.SessionID),
		}) // ignore the error: it means that the host no longer listens
	})
}

// Listen implements [tool.Relay] for plugins with [tool.CapabilityRelay].
func (c *Client) Listen(ctx context.Context, notify func(tool.Notification)) error {
	stream, err := c.relay.Listen(ctx, &toolpb.ListenRequest{})
	if err != nil {
		return callError(err)
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled:
			return nil
		case err != nil:
			return callError(err)
		}
		notify(tool.Notification{Method: m.GetMethod(), Params: validJSON(m.GetParams()), SessionID: m.GetSessionId()})
	}
}

// Exchange implements [tool.Relay] for plugins with [tool.CapabilityRelay].
func (c *Client) Exchange(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	return c.Call(ctx, call, peer)
}

// exchange opens the stream of an exchange and returns it as a line.
func (c *Client) exchange(ctx context.Context) (line, error) {
	streamCtx, cut := context.WithCancel(context.WithoutCancel(ctx)) // see Client.line
	stream, err := c.relay.Exchange(streamCtx)
	if err != nil {
		cut()
		return nil, err
	}
	return &ownLine{stream: &clientExchange{stream}, cancel: cut}, nil
}

// clientExchange adapts the host's stream of an exchange to the stream of a call.
type clientExchange struct {
	grpc.BidiStreamingClient[toolpb.ExchangeRequest, toolpb.ExchangeResponse]
}

func (s *clientExchange) Send(m *toolpb.CallRequest) error {
	return s.BidiStreamingClient.Send(&toolpb.ExchangeRequest{Message: m})
}

func (s *clientExchange) Recv() (*toolpb.CallResponse, error) {
	m, err := s.BidiStreamingClient.Recv()
	if err != nil {
		return nil, err
	}
	return m.GetMessage(), nil
}

func itemToPB(i tool.Item) *toolpb.Item {
	return &toolpb.Item{Kind: valid(string(i.Kind)), Name: valid(i.Name), Definition: i.Definition}
}

// itemsFromPB returns the items of known kinds whose definitions are JSON.
func itemsFromPB(items []*toolpb.Item) []tool.Item {
	var out []tool.Item
	for _, i := range items {
		kind := tool.ItemKind(i.GetKind())
		switch kind {
		case tool.ItemPrompt, tool.ItemResource, tool.ItemTemplate:
			if i.GetName() == "" || !rawjson.Valid(i.GetDefinition()) {
				continue
			}
		case tool.ItemCompletion, tool.ItemLogging, tool.ItemSubscription:
		default:
			continue
		}
		out = append(out, tool.Item{Kind: kind, Name: i.GetName(), Definition: compact(i.GetDefinition())})
	}
	return out
}

func clientToPB(c *tool.ClientInfo) *toolpb.Client {
	if c == nil {
		return nil
	}
	return &toolpb.Client{Capabilities: c.Capabilities, LogLevel: valid(c.LogLevel), Protocol: valid(c.Protocol)}
}

func clientFromPB(c *toolpb.Client) *tool.ClientInfo {
	if c == nil {
		return nil
	}
	return &tool.ClientInfo{
		Capabilities: validJSON(c.GetCapabilities()), LogLevel: c.GetLogLevel(), Protocol: c.GetProtocol(),
	}
}

func requestToPB(r tool.ClientRequest) *toolpb.ClientRequest {
	return &toolpb.ClientRequest{Key: valid(r.Key), Method: valid(r.Method), Params: r.Params}
}

func requestFromPB(r *toolpb.ClientRequest) tool.ClientRequest {
	return tool.ClientRequest{Key: r.GetKey(), Method: r.GetMethod(), Params: validJSON(r.GetParams())}
}

func contentToPB(c tool.Content) *toolpb.Content {
	return &toolpb.Content{Text: uint32(max(0, c.Text)), Attachment: uint32(max(0, c.Attachment)), Block: c.Block}
}

func contentFromPB(c *toolpb.Content) tool.Content {
	return tool.Content{Text: int(c.GetText()), Attachment: int(c.GetAttachment()), Block: validJSON(c.GetBlock())}
}

// validJSON returns nil if raw is empty or not JSON.
func validJSON(raw []byte) json.RawMessage {
	if len(raw) == 0 || !rawjson.Valid(raw) {
		return nil
	}
	return raw
}
