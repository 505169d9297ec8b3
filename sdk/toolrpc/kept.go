package toolrpc

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// maxKeptStreams is how many streams wait for a call; what more calls at once have opened is ended.
const maxKeptStreams = 4

// keptStreams are streams of Calls that carry one call after another, for those that must not
// stand in each other's way: a call has a stream for itself, and does not wait for one to be made.
// The zero value has none. It is safe for concurrent use.
type keptStreams struct {
	mu   sync.Mutex
	idle []*keptStream // the one used last is last
}

// keptStream is a stream that stays open after a call.
type keptStream struct {
	grpc.BidiStreamingClient[toolpb.CallsRequest, toolpb.CallsResponse]
	cancel  context.CancelFunc
	sending sync.Mutex // one Send at a time; a late one, of the call before, is ignored
	last    uint64     // the last call's id; of who has the stream
}

// begin gives a call a stream that is open, or opens one.
func (k *keptStreams) begin(rpc toolpb.PluginServiceClient) (line, error) {
	s := k.take()
	if s == nil {
		ctx, cancel := context.WithCancel(context.Background()) // it ends with the connection
		stream, err := rpc.Calls(ctx)
		if err != nil {
			cancel()
			return nil, err
		}
		s = &keptStream{BidiStreamingClient: stream, cancel: cancel}
	}
	s.last++
	return &keptLine{streams: k, stream: s, id: s.last}, nil
}

func (k *keptStreams) take() *keptStream {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.idle)
	if n == 0 {
		return nil
	}
	s := k.idle[n-1]
	k.idle = k.idle[:n-1]
	return s
}

func (k *keptStreams) put(s *keptStream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.idle) == maxKeptStreams {
		s.cancel()
		return
	}
	k.idle = append(k.idle, s)
}

// keptLine is one call on such a stream.
type keptLine struct {
	streams *keptStreams
	stream  *keptStream
	id      uint64
	over    atomic.Bool // the stream is given back, or cut
}

func (l *keptLine) send(m *toolpb.CallRequest) error {
	l.stream.sending.Lock()
	defer l.stream.sending.Unlock()
	return l.stream.Send(&toolpb.CallsRequest{Call: l.id, Message: m})
}

func (l *keptLine) recv() (*toolpb.CallResponse, error) {
	for {
		m, err := l.stream.Recv()
		if err != nil {
			return nil, err
		}
		if m.GetCall() == l.id && m.GetMessage() != nil {
			return m.GetMessage(), nil
		}
	}
}

func (l *keptLine) end() {
	if l.over.CompareAndSwap(false, true) {
		l.streams.put(l.stream)
	}
}

func (l *keptLine) cut() {
	if l.over.CompareAndSwap(false, true) {
		l.stream.cancel()
	}
}
