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

// sharedStream is the host's end of the one stream that carries many calls. It saves the cost of
// making a stream, a quarter of a short call.
//
// Reading from it never waits for a call. Messages that a call does not take yet are kept for it.
type sharedStream struct {
	takes func(tool string) bool // reports whether calls of the tool use it

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

	sending sync.Mutex   // one Send at a time
	since   atomic.Int64 // when the Send under way began, in ns; 0 if none is
}

func (o *openStream) send(m *toolpb.CallsRequest) error {
	o.sending.Lock()
	defer o.sending.Unlock()
	o.since.Store(time.Now().UnixNano())
	defer o.since.Store(0)
	return o.Send(m)
}

// stuckTime is how long a plugin may take to accept a message.
const stuckTime = time.Second

// stuck reports whether the plugin has not accepted a message for stuckTime.
func (o *openStream) stuck() bool {
	since := o.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > stuckTime
}

// Limits for the messages kept for a call that does not read them. Beyond them, messages that may be dropped are
// dropped.
const (
	maxKept      = 10_000  // events
	maxKeptBytes = 4 << 20 // of output
)

var errStuck = status.Error(codes.Unavailable, "the stream to the plugin was closed because the plugin read no messages; the next call opens a new stream")

// share sends calls of read-only tools over one stream, if the plugin supports that. These calls
// are usually short, and one that blocks the stream by a large result does no harm.
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

// begin adds a call to the stream, and opens the stream if necessary.
func (s *sharedStream) begin(rpc toolpb.PluginServiceClient) (line, error) {
	if l := s.add(); l != nil {
		return l, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if l := s.add(); l != nil {
		return l, nil
	}
	ctx, cancel := context.WithCancel(context.Background()) // ends with the connection
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

// add returns the line of a new call, or nil if no stream is open.
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
		if l != nil && m.GetMessage() != nil { // otherwise the call was abandoned
			l.keep(m.GetMessage())
		}
	}
}

// close ends a stream and fails its calls with err. The next call opens another stream.
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

// sharedLine is one call on the stream.
type sharedLine struct {
	shared *sharedStream
	stream *openStream
	id     uint64

	ready chan struct{} // signals that there may be new events
	mu    sync.Mutex
	kept  []*toolpb.CallResponse
	bytes int // size of the output in kept
	err   error
}

func (l *sharedLine) send(m *toolpb.CallRequest) error {
	return l.stream.send(&toolpb.CallsRequest{Call: l.id, Message: m})
}

// keep stores an event. If there are too many, it drops those that the call is complete without.
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
	// This call may itself wait while a Send has only begun.
	time.AfterFunc(stuckTime+stuckTime/10, closeStuck)
}
