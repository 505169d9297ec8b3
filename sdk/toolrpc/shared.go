package toolrpc

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// sharedStream is the host's end of one stream that many calls share. Sharing saves the cost of opening a stream,
// which is a quarter of the time of a short call.
//
// The goroutine that receives messages never waits for a call. It queues messages until their call reads them.
type sharedStream struct {
	takes func(tool string) bool // reports whether the calls of a tool use the shared stream

	opening sync.Mutex

	mu   sync.Mutex
	open *openStream // nil if no stream is open
	last uint64      // ID of the last call
}

// openStream is an open stream.
type openStream struct {
	grpc.BidiStreamingClient[toolpb.CallsRequest, toolpb.CallsResponse]
	cancel context.CancelFunc
	calls  map[uint64]*sharedLine // guarded by sharedStream.mu

	sending sync.Mutex   // locked during Send, which is not safe for concurrent use
	since   atomic.Int64 // start time of the running Send in Unix nanoseconds; 0 if no Send is running
}

func (o *openStream) send(m *toolpb.CallsRequest) error {
	o.sending.Lock()
	defer o.sending.Unlock()
	o.since.Store(time.Now().UnixNano())
	defer o.since.Store(0)
	return o.Send(m)
}

// stuckTime is how long a plugin can take to accept a message.
const stuckTime = time.Second

// stuck reports whether the plugin has not accepted the current message within stuckTime.
func (o *openStream) stuck() bool {
	since := o.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > stuckTime
}

// The following constants limit the queue of a call that does not read its messages. If the queue exceeds a limit, new
// output and progress reports are dropped, because the call succeeds without them.
const (
	maxKept      = 10_000  // maximum number of messages
	maxKeptBytes = 4 << 20 // maximum size of the output in bytes
)

var errStuck = status.Error(codes.Unavailable, "the stream to the plugin was closed because the plugin read no messages; the next call opens a new stream")

// share makes the calls of read-only tools use one stream if the plugin supports shared streams. Such calls are usually
// short. If a large result blocks the stream for other calls, no harm is done.
func (c *Client) share(d *tool.Description) {
	if c.shared.Load() != nil || !slices.Contains(d.Capabilities, tool.CapabilityCalls) {
		return
	}
	short := make(map[string]bool)
	for _, t := range d.Tools {
		short[t.Name] = t.Traits.ReadOnly && t.Traits.ConcurrencySafe
	}
	c.shared.CompareAndSwap(nil, &sharedStream{takes: func(name string) bool { return short[name] }})
}

// begin adds a call to the shared stream. If no stream is open, begin opens one.
func (s *sharedStream) begin(rpc toolpb.PluginServiceClient) (line, error) {
	if l := s.add(); l != nil {
		return l, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if l := s.add(); l != nil {
		return l, nil
	}
	ctx, cancel := context.WithCancel(context.Background()) // the stream ends with the connection, not with a call
	stream, err := rpc.Calls(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	o := &openStream{BidiStreamingClient: stream, cancel: cancel, calls: make(map[uint64]*sharedLine)}
	s.mu.Lock()
	s.open = o
	s.mu.Unlock()
	l := s.add()
	go s.receive(o)
	return l, nil
}

// add creates the line of a new call. If no stream is open, it returns nil.
func (s *sharedStream) add() *sharedLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil
	}
	s.last++
	l := &sharedLine{shared: s, stream: s.open, id: s.last, ready: make(chan struct{}, 1)}
	s.open.calls[l.id] = l
	return l
}

// receive distributes the plugin's messages to the calls until the stream ends.
func (s *sharedStream) receive(o *openStream) {
	for {
		m, err := o.Recv()
		if err != nil {
			s.close(o, err)
			return
		}
		s.mu.Lock()
		l := o.calls[m.GetCall()]
		s.mu.Unlock()
		if l != nil && m.GetMessage() != nil { // l is nil if the call was abandoned
			l.keep(m.GetMessage())
		}
	}
}

// close ends a stream and fails its calls with err. The next call opens a new stream.
func (s *sharedStream) close(o *openStream, err error) {
	o.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == o {
		s.open = nil
	}
	for _, l := range o.calls {
		l.fail(err)
	}
	clear(o.calls)
}

// sharedLine is one call on the shared stream.
type sharedLine struct {
	shared *sharedStream
	stream *openStream
	id     uint64

	ready chan struct{} // receives a value when the queue has new messages
	mu    sync.Mutex
	kept  []*toolpb.CallResponse
	bytes int // total size of the output in the queue
	err   error
}

func (l *sharedLine) send(m *toolpb.CallRequest) error {
	return l.stream.send(&toolpb.CallsRequest{Call: l.id, Message: m})
}

// keep adds a message to the queue of the call. If the queue is full, keep drops the message if it is output or a
// progress report.
func (l *sharedLine) keep(m *toolpb.CallResponse) {
	l.mu.Lock()
	output, dispensable := len(m.GetOutput().GetChunk()), m.GetOutput() != nil || m.GetProgress() != nil
	if !dispensable || len(l.kept) < maxKept && l.bytes+output <= maxKeptBytes {
		l.kept = append(l.kept, m)
		l.bytes += output
	}
	l.mu.Unlock()
	l.wake()
}

func (l *sharedLine) fail(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.mu.Unlock()
	l.wake()
}

func (l *sharedLine) wake() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

func (l *sharedLine) recv() (*toolpb.CallResponse, error) {
	for {
		l.mu.Lock()
		if len(l.kept) > 0 {
			m := l.kept[0]
			l.kept = l.kept[1:]
			l.bytes -= len(m.GetOutput().GetChunk())
			l.mu.Unlock()
			return m, nil
		}
		err := l.err
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		<-l.ready
	}
}

func (l *sharedLine) end() {
	l.shared.mu.Lock()
	delete(l.stream.calls, l.id)
	l.shared.mu.Unlock()
}

func (l *sharedLine) cut() {
	l.end()
	l.fail(status.Error(codes.Canceled, "the call was abandoned"))
	closeStuck := func() {
		if l.stream.stuck() {
			l.shared.close(l.stream, errStuck)
		}
	}
	closeStuck()
	// The Send of this call possibly began so late that it does not count as stuck yet. Therefore check again after
	// stuckTime.
	time.AfterFunc(stuckTime+stuckTime/10, closeStuck)
}
