package toolrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// maxKeptStreams is how many idle streams are kept. Further streams are ended after their call.
const maxKeptStreams = 4

// keptStreams holds streams of Calls that carry one call after another. Calls that must not delay
// each other have a stream for themselves, without waiting until one is made. The zero value is
// empty. It is safe for concurrent use.
type keptStreams struct {
	mu   sync.Mutex
	idle []*keptStream // the most recently used stream is last
}

// keptStream is a stream that stays open after a call.
type keptStream struct {
	grpc.BidiStreamingClient[toolpb.CallsRequest, toolpb.CallsResponse]
	cancel  context.CancelFunc
	sending sync.Mutex // one Send at a time; a late message of the previous call is ignored
	last    uint64     // ID of the last call; owned by the stream's user
}

func openKept(rpc toolpb.PluginServiceClient) (*keptStream, error) {
	ctx, cancel := context.WithCancel(context.Background()) // ends with the connection
	stream, err := rpc.Calls(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &keptStream{BidiStreamingClient: stream, cancel: cancel}, nil
}

func (s *keptStream) say(call uint64, m *toolpb.CallRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.Send(&toolpb.CallsRequest{Call: call, Message: m})
}

// begin returns an open stream for a call. It opens one if none is free.
func (k *keptStreams) begin(rpc toolpb.PluginServiceClient) (line, error) {
	s := k.take()
	if s == nil {
		var err error
		if s, err = openKept(rpc); err != nil {
			return nil, err
		}
	}
	s.last++
	return &keptLine{streams: k, rpc: rpc, stream: s, id: s.last}, nil
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

// put keeps a stream, unless a late message is still being sent on it, which would delay the next
// call.
func (k *keptStreams) put(s *keptStream) {
	if !s.sending.TryLock() {
		s.cancel()
		return
	}
	s.sending.Unlock()
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
	rpc     toolpb.PluginServiceClient
	id      uint64

	mu     sync.Mutex
	stream *keptStream
	over   bool // the stream was returned or cut
}

func (l *keptLine) current() *keptStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream
}

// send retries the first message of a call on another stream if this stream has ended since the call before. The plugin
// cannot have received it: gRPC returns io.EOF only for messages that it did not accept.
func (l *keptLine) send(m *toolpb.CallRequest) error {
	s := l.current()
	err := s.say(l.id, m)
	if !errors.Is(err, io.EOF) || m.GetStart() == nil || s.last == 1 {
		return err
	}
	fresh, openErr := openKept(l.rpc)
	if openErr != nil || !l.change(fresh) {
		return err
	}
	return fresh.say(l.id, m)
}

// change moves the call to another stream, unless the call is over.
func (l *keptLine) change(fresh *keptStream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		fresh.cancel()
		return false
	}
	l.stream.cancel()
	fresh.last = l.id
	l.stream = fresh
	return true
}

func (l *keptLine) recv() (*toolpb.CallResponse, error) {
	s := l.current()
	for {
		m, err := s.Recv()
		if err != nil {
			return nil, err
		}
		if m.GetCall() == l.id && m.GetMessage() != nil {
			return m.GetMessage(), nil
		}
	}
}

func (l *keptLine) end() {
	if s := l.leave(); s != nil {
		l.streams.put(s)
	}
}

func (l *keptLine) cut() {
	if s := l.leave(); s != nil {
		s.cancel()
	}
}

// leave returns the stream when it is called for the first time, and nil after that.
func (l *keptLine) leave() *keptStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	l.over = true
	return l.stream
}
