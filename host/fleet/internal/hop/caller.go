package hop

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
)

// Caller is the other end of a call that runs here: the gateway and its client. It implements [host.Client]. A caller
// with a hold can lose its connection and come back, see [Holds].
type Caller struct {
	start   *fleetpb.Start
	cancel  context.CancelCauseFunc // cancels the call
	proceed chan struct{}

	sending sync.Mutex // held while a message is sent
	mu      sync.Mutex
	// stream is the connection with the caller. It is nil before the first one, and while the connection is lost.
	stream fleetpb.NodeService_ForwardServer
	last   uint32
	asks   map[uint32]*ask
	gone   bool // whether the caller does not come back
	// marks are the messages that a caller who comes back must get again: that the call is queued, that it began, and
	// how it ended.
	marks []*fleetpb.ForwardResponse
}

// ask is an open question to the client.
type ask struct {
	frame  *fleetpb.ForwardResponse
	answer chan *fleetpb.Answer
}

// ErrCallerGone means that the caller has no connection. It is the cause of the cancellation of a call whose caller
// does not come back.
var ErrCallerGone = errors.New("the gateway of the call is gone")

// NewCaller returns the caller of a call. The function cancel cancels the call.
func NewCaller(start *fleetpb.Start, cancel context.CancelCauseFunc) *Caller {
	return &Caller{start: start, cancel: cancel, proceed: make(chan struct{}, 1), asks: make(map[uint32]*ask)}
}

// Client returns the client of the call.
func (c *Caller) Client() host.Client {
	if c.start.GetAnswersRequests() {
		return &answering{c}
	}
	return c
}

// answering is a caller whose client can also answer requests of MCP servers.
type answering struct{ *Caller }

// AnswersRequests marks a client that can answer requests of MCP servers.
func (*answering) AnswersRequests() {}

// ReachesPerson reports whether a person can answer at once.
func (c *Caller) ReachesPerson() bool { return c.start.GetReachesPerson() }

// Decided reports whether permission requests are answered without a person.
func (c *Caller) Decided() bool { return c.start.GetDecided() }

// Parks reports whether a question goes to a person who may never come back with the answer.
func (c *Caller) Parks() bool { return c.start.GetParks() }

// send sends a message. Without a connection, it returns an error. The function note runs before, while no other
// message is sent. It can be nil.
func (c *Caller) send(m *fleetpb.ForwardResponse, note func()) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	if note != nil {
		note()
	}
	stream := c.stream
	c.mu.Unlock()
	if stream == nil {
		return ErrCallerGone
	}
	return stream.Send(m)
}

// mark sends a message that a caller who comes back gets again.
func (c *Caller) mark(m *fleetpb.ForwardResponse) error {
	return c.send(m, func() { c.marks = append(c.marks, m) })
}

// held reports whether the caller can come back.
func (c *Caller) held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start.GetHold() != "" && !c.gone
}

// Serve reads the messages on a connection of the caller, until it ends or the caller has the result. received reports
// whether the caller has the result. [Caller.Attach] must be called before.
func (c *Caller) Serve(stream fleetpb.NodeService_ForwardServer) (received bool) {
	defer c.detach(stream)
	for {
		m, err := stream.Recv()
		if err != nil {
			return false
		}
		switch x := m.GetFrame().(type) {
		case *fleetpb.ForwardRequest_Answer:
			c.answered(x.Answer)
		case *fleetpb.ForwardRequest_Proceed:
			select {
			case c.proceed <- struct{}{}:
			default:
			}
		case *fleetpb.ForwardRequest_Cancel:
			c.cancel(nil)
		case *fleetpb.ForwardRequest_Received:
			return true
		default:
			c.cancel(nil) // an unknown message ends the call
			return false
		}
	}
}

// Attach makes a stream the connection with the caller, and sends the marks and the open questions again.
func (c *Caller) Attach(stream fleetpb.NodeService_ForwardServer) {
	c.sending.Lock() // later messages come after these
	defer c.sending.Unlock()
	c.mu.Lock()
	c.stream = stream
	again := append([]*fleetpb.ForwardResponse(nil), c.marks...)
	for _, a := range c.asks {
		again = append(again, a.frame)
	}
	c.mu.Unlock()
	for _, m := range again {
		if stream.Send(m) != nil {
			return // Recv returns the error
		}
	}
}

// detach ends the use of a stream. A newer stream stays.
func (c *Caller) detach(stream fleetpb.NodeService_ForwardServer) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == stream {
		c.stream = nil
	}
}

// Leave ends the call, because the caller does not come back. Its open questions get no answer.
func (c *Caller) Leave() {
	c.mu.Lock()
	c.gone = true
	open := c.asks
	c.asks = make(map[uint32]*ask)
	c.mu.Unlock()
	for _, a := range open {
		close(a.answer)
	}
	c.cancel(ErrCallerGone)
}

func (c *Caller) answered(m *fleetpb.Answer) {
	c.mu.Lock()
	a := c.asks[m.GetId()]
	delete(c.asks, m.GetId())
	c.mu.Unlock()
	if a != nil {
		a.answer <- m
	}
}

// Queued sends to the caller that the call is queued.
func (c *Caller) Queued(native bool) {
	_ = c.mark(&fleetpb.ForwardResponse{
		Frame: &fleetpb.ForwardResponse_Queued{Queued: &fleetpb.Queued{Native: native}},
	}) // the error is ignored: the call ends, or the caller comes back
}

// Begun sends to the caller that the call begins. If waits is true, Begun waits until the caller has confirmed this.
func (c *Caller) Begun(ctx context.Context, name string, waits bool) error {
	if err := c.mark(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Begun{Begun: &fleetpb.Begun{Tool: name,
		Waits: waits}}}); err != nil && waits && !c.held() {
		return err
	}
	if !waits {
		return nil
	}
	select {
	case <-c.proceed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Result sends to the caller how the call ended.
func (c *Caller) Result(res *tool.Result) error {
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
	return c.mark(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Result{Result: out}})
}

// Refuse sends to the caller that nothing ran.
func (c *Caller) Refuse(m *fleetpb.Refusal) error {
	return c.mark(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Refusal{Refusal: m}})
}

// Progress implements [host.Client].
func (c *Caller) Progress(title string, metadata map[string]any) {
	b, _ := json.Marshal(metadata) // the error is ignored: the metadata is only shown
	_ = c.send(&fleetpb.ForwardResponse{
		Frame: &fleetpb.ForwardResponse_Progress{Progress: &fleetpb.Progress{Title: title, Metadata: b}},
	}, nil) // the connection is lost then
}

// Output implements [host.Client]. It blocks while the client of the gateway is slow. While the connection is lost, the
// output is not sent. It is also in the result.
func (c *Caller) Output(s tool.Stream, chunk []byte) {
	_ = c.send(&fleetpb.ForwardResponse{
		Frame: &fleetpb.ForwardResponse_Output{Output: &fleetpb.Output{Stream: int32(s), Chunk: chunk}},
	}, nil)
}

// Log implements tool.Logger.
func (c *Caller) Log(m tool.LogMessage) {
	if b, err := json.Marshal(m); err == nil {
		_ = c.send(&fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Log{Log: &fleetpb.Log{Message: b}}}, nil) // the connection is lost then
	}
}

// Ask implements [host.Client]. If the caller is gone, the answer is that there is nobody to ask.
func (c *Caller) Ask(ctx context.Context, question tool.Ask) (tool.Answer, error) {
	b, err := toolrpc.EncodeAsk(question)
	if err != nil {
		return tool.Answer{}, err
	}
	c.mu.Lock()
	c.last++
	id, gone := c.last, c.gone
	c.mu.Unlock()
	if gone {
		return nobody(), nil
	}
	a := &ask{frame: &fleetpb.ForwardResponse{Frame: &fleetpb.ForwardResponse_Ask{Ask: &fleetpb.Ask{Id: id, Ask: b}}},
		answer: make(chan *fleetpb.Answer, 1)}
	if err := c.send(a.frame, func() { c.asks[id] = a }); err != nil && !c.held() {
		return nobody(), nil // the caller is gone
	}
	select {
	case m, ok := <-a.answer:
		switch {
		case !ok:
			return nobody(), nil
		case m.GetError() != "":
			return tool.Answer{}, errors.New(m.GetError())
		}
		out, err := toolrpc.DecodeAnswer(m.GetAnswer())
		out.By = m.GetBy()
		return out, err
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
