package toolrpc

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"google.golang.org/grpc"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// relayed is a test plugin with a relay.
type relayed struct {
	fake
	listen func(ctx context.Context, notify func(tool.Notification)) error
}

func (r *relayed) Exchange(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	return r.call(ctx, call, peer)
}

func (r *relayed) Listen(ctx context.Context, notify func(tool.Notification)) error {
	return r.listen(ctx, notify)
}

// logged is a peer that answers requests and keeps log messages.
type logged struct {
	recorder
	messages []tool.LogMessage
}

func (l *logged) Log(m tool.LogMessage) { l.messages = append(l.messages, m) }

func connectRelay(t *testing.T, impl *relayed) *Client {
	t.Helper()
	return serveInMemory(t, func(s *grpc.Server) {
		p := &grpcPlugin{impl: impl}
		if err := p.GRPCServer(nil, s); err != nil {
			t.Fatal(err)
		}
	})
}

func TestExchange(t *testing.T) {
	requests := []tool.ClientRequest{{Key: "a", Method: tool.MethodElicit, Params: json.RawMessage(`{"message":"?"}`)}, {Key: "b", Method: tool.MethodRoots}}
	impl := &relayed{fake: fake{desc: &tool.Description{Name: "r", Version: "1", Items: []tool.Item{
		{Kind: tool.ItemPrompt, Name: "p", Definition: json.RawMessage(`{"name":"p"}`)}, {Kind: tool.ItemLogging},
		{Kind: "later", Name: "x"}, {Kind: tool.ItemResource, Definition: json.RawMessage(`{}`)}, {Kind: tool.ItemTemplate, Name: "t", Definition: json.RawMessage(`{`)},
	}}}}
	impl.call = func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		peer.(tool.Logger).Log(tool.LogMessage{Level: "info", Logger: "l", Data: json.RawMessage(`{"n":1}`)})
		a, err := peer.Ask(ctx, tool.Ask{Requests: requests})
		if err != nil {
			return tool.Failed(err)
		}
		if a.Outcome != tool.Accepted {
			return tool.Failed(tool.Errorf(tool.ExecutionFailed, "%s", a.Message))
		}
		return &tool.Result{Data: json.RawMessage(`{"method":"` + call.Method + `","answer":` + string(a.Content) + `}`)}
	}
	c := connectRelay(t, impl)
	var asked tool.Ask
	peer := &logged{recorder: recorder{ask: func(_ context.Context, a tool.Ask) (tool.Answer, error) {
		asked = a
		return tool.Answer{Outcome: tool.Accepted, Content: json.RawMessage(`{"a":{"action":"accept"}}`)}, nil
	}}}
	call := &tool.Call{Method: "prompts/get", Arguments: json.RawMessage(`{}`)}
	// A plugin must not send requests to a host that did not announce them.
	if res := c.Exchange(t.Context(), call, peer); res.Error == nil || asked.Requests != nil {
		t.Errorf("an older host is asked: %+v", res)
	}
	d, err := c.Describe(t.Context())
	if err != nil || len(d.Items) != 2 || !reflect.DeepEqual(d.Items, impl.desc.Items[:2]) {
		t.Errorf("%+v, %v", d, err)
	}
	res := c.Exchange(t.Context(), call, peer)
	if res.Error != nil || string(res.Data) != `{"method":"prompts/get","answer":{"a":{"action":"accept"}}}` {
		t.Errorf("%s, %v", res.Data, res.Error)
	}
	if !reflect.DeepEqual(asked.Requests, requests) || len(peer.messages) != 2 || !reflect.DeepEqual(peer.messages[1], tool.LogMessage{Level: "info", Logger: "l", Data: json.RawMessage(`{"n":1}`)}) {
		t.Errorf("%+v %+v", asked, peer.messages)
	}
}

func TestListen(t *testing.T) {
	sent := tool.Notification{Method: tool.NotifyResourceUpdated, Params: json.RawMessage(`{"uri":"x:y"}`), SessionID: "s"}
	ended := make(chan struct{})
	c := connectRelay(t, &relayed{listen: func(ctx context.Context, notify func(tool.Notification)) error {
		notify(sent)
		<-ctx.Done()
		close(ended)
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Listen(ctx, func(n tool.Notification) {
		if !reflect.DeepEqual(n, sent) {
			t.Errorf("%+v", n)
		}
		cancel()
	}); err != nil {
		t.Error(err)
	}
	<-ended
	// A plugin without this service must answer with an error.
	if err := connect(t, toolpb.UnimplementedPluginServiceServer{}).Listen(t.Context(), nil); err == nil {
		t.Error("a plugin without a relay is listened to")
	}
}
