package hop

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
)

// Sender is a connection of a gateway to the node of a call.
type Sender interface {
	Send(m *fleetpb.ForwardRequest) error
	Recv() (*fleetpb.ForwardResponse, error)
}

// Call is a call that runs on another node. [Call.Receive] passes its messages on to the client.
type Call struct {
	client host.Client
	queued func()

	mu      sync.Mutex
	stream  Sender
	heard   int // number of messages of the other node
	began   bool
	tool    string
	answers map[uint32]*fleetpb.Answer // by the id of the ask; nil while the client is asked
}

// NewCall returns a call for a client. The function queued is called when the other node has queued the call.
func NewCall(client host.Client, queued func()) *Call {
	return &Call{client: client, queued: queued, answers: make(map[uint32]*fleetpb.Answer)}
}

// hear counts a message of the other node.
func (c *Call) hear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard++
}

// Heard returns the number of messages that the other node has sent about the call, on all connections.
func (c *Call) Heard() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// Began returns whether the call has begun, and the tool that it runs.
func (c *Call) Began() (began bool, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.began, c.tool
}

// Send sends a message to the other node. [Call.Use] must be called before.
func (c *Call) Send(m *fleetpb.ForwardRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream.Send(m)
}

// Cancel cancels the call.
func (c *Call) Cancel() {
	_ = c.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Cancel{Cancel: &fleetpb.Cancel{}}}) // the error is ignored: the connection is lost then
}

// CancelPatience is how long a canceled call may take to end.
const CancelPatience = 2 * time.Second

// Use makes a stream the connection of the call, and sends the first message on it. The answer to a question that was
// asked on an earlier connection comes after that.
func (c *Call) Use(stream Sender, start *fleetpb.Start) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = stream
	return stream.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Start{Start: start}})
}

// Receive passes the messages of the other node on to the client. It returns the message that ends the call: the
// result, a refusal, or one that this version does not know. If the connection is lost, it returns an error. The
// client is asked until ctx ends, so the caller must end ctx when the call has ended.
func (c *Call) Receive(ctx context.Context, stream Sender) (end *fleetpb.ForwardResponse, err error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		c.hear()
		switch x := m.GetFrame().(type) {
		case *fleetpb.ForwardResponse_Queued:
			c.queued()
		case *fleetpb.ForwardResponse_Begun:
			c.mu.Lock()
			c.began, c.tool = true, x.Begun.GetTool()
			c.mu.Unlock()
			if x.Begun.GetWaits() {
				_ = c.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Proceed{Proceed: &fleetpb.Proceed{}}}) // the error is ignored: the next Recv returns it
			}
		case *fleetpb.ForwardResponse_Progress:
			var metadata map[string]any
			_ = json.Unmarshal(x.Progress.GetMetadata(), &metadata) // the error is ignored: the metadata is only shown
			c.client.Progress(x.Progress.GetTitle(), metadata)
		case *fleetpb.ForwardResponse_Output:
			c.client.Output(tool.Stream(x.Output.GetStream()), x.Output.GetChunk())
		case *fleetpb.ForwardResponse_Ask:
			c.asked(ctx, x.Ask)
		case *fleetpb.ForwardResponse_Log:
			var l tool.LogMessage
			if json.Unmarshal(x.Log.GetMessage(), &l) == nil {
				host.Log(c.client, l)
			}
		default:
			return m, nil
		}
	}
}

// asked lets the client answer a question. If the connection was lost meanwhile, the other node asks again, and gets
// the answer of the client to the first time.
func (c *Call) asked(ctx context.Context, m *fleetpb.Ask) {
	c.mu.Lock()
	reply, again := c.answers[m.GetId()]
	if !again {
		c.answers[m.GetId()] = nil
	}
	c.mu.Unlock()
	switch {
	case !again:
		go c.answer(ctx, m)
	case reply != nil:
		_ = c.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Answer{Answer: reply}}) // the error is ignored: the next Recv returns it
	}
}

// answer asks the client, and sends its answer.
func (c *Call) answer(ctx context.Context, m *fleetpb.Ask) {
	reply := &fleetpb.Answer{Id: m.GetId()}
	ask, err := toolrpc.DecodeAsk(m.GetAsk())
	if err == nil {
		var a tool.Answer
		if a, err = c.client.Ask(ctx, ask); err == nil {
			reply.By = a.By
			reply.Answer, err = toolrpc.EncodeAnswer(a)
		}
	}
	if err != nil {
		reply.Error = err.Error()
	}
	c.mu.Lock()
	c.answers[m.GetId()] = reply
	c.mu.Unlock()
	_ = c.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Answer{Answer: reply}}) // the error is ignored: the other node asks again, or the call has ended
}

// Result returns the result in a message.
func Result(m *fleetpb.Result) (*tool.Result, error) {
	res, err := toolrpc.DecodeResult(m.GetResult())
	if err == nil && len(m.GetRun()) > 0 {
		err = json.Unmarshal(m.GetRun(), &res.Run)
	}
	if err != nil {
		return nil, err
	}
	if res.Error != nil {
		res.Error = res.Error.From(tool.Source(m.GetErrorSource()))
	}
	return res, nil
}

// Silent is the client that is used for a request without a client.
type Silent struct{}

// Progress implements [host.Client].
func (Silent) Progress(string, map[string]any) {}

// Output implements [host.Client].
func (Silent) Output(tool.Stream, []byte) {}

// Ask implements [host.Client].
func (Silent) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{Outcome: tool.NobodyToAsk, Message: "there is nobody to ask"}, nil
}
