package toolrpc

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

func shared(c *Client) *Client {
	c.shared.Store(&sharedStream{takes: func(string) bool { return true }})
	return c
}

// TestSharedCallsDoNotMix makes many concurrent calls. Each call must receive its own messages, and no call must
// wait for another.
func TestSharedCallsDoNotMix(t *testing.T) {
	release := make(chan struct{})
	c := shared(serve(t, func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		if call.Tool == "slow" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		for i := range 20 {
			peer.Output(tool.Stdout, []byte(call.Tool))
			if i == 10 {
				if _, err := peer.FileStates(ctx, "/x"); err != nil {
					return tool.Failed(err)
				}
			}
		}
		return &tool.Result{Output: call.Tool + strings.Repeat("x", 1<<10)}
	}))
	slow := make(chan *tool.Result)
	go func() { slow <- c.Call(t.Context(), &tool.Call{Tool: "slow"}, &recorder{}) }()
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			for i := range 20 {
				name, r := fmt.Sprintf("t%d.%d", n, i), &recorder{}
				res := c.Call(t.Context(), &tool.Call{Tool: name}, r)
				if res.Error != nil || !strings.HasPrefix(res.Output, name+"x") || len(r.events) != 20 {
					t.Errorf("%s: %v %.20q, %d events", name, res.Error, res.Output, len(r.events))
				}
				for _, e := range r.events {
					if e != "output 1 "+name {
						t.Errorf("%s heard %q", name, e)
					}
				}
			}
		})
	}
	wg.Wait()
	close(release)
	if res := <-slow; !strings.HasPrefix(res.Output, "slowx") {
		t.Errorf("%v", res.Error)
	}
	if s := c.shared.Load(); len(s.open.calls) != 0 {
		t.Errorf("%d calls are left", len(s.open.calls))
	}
}

// TestWhichCallsAreShared checks that calls of read-only tools use one shared stream if the plugin supports shared
// streams. All other calls must use kept streams.
func TestWhichCallsAreShared(t *testing.T) {
	reads := tool.Traits{ReadOnly: true, ConcurrencySafe: true}
	for _, can := range []bool{false, true} {
		d := &tool.Description{Name: "p", Tools: []tool.Definition{{Name: "read", Traits: reads}, {Name: "slow", Traits: tool.Traits{ReadOnly: true}}, {Name: "write"}}}
		if can {
			d.Capabilities = []string{"other", tool.CapabilityCalls}
		}
		c := connect(t, &server{impl: &fake{desc: d}})
		if _, err := c.Describe(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"read": can, "slow": false, "write": false, "none": false} {
			l, err := c.line(t.Context(), &tool.Call{Tool: name})
			if err != nil {
				t.Fatal(err)
			}
			_, isShared := l.(*sharedLine)
			_, isOwn := l.(*ownLine)
			if isShared != want || isOwn == can {
				t.Errorf("%s over %T (can: %v)", name, l, can)
			}
			l.cut()
		}
	}
}

// rawCalls is a plugin without the SDK. A function of the test defines how the plugin uses a stream of the method
// Calls.
type rawCalls struct {
	toolpb.UnimplementedPluginServiceServer
	calls func(stream grpc.BidiStreamingServer[toolpb.CallsRequest, toolpb.CallsResponse]) error
}

func (r rawCalls) Calls(stream grpc.BidiStreamingServer[toolpb.CallsRequest, toolpb.CallsResponse]) error {
	return r.calls(stream)
}

type respondCalls = grpc.BidiStreamingServer[toolpb.CallsRequest, toolpb.CallsResponse]

// forEach returns a handler that answers every call on a stream. The handler does not end the stream after a call,
// because ending it would race with the next call.
func forEach(answer func(s respondCalls, m *toolpb.CallsRequest) error) func(respondCalls) error {
	return func(s respondCalls) error {
		for {
			m, err := s.Recv()
			if err != nil {
				return err
			}
			if m.GetMessage().GetStart() == nil {
				continue
			}
			if err := answer(s, m); err != nil {
				return err
			}
		}
	}
}

func TestBrokenSharedStreams(t *testing.T) {
	for name, tc := range map[string]struct {
		calls func(s respondCalls) error
		kind  tool.Kind
		want  string
	}{
		"ends":         {func(s respondCalls) error { _, _ = s.Recv(); return nil }, tool.Internal, "ended the call without a result"},
		"ends at once": {func(respondCalls) error { return nil }, tool.Internal, "ended the call without a result"},
		"fails":        {func(s respondCalls) error { _, _ = s.Recv(); return status.Error(codes.Unavailable, "going") }, tool.Unavailable, "going"},
		"stray": {forEach(func(s respondCalls, m *toolpb.CallsRequest) error {
			_ = s.Send(&toolpb.CallsResponse{Call: 4711, Message: result("stray")})
			_ = s.Send(&toolpb.CallsResponse{Call: m.GetCall()})
			_ = s.Send(&toolpb.CallsResponse{Call: m.GetCall(), Message: &toolpb.CallResponse{}})
			_ = s.Send(&toolpb.CallsResponse{Call: m.GetCall(), Message: greased(result("good"))})
			return s.Send(&toolpb.CallsResponse{Call: m.GetCall(), Message: result("twice")})
		}), "", "good"},
		"flood": {forEach(func(s respondCalls, m *toolpb.CallsRequest) error {
			for range 2 * maxKept {
				out := &toolpb.CallResponse{Message: &toolpb.CallResponse_Output{Output: &toolpb.Output{Chunk: make([]byte, 1<<10)}}}
				if err := s.Send(&toolpb.CallsResponse{Call: m.GetCall(), Message: out}); err != nil {
					return err
				}
			}
			return s.Send(&toolpb.CallsResponse{Call: m.GetCall(), Message: result("after the flood")})
		}), "", "after the flood"},
	} {
		brokenStreams := func(t *testing.T, set func(*Client) *Client) {
			c := set(connect(t, rawCalls{calls: tc.calls}))
			for range 2 { // if the first call ends the stream, the second call opens a new one
				res := c.Call(t.Context(), &tool.Call{Tool: "x"}, &hook{output: func() {
					time.Sleep(10 * time.Microsecond)
				}})
				got := res.Output
				if res.Error != nil {
					got = res.Error.Message
				}
				if !strings.Contains(got, tc.want) || tc.kind != "" && (res.Error == nil || res.Error.Kind != tc.kind) {
					t.Errorf("%q, %v", got, res.Error)
				}
			}
		}
		t.Run(name, func(t *testing.T) { brokenStreams(t, shared) })
		if name != "flood" { // skip the kept stream, which has no queue and makes the plugin wait
			t.Run(name+", kept", func(t *testing.T) { brokenStreams(t, kept) })
		}
	}
}

// TestStuckSharedStream checks that a plugin that accepts no more messages cannot delay a canceled call. Later calls
// use a new stream.
func TestStuckSharedStream(t *testing.T) {
	var streams atomic.Int32
	opened := make(chan struct{}, 10)
	c := shared(connect(t, rawCalls{calls: func(s respondCalls) error {
		opened <- struct{}{}
		if streams.Add(1) > 1 {
			m, err := s.Recv()
			if err != nil {
				return err
			}
			return s.Send(&toolpb.CallsResponse{Call: m.GetCall(), Message: result("well")})
		}
		<-s.Context().Done()
		return nil
	}}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-opened
		time.Sleep(50 * time.Millisecond)
		cancel()
	}()
	big := []byte(`"` + strings.Repeat("x", 8<<20) + `"`) // larger than the flow-control windows of gRPC
	began := time.Now()
	res := c.Call(ctx, &tool.Call{Tool: "x", Arguments: big}, &recorder{})
	if res.Error == nil || time.Since(began) > 20*time.Second {
		t.Fatalf("%v after %s", res.Error, time.Since(began))
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if res := c.Call(ctx, &tool.Call{Tool: "x"}, &recorder{}); res.Output != "well" {
		t.Errorf("%v", res.Error)
	}
}

// TestCutLooksAgain checks that a call ends if it is canceled just after the client has begun to send its message.
func TestCutLooksAgain(t *testing.T) {
	t.Parallel()
	c := shared(connect(t, deaf{}))
	big := []byte(`"` + strings.Repeat("x", 8<<20) + `"`) // larger than the flow-control windows of gRPC
	var calls sync.WaitGroup
	calls.Go(func() { c.Call(t.Context(), &tool.Call{Tool: "first", Arguments: big}, &recorder{}) })
	var o *openStream
	s := c.shared.Load()
	within(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		o = s.open
		return o != nil && len(o.calls) == 1
	})
	time.Sleep(100 * time.Millisecond)
	// Wait until gRPC has accepted the first message, after which no other message fits.
	within(t, func() bool { return o.since.Load() == 0 })
	o.sending.Lock()
	const timeout = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	ended := make(chan *tool.Result, 1)
	go func() { ended <- c.Call(ctx, &tool.Call{Tool: "second", Arguments: big}, &recorder{}) }()
	time.Sleep(timeout + CancelGrace - stuckTime/2)
	o.sending.Unlock()
	select {
	case res := <-ended:
		if res.Error == nil {
			t.Error(res)
		}
	case <-time.After(20 * time.Second):
		t.Error("the call does not end")
		o.cancel()
	}
	calls.Wait()
}

// TestGoexit checks a handler that ends its goroutine. Only the call of that handler must fail.
func TestGoexit(t *testing.T) {
	c := shared(serve(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "exit" {
			runtime.Goexit()
		}
		return &tool.Result{Output: "fine"}
	}))
	if res := c.Call(t.Context(), &tool.Call{Tool: "exit"}, &recorder{}); res.Error == nil || !strings.Contains(res.Error.Message, "exit ended without a result") {
		t.Errorf("%+v", res)
	}
	if res := c.Call(t.Context(), &tool.Call{Tool: "x"}, &recorder{}); res.Output != "fine" {
		t.Errorf("%v", res.Error)
	}
}
