package toolrpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

func kept(c *Client) *Client {
	c.shared.Store(&sharedStream{takes: func(string) bool { return false }})
	return c
}

// counted is a test plugin that counts all streams and the streams that are open.
type counted struct {
	server
	opened, open atomic.Int32
}

func (c *counted) Calls(s respondCalls) error {
	c.opened.Add(1)
	c.open.Add(1)
	defer c.open.Add(-1)
	return c.server.Calls(s)
}

// TestKeptStreams checks that consecutive calls share one stream and that concurrent calls get one stream each.
func TestKeptStreams(t *testing.T) {
	together := make(chan struct{})
	p := &counted{server: server{impl: &fake{call: func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		peer.Output(tool.Stdout, []byte(call.Tool))
		if strings.HasPrefix(call.Tool, "together") {
			select {
			case <-together:
			case <-ctx.Done():
			}
		}
		return &tool.Result{Output: call.Tool}
	}}}}
	c := kept(connect(t, p))
	for i := range 20 {
		r, name := &recorder{}, fmt.Sprint("t", i)
		if res := c.Call(t.Context(), &tool.Call{Tool: name}, r); res.Output != name || !slices.Equal(r.events, []string{"output 1 " + name}) {
			t.Errorf("%q %v %q", res.Output, res.Error, r.events)
		}
	}
	if n := p.opened.Load(); n != 1 {
		t.Errorf("%d streams for calls one after another", n)
	}
	const many = 3 * maxKeptStreams
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			r, name := &recorder{}, fmt.Sprint("together", i)
			if res := c.Call(t.Context(), &tool.Call{Tool: name}, r); res.Output != name || !slices.Equal(r.events, []string{"output 1 " + name}) {
				t.Errorf("%q %v %q", res.Output, res.Error, r.events)
			}
		})
	}
	within(t, func() bool { return p.open.Load() == many })
	close(together)
	wg.Wait()
	within(t, func() bool { return p.open.Load() == maxKeptStreams })
	c.Call(t.Context(), &tool.Call{}, &recorder{})
	if n := p.opened.Load(); n != many {
		t.Errorf("%d streams were opened for %d calls at once", n, many)
	}
}

func within(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it has not come about")
		}
	}
}

// TestCutStreamIsNotKept checks that messages of an abandoned call do not reach another call.
func TestCutStreamIsNotKept(t *testing.T) {
	released := make(chan struct{})
	p := &counted{server: server{impl: &fake{call: func(_ context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		if call.Tool == "stubborn" {
			<-released
			peer.Output(tool.Stdout, []byte("late"))
		}
		return &tool.Result{Output: call.Tool}
	}}}}
	c := kept(connect(t, p))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if res := c.Call(ctx, &tool.Call{Tool: "stubborn"}, &recorder{}); res.Error == nil {
		t.Error(res)
	}
	close(released)
	within(t, func() bool { return p.open.Load() == 0 })
	r := &recorder{}
	if res := c.Call(t.Context(), &tool.Call{Tool: "next"}, r); res.Output != "next" || len(r.events) > 0 {
		t.Errorf("%q %v %q", res.Output, res.Error, r.events)
	}
}

// TestLateCancel checks that canceling a finished call does not cancel the next call on the same stream.
func TestLateCancel(t *testing.T) {
	c := kept(serve(t, func(ctx context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "next" {
			select {
			case <-ctx.Done():
				return tool.Failed(context.Cause(ctx))
			case <-time.After(time.Millisecond):
			}
		}
		return &tool.Result{Output: call.Tool}
	}))
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Duration(i) * time.Microsecond)
			cancel()
		}()
		c.Call(ctx, &tool.Call{Tool: "canceled"}, &recorder{})
		if res := c.Call(t.Context(), &tool.Call{Tool: "next"}, &recorder{}); res.Output != "next" {
			t.Fatalf("round %d: %v", i, res.Error)
		}
		cancel()
	}
}

// TestStreamThatEndedMeanwhile checks that a call is not lost if its kept stream has ended since the last call.
func TestStreamThatEndedMeanwhile(t *testing.T) {
	var open atomic.Int32
	c := kept(connect(t, rawCalls{calls: func(s respondCalls) error {
		open.Add(1)
		defer open.Add(-1)
		m, err := s.Recv()
		if err != nil {
			return err
		}
		return s.Send(&toolpb.CallsResponse{Call: m.GetCall(), Message: result(m.GetMessage().GetStart().GetTool())})
	}}))
	for i := range 10 {
		name := fmt.Sprint("t", i)
		if res := c.Call(t.Context(), &tool.Call{Tool: name}, &recorder{}); res.Output != name {
			t.Fatalf("call %d: %q %v", i, res.Output, res.Error)
		}
		within(t, func() bool { return open.Load() == 0 })
		time.Sleep(20 * time.Millisecond) // wait until the host has received the end of the stream
	}
}

// TestPluginThatTakesNothing checks a call that cannot be sent because the plugin reads no messages. The call must end
// when its context ends. The test covers all three kinds of streams.
func TestPluginThatTakesNothing(t *testing.T) {
	for way, set := range map[string]func(*Client) *Client{"own": func(c *Client) *Client { return c }, "kept": kept, "shared": shared} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			c := set(connect(t, deaf{}))
			big := []byte(`"` + strings.Repeat("x", 8<<20) + `"`) // larger than the flow-control windows of gRPC
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			began := time.Now()
			var calls sync.WaitGroup
			for range 2 { // the first call fills the stream that the second call uses
				calls.Go(func() {
					res := c.Call(ctx, &tool.Call{Tool: "x", Arguments: big}, &recorder{})
					if res.Error == nil || res.Error.Kind != tool.Timeout && res.Error.Kind != tool.Unavailable || time.Since(began) > 20*time.Second {
						t.Errorf("%v after %s", res.Error, time.Since(began))
					}
				})
			}
			calls.Wait()
		})
	}
}

// deaf is a test plugin that reads no messages.
type deaf struct {
	toolpb.UnimplementedPluginServiceServer
}

func (deaf) Call(s respond) error {
	<-s.Context().Done()
	return nil
}

func (deaf) Calls(s respondCalls) error {
	<-s.Context().Done()
	return nil
}
