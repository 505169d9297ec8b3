package toolrpc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"toolhost.dev/sdk/crew"
	"toolhost.dev/sdk/internal/lazyctx"
	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

var errHostGone = errors.New("toolrpc: the host ended the call")

// server serves a [tool.Plugin] over gRPC.
type server struct {
	toolpb.UnimplementedPluginServiceServer
	impl tool.Plugin
	// requests, toolCalls and largeResults report whether the host accepts asks of the kinds ClientRequests, ToolCall
	// and Announce.
	requests, toolCalls, largeResults atomic.Bool
}

func (s *server) Describe(ctx context.Context, r *toolpb.DescribeRequest) (*toolpb.DescribeResponse, error) {
	s.requests.Store(slices.Contains(r.GetCapabilities(), tool.CapabilityRequests))
	s.toolCalls.Store(slices.Contains(r.GetCapabilities(), tool.CapabilityToolCalls))
	s.largeResults.Store(slices.Contains(r.GetCapabilities(), tool.CapabilityLargeResults))
	d, err := s.impl.Describe(ctx)
	if err != nil {
		return nil, err
	}
	return descriptionToPB(d), nil
}

func (s *server) Configure(ctx context.Context, r *toolpb.ConfigureRequest) (*toolpb.ConfigureResponse, error) {
	diags, err := s.impl.Configure(ctx, tool.Configuration{
		Config: r.GetConfig(), Roots: mapSlice(r.GetRoots(), rootFromPB), StateDir: r.GetStateDir(),
		OutputBytes: r.GetOutputBytes(),
		HostVersion: r.GetHostVersion(),
	})
	if err != nil {
		return nil, err
	}
	return &toolpb.ConfigureResponse{Diagnostics: mapSlice(diags, diagnosticToPB)}, nil
}

func (s *server) Health(ctx context.Context, r *toolpb.HealthRequest) (*toolpb.HealthResponse, error) {
	h, err := s.impl.Health(ctx, r.GetTool())
	if err != nil {
		return nil, err
	}
	return &toolpb.HealthResponse{Status: healths.toPB[h.Status], Message: valid(h.Message), Details: h.Details}, nil
}

func (s *server) Drain(ctx context.Context, r *toolpb.DrainRequest) (*toolpb.DrainResponse, error) {
	n, err := s.impl.Drain(ctx, time.Duration(r.GetGraceMs())*time.Millisecond)
	if err != nil {
		return nil, err
	}
	return &toolpb.DrainResponse{Canceled: int32(n)}, nil
}

func (s *server) Hook(ctx context.Context, r *toolpb.HookRequest) (*toolpb.HookResponse, error) {
	h, ok := s.impl.(tool.Hook)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "the plugin serves no hooks")
	}
	a, err := h.Hook(ctx, hookInputFromPB(r))
	if err != nil {
		return nil, err
	}
	return hookAnswerToPB(a), nil
}

func (s *server) Invalidate(ctx context.Context, r *toolpb.InvalidateRequest) (*toolpb.InvalidateResponse, error) {
	v, ok := s.impl.(tool.Invalidator)
	if !ok {
		return nil, status.Error(codes.Unimplemented, "the plugin does not receive reports of changed files")
	}
	i := tool.Invalidation{All: r.GetAll()}
	for _, p := range r.GetPaths() {
		i.Paths = append(i.Paths, string(p))
	}
	return new(toolpb.InvalidateResponse), v.Invalidate(ctx, i)
}

func (s *server) Call(stream grpc.BidiStreamingServer[toolpb.CallRequest, toolpb.CallResponse]) error {
	return s.serveCall(stream, s.impl.Call)
}

// callStream is the plugin's end of the stream of a call.
type callStream interface {
	Context() context.Context
	Send(m *toolpb.CallResponse) error
	Recv() (*toolpb.CallRequest, error)
}

// serveCall serves a call on a stream of its own.
func (s *server) serveCall(stream callStream, call func(context.Context, *tool.Call, tool.Peer) *tool.Result) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return status.Error(codes.InvalidArgument, "the first message of a call must be Start")
	}
	p := &hostPeer{server: s, out: stream.Send, done: stream.Context().Done()}
	ctx := lazyctx.New(stream.Context(), deadlineOf(start), func() { p.listen() })
	defer ctx.Cancel(errHostGone)
	p.listen = sync.OnceFunc(func() { go p.receive(stream, ctx.Cancel) })
	return p.finish(cmp.Or(start.GetTool(), start.GetMethod()), call(ctx, callFromPB(start), p))
}

// deadlineOf returns the deadline of a call, or the zero time if the call has no deadline. The deadline is only
// information for the tool, because the host enforces it.
func deadlineOf(start *toolpb.Start) time.Time {
	if ms := start.GetTimeoutMs(); ms > 0 {
		return time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	return time.Time{}
}

// Calls serves many calls on one stream, concurrently or one after the other.
func (s *server) Calls(stream grpc.BidiStreamingServer[toolpb.CallsRequest, toolpb.CallsResponse]) error {
	var sending, mu sync.Mutex
	type running struct {
		peer *hostPeer
		ctx  *lazyctx.Context
	}
	calls := make(map[uint64]running)
	var workers crew.Crew
	defer func() {
		workers.Dismiss()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range calls {
			c.ctx.Cancel(errHostGone)
		}
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil // return nil, because the host has exited and cannot receive an error
		}
		id := m.GetCall()
		start := m.GetMessage().GetStart()
		if start == nil {
			mu.Lock()
			c, ok := calls[id]
			mu.Unlock()
			if ok { // ok is false if the call has already ended
				c.peer.hear(m.GetMessage(), c.ctx.Cancel)
			}
			continue
		}
		p := &hostPeer{server: s, done: stream.Context().Done(), listen: func() {},
			out: func(m *toolpb.CallResponse) error {
				sending.Lock()
				defer sending.Unlock()
				return stream.Send(&toolpb.CallsResponse{Call: id, Message: m})
			}}
		ctx := lazyctx.New(stream.Context(), deadlineOf(start), nil)
		mu.Lock()
		calls[id] = running{p, ctx}
		mu.Unlock()
		workers.Go(func() {
			var res *tool.Result
			defer func() {
				_ = p.finish(start.GetTool(), res) // ignore the error: it means that the host no longer waits for the result
				mu.Lock()
				delete(calls, id)
				mu.Unlock()
				ctx.Cancel(errHostGone)
			}()
			res = s.impl.Call(ctx, callFromPB(start), p)
		})
	}
}

// hostPeer represents the host for a running call.
type hostPeer struct {
	out    func(*toolpb.CallResponse) error
	done   <-chan struct{}
	listen func() // starts the goroutine that receives the host's messages
	server *server

	sendMu   sync.Mutex
	finished bool

	waitMu  sync.Mutex
	lastID  uint32
	waiting map[uint32]chan *toolpb.CallRequest
}

// receive handles the host's messages until the stream ends.
func (p *hostPeer) receive(stream callStream, cancel func(error)) {
	for {
		m, err := stream.Recv()
		if err != nil {
			// The host keeps its end of the stream open until it has the result. Therefore an error means that the
			// host has exited.
			cancel(errHostGone)
			return
		}
		p.hear(m, cancel)
	}
}

func (p *hostPeer) hear(m *toolpb.CallRequest, cancel func(error)) {
	switch m := m.GetMessage().(type) {
	case *toolpb.CallRequest_Cancel:
		if m.Cancel.GetReason() == toolpb.Cancel_REASON_DEADLINE {
			cancel(context.DeadlineExceeded)
		} else {
			cancel(context.Canceled)
		}
	case *toolpb.CallRequest_Answer:
		p.deliver(m.Answer.GetAskId(), &toolpb.CallRequest{Message: m})
	case *toolpb.CallRequest_FileStates:
		p.deliver(m.FileStates.GetQueryId(), &toolpb.CallRequest{Message: m})
	}
}

func (p *hostPeer) deliver(id uint32, m *toolpb.CallRequest) {
	p.waitMu.Lock()
	ch := p.waiting[id]
	delete(p.waiting, id)
	p.waitMu.Unlock()
	if ch != nil {
		ch <- m
	}
}

// exchange sends a message to the host and waits for the answer. The function "build" creates the message with a new
// ID.
func (p *hostPeer) exchange(ctx context.Context,
	build func(id uint32) (*toolpb.CallResponse, error)) (*toolpb.CallRequest, error) {
	ch := make(chan *toolpb.CallRequest, 1)
	p.waitMu.Lock()
	p.lastID++
	id := p.lastID
	if p.waiting == nil {
		p.waiting = make(map[uint32]chan *toolpb.CallRequest)
	}
	p.waiting[id] = ch
	p.waitMu.Unlock()
	defer func() {
		p.waitMu.Lock()
		delete(p.waiting, id)
		p.waitMu.Unlock()
	}()
	m, err := build(id)
	if err != nil {
		return nil, err
	}
	p.listen()
	if err := p.send(m); err != nil {
		return nil, err
	}
	select {
	case m := <-ch:
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.done:
		return nil, errHostGone
	}
}

func (p *hostPeer) send(m *toolpb.CallResponse) error {
	p.sendMu.Lock()
	defer p.sendMu.Unlock()
	if p.finished {
		return errors.New("toolrpc: no message can be sent after the call has returned")
	}
	return p.out(m)
}

// finish sends the result. A nil result means that the handler ended its goroutine by runtime.Goexit.
func (p *hostPeer) finish(name string, res *tool.Result) error {
	if res == nil {
		res = tool.Failed(tool.Errorf(tool.Internal, "%s ended without a result (runtime.Goexit). Report this to the plugin's author.", name).From(tool.SourcePlugin))
	}
	r := resultToPB(res)
	switch size := proto.Size(r); {
	case size > MaxMessageSize-envelope:
		r = resultToPB(tool.Failed(tooLarge(name, size)))
	case size > largeSize && p.server.largeResults.Load():
		r = p.sendParts(r, size)
	}
	p.sendMu.Lock()
	defer p.sendMu.Unlock()
	p.finished = true
	return p.out(&toolpb.CallResponse{Message: &toolpb.CallResponse_Result{Result: r}})
}

// envelope is the maximum number of bytes that the messages around it add to a result.
const envelope = 32

func tooLarge(name string, size int) *tool.Error {
	return tool.Errorf(tool.ExecutionFailed, "The result of %s is %.1f MB; at most %d MB can be returned. Ask for less in one call, or let the tool write to a file.",
		name, float64(size)/1e6, MaxMessageSize/1_000_000)
}

// KeepsDirectory implements [tool.DirectoryKeeper].
func (p *hostPeer) KeepsDirectory() {
	_ = p.send(&toolpb.CallResponse{
		Message: &toolpb.CallResponse_Progress{Progress: &toolpb.Progress{KeepsDirectory: true}},
	}) // ignore the error: without this message, other calls only start later
}

func (p *hostPeer) Progress(title string, metadata map[string]any) {
	_ = p.send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Progress{
		Progress: &toolpb.Progress{Title: valid(title), Metadata: jsonObject(metadata)},
	}})
}

// Log implements [tool.Logger].
func (p *hostPeer) Log(m tool.LogMessage) {
	_ = p.send(&toolpb.CallResponse{
		Message: &toolpb.CallResponse_Log{
			Log: &toolpb.Log{Level: valid(m.Level), Logger: valid(m.Logger), Data: m.Data},
		},
	})
}

// maxChunk is the maximum number of bytes in one Output message. It is far below the message limit.
const maxChunk = 256 << 10

func (p *hostPeer) Output(s tool.Stream, chunk []byte) {
	stream := toolpb.Output_STREAM_STDOUT
	if s == tool.Stderr {
		stream = toolpb.Output_STREAM_STDERR
	}
	for len(chunk) > 0 {
		n := min(len(chunk), maxChunk)
		if err := p.send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Output{
			Output: &toolpb.Output{Stream: stream, Chunk: chunk[:n]},
		}}); err != nil {
			return
		}
		chunk = chunk[n:]
	}
}

func (p *hostPeer) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	if len(ask.Requests) > 0 && !p.server.requests.Load() {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: "this version of the host cannot pass on requests to the client"}, nil
	}
	if ask.Call != nil && !p.server.toolCalls.Load() {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: "this version of the host does not let plugins call tools"}, nil
	}
	m, err := p.exchange(ctx, func(id uint32) (*toolpb.CallResponse, error) {
		a, err := askToPB(id, ask)
		return &toolpb.CallResponse{Message: &toolpb.CallResponse_Ask{Ask: a}}, err
	})
	if err != nil {
		return tool.Answer{}, err
	}
	return answerFromPB(m.GetAnswer()), nil
}

func (p *hostPeer) FileStates(ctx context.Context, paths ...string) (map[string]tool.FileState, error) {
	m, err := p.exchange(ctx, func(id uint32) (*toolpb.CallResponse, error) {
		return &toolpb.CallResponse{Message: &toolpb.CallResponse_FileStateQuery{
			FileStateQuery: &toolpb.FileStateQuery{Id: id, Paths: mapSlice(paths, valid)},
		}}, nil
	})
	if err != nil {
		return nil, err
	}
	states := make(map[string]tool.FileState, len(paths))
	for _, s := range m.GetFileStates().GetStates() {
		states[s.GetPath()] = fileStateFromPB(s)
	}
	return states, nil
}
