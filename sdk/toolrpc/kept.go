package toolrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// maxKeptStreams is the maximum number of idle streams that are kept. Other streams are ended after their calls.
const maxKeptStreams = 4

// keptStreams contains streams of the RPC method Calls that are reused for one call after another. It is for calls
// that must not delay other calls: only one call at a time uses a kept stream. The zero value is empty. It is safe
// for concurrent use.
type keptStreams struct {
	mu   sync.Mutex
	idle []*keptStream // the most recently used stream is last
}

// keptStream is a stream that stays open after a call.
type keptStream struct {
	grpc.BidiStreamingClient[toolpb.CallsRequest, toolpb.CallsResponse]
	cancel  context.CancelFunc
	sending sync.Mutex // locked during Send; the plugin ignores a late message of the previous call
	last    uint64     // ID of the last call; only the current user of the stream reads or writes it
}

func openKept(rpc toolpb.PluginServiceClient) (*keptStream, error) {
	ctx, cancel := context.WithCancel(context.Background()) // the stream ends with the connection, not with a call
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

// begin returns a stream for a call. If no stream is idle, it opens a new one.
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

// put keeps a stream for a later call. It does not keep a stream on which a late message is still being sent,
// because the late message would delay the next call.
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

// keptLine is one call on a keptStream.
type keptLine struct {
	streams *keptStreams
	rpc     toolpb.PluginServiceClient
	id      uint64

	mu     sync.Mutex
	stream *keptStream
	over   bool // true after the stream was returned or closed
}

func (l *keptLine) current() *keptStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream
}

// send sends m. If m is the first message of a tool call and the stream has ended since the previous tool call, send
// opens a new stream and sends m again. The plugin cannot receive the message twice, because gRPC returns io.EOF only
// for messages that it did not accept.
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

// change moves the call to another stream. If the call is over, change returns false.
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

// leave returns the stream when it is called for the first time. Later it returns nil.
func (l *keptLine) leave() *keptStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	l.over = true
	return l.stream
}
