package toolrpc

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// roomy is a peer that has room for a result when the channel is closed.
type roomy struct {
	recorder
	asked chan int64
	room  chan struct{}
}

func newRoomy() *roomy { return &roomy{asked: make(chan int64, 1), room: make(chan struct{})} }

// Receive implements [tool.Receiver].
func (r *roomy) Receive(ctx context.Context, size int64) error {
	r.asked <- size
	select {
	case <-r.room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ways are the ways in which a call can reach a plugin.
var ways = map[string]func(*Client) *Client{"own": func(c *Client) *Client { return c }, "shared": shared, "kept": kept}

// serveLarge returns a client of a plugin whose tool "large" has a large result, and whose host has the capability if
// can is true.
func serveLarge(t *testing.T, content []byte, can bool) *Client {
	s := &server{impl: &fake{call: func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "large" {
			return &tool.Result{Output: "large", Attachments: []tool.Attachment{{Type: "file", Content: content}}}
		}
		return &tool.Result{Output: "short"}
	}}}
	s.largeResults.Store(can)
	return connect(t, s)
}

// TestLargeResultsWait checks that a plugin sends a large result when the host has room, and that no other call waits
// meanwhile.
func TestLargeResultsWait(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef\xff"), 1<<18)
	for way, over := range ways {
		t.Run(way, func(t *testing.T) {
			c, peer := over(serveLarge(t, content, true)), newRoomy()
			large := make(chan *tool.Result, 1)
			go func() { large <- c.Call(t.Context(), &tool.Call{Tool: "large"}, peer) }()
			if size := <-peer.asked; size < int64(len(content)) || size > int64(len(content)+64) {
				t.Errorf("a result of %d bytes was announced with %d", len(content), size)
			}
			for range 10 {
				if res := c.Call(t.Context(), &tool.Call{Tool: "short"}, newRoomy()); res.Output != "short" {
					t.Fatal(res.Error)
				}
			}
			select {
			case res := <-large:
				t.Fatalf("the host has no room, and the call ended: %.100q, %v", res.Output, res.Error)
			default:
			}
			close(peer.room)
			if res := <-large; res.Output != "large" || len(res.Attachments) != 1 || !bytes.Equal(res.Attachments[0].Content, content) {
				t.Errorf("%.100q, %v", res.Output, res.Error)
			}
		})
	}
}

// TestLargeResultsOfOtherHosts checks hosts that do not have the capability, and hosts whose peers are no receivers.
func TestLargeResultsOfOtherHosts(t *testing.T) {
	content := make([]byte, 2*largeSize)
	peer := newRoomy()
	for _, res := range []*tool.Result{
		serveLarge(t, content, false).Call(t.Context(), &tool.Call{Tool: "large"}, peer),
		serveLarge(t, content, true).Call(t.Context(), &tool.Call{Tool: "large"}, new(recorder)),
		serveLarge(t, content[:largeSize/2], true).Call(t.Context(), &tool.Call{Tool: "large"}, peer),
	} {
		if res.Output != "large" || len(res.Attachments) != 1 {
			t.Errorf("%q, %v", res.Output, res.Error)
		}
	}
	if len(peer.asked) != 0 {
		t.Error("a result was announced")
	}
}

// TestCanceledWhileItWaits cancels a call whose result has no room. The call must end without its grace, and the plugin
// must serve the next call.
func TestCanceledWhileItWaits(t *testing.T) {
	for way, over := range ways {
		t.Run(way, func(t *testing.T) {
			c, peer := over(serveLarge(t, make([]byte, 2*largeSize), true)), newRoomy()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-peer.asked
				cancel()
			}()
			res := c.Call(ctx, &tool.Call{Tool: "large"}, peer)
			if res.Error == nil || res.Error.Kind != tool.Canceled || errors.Is(res.Error, ErrAbandoned) {
				t.Errorf("%q, %v", res.Output, res.Error)
			}
			if res := c.Call(t.Context(), &tool.Call{Tool: "short"}, newRoomy()); res.Output != "short" {
				t.Error(res.Error)
			}
		})
	}
}

func announce(bytes int64) *toolpb.CallResponse {
	return &toolpb.CallResponse{Message: &toolpb.CallResponse_Ask{Ask: &toolpb.Ask{Id: 1, Ask: &toolpb.Ask_Announce{Announce: &toolpb.Announce{Bytes: bytes}}}}}
}

func part(b []byte) *toolpb.CallResponse {
	return &toolpb.CallResponse{Message: &toolpb.CallResponse_ResultPart{ResultPart: b}}
}

// TestLies checks plugins without the SDK whose announcements are wrong.
func TestLies(t *testing.T) {
	encoded, err := proto.Marshal(&toolpb.Result{Output: "announced"})
	if err != nil {
		t.Fatal(err)
	}
	size, flood := int64(len(encoded)), part(make([]byte, 60<<20))
	for name, tc := range map[string]struct {
		messages []*toolpb.CallResponse
		want     string // the output, or a part of the error
	}{
		"true":          {[]*toolpb.CallResponse{announce(size), part(encoded[:3]), part(encoded[3:]), result("")}, "announced"},
		"another":       {[]*toolpb.CallResponse{announce(size), result("another")}, "another"},
		"too little":    {[]*toolpb.CallResponse{announce(size), part(encoded[:3]), result("another")}, "another"},
		"unannounced":   {[]*toolpb.CallResponse{part(encoded), result("")}, "more of its result than it announced"},
		"ten bytes":     {[]*toolpb.CallResponse{announce(10), flood, result("")}, "more of its result than it announced"},
		"one more":      {[]*toolpb.CallResponse{announce(size), part(encoded), part([]byte("x")), result("")}, "more of its result than it announced"},
		"no result":     {[]*toolpb.CallResponse{announce(3), part([]byte("abc")), result("")}, "cannot be decoded"},
		"twice":         {[]*toolpb.CallResponse{announce(10), announce(10), result("")}, "two results"},
		"nothing":       {[]*toolpb.CallResponse{announce(0), result("")}, "without a size"},
		"negative":      {[]*toolpb.CallResponse{announce(-1), result("")}, "without a size"},
		"too large":     {[]*toolpb.CallResponse{announce(MaxMessageSize + 1), result("another")}, "at most 67 MB"},
		"much too much": {[]*toolpb.CallResponse{announce(1 << 62), flood, result("")}, "more of its result than it announced"},
	} {
		peer := newRoomy()
		close(peer.room)
		for _, c := range []*Client{
			connect(t, raw{call: func(s respond) error {
				for _, m := range tc.messages {
					_ = s.Send(m) // ignore the error: the host can end the call
				}
				return nil
			}}),
			shared(connect(t, rawCalls{calls: forEach(func(s respondCalls, m *toolpb.CallsRequest) error {
				for _, r := range tc.messages {
					_ = s.Send(&toolpb.CallsResponse{Call: m.GetCall(), Message: r}) // ignore the error: the host can end the call
				}
				return nil
			})})),
		} {
			res := c.Call(t.Context(), &tool.Call{Tool: "x"}, peer)
			for len(peer.asked) > 0 {
				if size := <-peer.asked; size > MaxMessageSize {
					t.Errorf("%s: room for %d bytes was taken", name, size)
				}
			}
			got := res.Output
			if res.Error != nil {
				got = res.Error.Message
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("%s: %.200q, want %q", name, got, tc.want)
			}
		}
	}
}

// TestAnnouncedAndNeverSent checks that a plugin that announces a result and does not send it keeps the room until its
// call's timeout, and at most for sendTime.
func TestAnnouncedAndNeverSent(t *testing.T) {
	for timeout, want := range map[time.Duration]string{5 * time.Second: "abandoned", time.Hour: "did not send it within 30s"} {
		synctest.Test(t, func(t *testing.T) {
			var over sync.WaitGroup
			defer over.Wait()
			c := connect(t, raw{call: func(s respond) error {
				over.Add(1)
				defer over.Done()
				_ = s.Send(announce(MaxMessageSize)) // ignore the error: the host ends the call
				<-s.Context().Done()
				return nil
			}})
			peer := newRoomy()
			close(peer.room)
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			began := time.Now()
			res := c.Call(ctx, &tool.Call{Tool: "x"}, peer)
			if res.Error == nil || !strings.Contains(res.Error.Message, want) || time.Since(began) > sendTime {
				t.Errorf("%v after %s", res.Error, time.Since(began))
			}
		})
	}
}
