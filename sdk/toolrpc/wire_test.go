package toolrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// fake is a test plugin whose methods are functions of the test.
type fake struct {
	tool.Plugin
	desc *tool.Description
	call func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result
}

func (f *fake) Describe(context.Context) (*tool.Description, error) {
	if f.desc == nil {
		return nil, errors.New("no description")
	}
	return f.desc, nil
}

func (f *fake) Configure(_ context.Context, c tool.Configuration) ([]tool.Diagnostic, error) {
	return []tool.Diagnostic{{Severity: tool.SeverityWarning, Summary: string(c.Config), Detail: c.StateDir + c.HostVersion + "\xff", Path: []string{c.Roots[0].Path, "0"}}, {Summary: "s"}}, nil
}

func (f *fake) Health(_ context.Context, name string) (tool.Health, error) {
	return map[string]tool.Health{
		"": {Status: tool.Healthy}, "ill": {Status: tool.Unhealthy, Message: "m", Details: json.RawMessage(`{"a":1}`)},
		"none": {Status: tool.HealthNotFound}, "odd": {Status: "odd"},
	}[name], nil
}

func (f *fake) Drain(_ context.Context, grace time.Duration) (int, error) {
	return int(grace.Milliseconds()), nil
}

func (f *fake) Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	return f.call(ctx, call, peer)
}

// connect serves impl over an in-memory connection and returns a client.
func connect(t *testing.T, impl toolpb.PluginServiceServer) *Client {
	t.Helper()
	return serveInMemory(t, func(s *grpc.Server) { toolpb.RegisterPluginServiceServer(s, impl) })
}

// serveInMemory starts a server with the services that the function "register" adds. It returns a client that is
// connected to the server in memory.
func serveInMemory(t *testing.T, register func(*grpc.Server)) *Client {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	s := newGRPCServer(nil)
	register(s)
	go s.Serve(l) // runs until the test stops the server
	conn, err := grpc.NewClient("passthrough:", append(DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
	})
	return NewClient(conn)
}

func serve(t *testing.T, call func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result) *Client {
	c := connect(t, &server{impl: &fake{call: call}})
	if over != nil {
		over(c)
	}
	return c
}

// over converts each client that [serve] returns to a client that sends calls over the method Calls. If over is nil,
// the clients stay unchanged.
var over func(*Client) *Client

// TestOverCalls repeats the tests of calls with a shared stream and with a kept stream.
func TestOverCalls(t *testing.T) {
	for way, set := range map[string]func(*Client) *Client{"shared": shared, "kept": kept} {
		over = set
		t.Run(way, overCalls)
	}
	over = nil
}

func overCalls(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"events": TestEventsComeInOrder, "large output": TestLargeOutputIsCut, "call and result": TestCallAndResultComeThrough,
		"kinds": TestEveryKindComesThrough, "UTF-8": TestInvalidUTF8IsReplaced, "asks": TestAsks, "held up": TestAnAskHoldsNothingUp,
		"file states": TestFileStates, "cancel": TestCancelReachesTheTool, "cancel in vain": TestCancelDoesNotWaitForever,
		"after the end": TestNothingIsSentAfterTheEnd, "oversized": TestOversizedResult, "gone": TestHostGone,
	} {
		t.Run(name, test)
	}
}

// recorder is a test host that records the received messages.
type recorder struct {
	mu     sync.Mutex
	events []string
	ask    func(ctx context.Context, ask tool.Ask) (tool.Answer, error)
	states map[string]tool.FileState
	err    error
}

func (r *recorder) note(format string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, a...))
}

func (r *recorder) Progress(title string, m map[string]any) { r.note("progress %s %v", title, m) }
func (r *recorder) Output(s tool.Stream, b []byte)          { r.note("output %d %s", s, b) }
func (r *recorder) Ask(ctx context.Context, a tool.Ask) (tool.Answer, error) {
	return r.ask(ctx, a)
}

func (r *recorder) FileStates(_ context.Context, paths ...string) (map[string]tool.FileState, error) {
	out := make(map[string]tool.FileState)
	for _, p := range paths {
		if s, ok := r.states[p]; ok {
			out[p] = s
		}
	}
	return out, r.err
}

func TestEventsComeInOrder(t *testing.T) {
	c := serve(t, func(_ context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		for i := range 300 {
			peer.Progress(fmt.Sprint(i), map[string]any{"i": i})
			peer.Output(tool.Stdout, fmt.Appendf(nil, "%d", i))
			peer.Output(tool.Stderr, []byte{0xff, byte(i)})
		}
		return &tool.Result{Output: call.Tool}
	})
	r := &recorder{}
	if res := c.Call(t.Context(), &tool.Call{Tool: "x"}, r); res.Output != "x" {
		t.Errorf("%+v", res.Error)
	}
	for i := range 300 {
		want := []string{fmt.Sprintf("progress %d map[i:%d]", i, i), fmt.Sprintf("output 1 %d", i), fmt.Sprintf("output 2 \xff%s", []byte{byte(i)})}
		if got := r.events[3*i : 3*i+3]; !reflect.DeepEqual(got, want) {
			t.Fatalf("event %d: %q, wanted %q", i, got, want)
		}
	}
	if len(r.events) != 900 {
		t.Errorf("%d events", len(r.events))
	}
}

func TestLargeOutputIsCut(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 200_000) // 3.2 MB
	c := serve(t, func(_ context.Context, _ *tool.Call, peer tool.Peer) *tool.Result {
		peer.Output(tool.Stdout, []byte(big))
		return &tool.Result{}
	})
	r := &recorder{}
	c.Call(t.Context(), &tool.Call{}, r)
	var got strings.Builder
	for _, e := range r.events {
		chunk := strings.TrimPrefix(e, "output 1 ")
		if len(chunk) > maxChunk {
			t.Errorf("a chunk of %d bytes", len(chunk))
		}
		got.WriteString(chunk)
	}
	if got.String() != big {
		t.Errorf("%d of %d bytes", got.Len(), len(big))
	}
}

func TestCallAndResultComeThrough(t *testing.T) {
	hash := [32]byte{1, 2, 31: 3}
	at := time.Unix(1_700_000_000, 123_456_789)
	want := &tool.Result{
		Output: "out", Title: "t", Metadata: map[string]any{"a": 1.5}, Data: json.RawMessage(`{"n":12345678901234567890}`),
		Attachments: []tool.Attachment{{Type: "image", Path: "/p", MediaType: "image/png", Content: []byte{0, 1}}, {Type: "file"}},
		Effects: []tool.Effect{
			{Operation: tool.OpModify, File: tool.FileState{Path: "/f", ModTime: at, Size: 7, Hash: hash, Partial: true}, HashBefore: &hash},
			{Operation: tool.OpDelete, File: tool.FileState{Path: "/g", ModTime: at}},
			{Operation: tool.OpRead, File: tool.FileState{Path: "/h", ModTime: at}},
		},
		SessionState: []byte{}, Cwd: "/w",
		Contents: []tool.Content{{Text: 3}, {Attachment: 1, Block: json.RawMessage(`{"annotations":{}}`)}, {Block: json.RawMessage(`{"type":"resource_link"}`)}},
	}
	sent := &tool.Call{
		ID: "1", Tool: "x", Arguments: json.RawMessage(`{"a":1}`), SessionID: "s", MessageID: "m\xff", Cwd: "/c", Roots: []tool.Root{{Path: "/r", Writable: true}, {Path: "/q"}},
		SessionState: []byte("state"), Trace: map[string]string{"traceparent": "00-1"},
		Client: &tool.ClientInfo{Capabilities: json.RawMessage(`{"roots":{}}`), LogLevel: "info", Protocol: "2026-07-28"}, Continuation: []byte{0, 255},
	}
	var got *tool.Call
	c := serve(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result { got = call; return want })
	res := c.Call(t.Context(), sent, &recorder{})
	sent.MessageID = "m\uFFFD"
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("call\n%+v\nwanted\n%+v", got, sent)
	}
	if res.Error != nil {
		t.Fatal(res.Error)
	}
	if got, expected := any(*res), any(*want); !reflect.DeepEqual(got, expected) {
		t.Errorf("result\n%+v\nwanted\n%+v", res, want)
	}
}

func TestEveryKindComesThrough(t *testing.T) {
	kinds := []tool.Kind{tool.NotFound, tool.InvalidArguments, tool.PermissionDenied, tool.Security, tool.Timeout, tool.Canceled, tool.Unavailable, tool.Conflict, tool.ExecutionFailed, tool.Internal}
	next := make(chan tool.Kind, 1)
	c := serve(t, func(context.Context, *tool.Call, tool.Peer) *tool.Result {
		return tool.Failed(tool.Errorf(<-next, "why \xff").WithCode(-3).WithRetryAfter(1500 * time.Millisecond))
	})
	for _, k := range append(kinds, "made up") {
		next <- k
		want := k
		if k == "made up" {
			want = tool.Internal
		}
		e := c.Call(t.Context(), &tool.Call{}, &recorder{}).Error
		if e == nil || e.Kind != want || e.Code != -3 || e.RetryAfter != 1500*time.Millisecond || e.Message != "why \uFFFD" || e.Source != tool.SourceTool {
			t.Errorf("%s: %+v", k, e)
		}
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	bad := "a\xffb"
	c := serve(t, func(_ context.Context, _ *tool.Call, peer tool.Peer) *tool.Result {
		peer.Progress(bad, map[string]any{bad: bad, "f": func() {}})
		return &tool.Result{Output: bad, Title: bad, Cwd: bad, Attachments: []tool.Attachment{{Path: bad, MediaType: bad, Type: "odd"}}, Effects: []tool.Effect{{File: tool.FileState{Path: bad}}}}
	})
	r := &recorder{}
	res := c.Call(t.Context(), &tool.Call{Cwd: bad}, r)
	const good = "a\uFFFDb"
	if res.Error != nil || res.Output != good || res.Title != good || res.Cwd != good || res.Attachments[0].MediaType != good || res.Effects[0].File.Path != good {
		t.Errorf("%+v %v", res, res.Error)
	}
	if len(r.events) != 1 || !strings.Contains(r.events[0], "metadata_error") {
		t.Errorf("%q", r.events)
	}
}

func TestAsks(t *testing.T) {
	c := serve(t, func(ctx context.Context, _ *tool.Call, peer tool.Peer) *tool.Result {
		var wg sync.WaitGroup
		answers := make([]string, 20)
		for i := range answers { // answers arrive in any order, but each answer must reach its own question
			wg.Go(func() {
				a, err := peer.Ask(ctx, tool.Ask{Question: &tool.Question{Text: fmt.Sprint(i), Options: []string{"y\xff"}, Multiple: true, FreeText: true, Defaults: []string{"n\xff"}, Optional: true}})
				answers[i] = fmt.Sprint(a.Outcome, a.Values, a.Message, err)
			})
		}
		wg.Wait()
		p, err := peer.Ask(ctx, tool.Ask{Permission: &tool.Permission{Kind: "edit", Title: "t", Patterns: []string{"/a", "/b"}, Metadata: map[string]any{"k": "v"}}})
		if err != nil {
			return tool.Failed(err)
		}
		_, neither := peer.Ask(ctx, tool.Ask{})
		return &tool.Result{Output: strings.Join(answers, "\n"), Title: fmt.Sprint(p.Outcome, neither)}
	})
	r := &recorder{ask: func(_ context.Context, a tool.Ask) (tool.Answer, error) {
		if p := a.Permission; p != nil {
			if !reflect.DeepEqual(p, &tool.Permission{Kind: "edit", Title: "t", Patterns: []string{"/a", "/b"}, Metadata: map[string]any{"k": "v"}}) {
				t.Errorf("%+v", p)
			}
			return tool.Answer{}, errors.New("nobody")
		}
		q := a.Question
		if !q.Multiple || !q.FreeText || !q.Optional || q.Options[0] != "y\uFFFD" || q.Defaults[0] != "n\uFFFD" {
			t.Errorf("%+v", q)
		}
		return tool.Answer{Outcome: tool.Declined, Values: []string{q.Text}, Message: "m"}, nil
	}}
	res := c.Call(t.Context(), &tool.Call{}, r)
	if res.Error != nil {
		t.Fatal(res.Error)
	}
	for i, line := range strings.Split(res.Output, "\n") {
		if want := fmt.Sprintf("declined[%d]m<nil>", i); strings.ReplaceAll(line, " ", "") != want {
			t.Errorf("%q, wanted %q", line, want)
		}
	}
	if !strings.HasPrefix(res.Title, "unavailable") || !strings.Contains(res.Title, "must have a permission, a question, requests or a call") {
		t.Errorf("%q", res.Title)
	}
}

// TestAnAskHoldsNothingUp checks that the plugin can send output while a person decides.
func TestAnAskHoldsNothingUp(t *testing.T) {
	heard := make(chan struct{})
	c := serve(t, func(ctx context.Context, _ *tool.Call, peer tool.Peer) *tool.Result {
		go peer.Output(tool.Stdout, []byte("meanwhile"))
		_, err := peer.Ask(ctx, tool.Ask{Question: &tool.Question{}})
		return &tool.Result{Output: fmt.Sprint(err)}
	})
	r := &hook{recorder: recorder{ask: func(context.Context, tool.Ask) (tool.Answer, error) {
		<-heard
		return tool.Answer{Outcome: tool.Accepted}, nil
	}}, output: func() { close(heard) }}
	if res := c.Call(t.Context(), &tool.Call{}, r); res.Output != "<nil>" {
		t.Errorf("%+v", res)
	}
}

type hook struct {
	recorder
	output func()
}

func (h *hook) Output(tool.Stream, []byte) { h.output() }

func TestFileStates(t *testing.T) {
	known := tool.FileState{Path: "/a", ModTime: time.Unix(1, 2), Size: 3, Hash: [32]byte{4}, Partial: true}
	c := serve(t, func(ctx context.Context, _ *tool.Call, peer tool.Peer) *tool.Result {
		s, err := peer.FileStates(ctx, "/a", "/b")
		if err != nil {
			return tool.Failed(err)
		}
		if len(s) == 1 && !reflect.DeepEqual(s["/a"], known) {
			t.Errorf("%+v", s)
		}
		return &tool.Result{Output: fmt.Sprint(len(s))}
	})
	if res := c.Call(t.Context(), &tool.Call{}, &recorder{states: map[string]tool.FileState{"/a": known, "/c": {}}}); res.Output != "1" {
		t.Errorf("%+v %v", res, res.Error)
	}
	// If the lookup of a file's state fails, the state must be unknown.
	if res := c.Call(t.Context(), &tool.Call{}, &recorder{err: errors.New("the database is gone")}); res.Output != "0" {
		t.Errorf("%+v %v", res, res.Error)
	}
}

func TestCancelReachesTheTool(t *testing.T) {
	for name, end := range map[string]func(context.Context) (context.Context, func()){
		"canceled": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel
		},
		"timeout": func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
			_ = cancel // cancel is never called, because the deadline ends the context
			return ctx, func() {}
		},
	} {
		started := make(chan struct{})
		c := serve(t, func(ctx context.Context, _ *tool.Call, _ tool.Peer) *tool.Result {
			close(started)
			<-ctx.Done()
			res := tool.Failed(context.Cause(ctx))
			res.Data = json.RawMessage(`"what it has so far"`)
			return res
		})
		ctx, stop := end(t.Context())
		go func() { <-started; stop() }()
		res := c.Call(ctx, &tool.Call{}, &recorder{})
		if res.Error == nil || string(res.Error.Kind) != name || res.Error.Source != tool.SourceTool || string(res.Data) != `"what it has so far"` {
			t.Errorf("%s: %+v %s", name, res.Error, res.Data)
		}
	}
}

// TestCancelDoesNotWaitForever checks that the host abandons a tool that ignores the cancel, and that the next call
// works.
func TestCancelDoesNotWaitForever(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{})
	defer close(release)
	c := serve(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "stubborn" {
			close(started)
			<-release
		}
		return &tool.Result{Output: "ok"}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-started; cancel(tool.Errorf(tool.Timeout, "It took too long.")) }()
	res := c.Call(ctx, &tool.Call{Tool: "stubborn"}, &recorder{})
	if e := res.Error; e == nil || e.Kind != tool.Timeout || e.Source != tool.SourcePlugin || !strings.Contains(e.Message, "stubborn was abandoned because it did not stop within") {
		t.Errorf("%+v", e)
	}
	if res := c.Call(t.Context(), &tool.Call{}, &recorder{}); res.Output != "ok" {
		t.Errorf("%+v", res.Error)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if res := c.Call(over, &tool.Call{}, &recorder{}); res.Error == nil || res.Error.Kind != tool.Canceled || res.Error.Source != tool.SourceHost {
		t.Errorf("%+v", res.Error)
	}
}

func TestNothingIsSentAfterTheEnd(t *testing.T) {
	kept := make(chan tool.Peer, 1)
	c := serve(t, func(_ context.Context, _ *tool.Call, peer tool.Peer) *tool.Result {
		kept <- peer
		return &tool.Result{}
	})
	r := &recorder{}
	c.Call(t.Context(), &tool.Call{}, r)
	peer := <-kept
	peer.Progress("late", nil)
	peer.Output(tool.Stdout, []byte("late"))
	if _, err := peer.Ask(t.Context(), tool.Ask{Question: &tool.Question{}}); err == nil {
		t.Error("an ask after the end is answered")
	}
	if _, err := peer.FileStates(t.Context(), "/a"); err == nil {
		t.Error("a query after the end is answered")
	}
	if len(r.events) > 0 {
		t.Errorf("%q", r.events)
	}
}

func TestOversizedResult(t *testing.T) {
	c := serve(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "big" {
			return &tool.Result{Attachments: []tool.Attachment{{Type: "file", Content: make([]byte, MaxMessageSize)}}}
		}
		return &tool.Result{SessionState: make([]byte, MaxSessionState+1)}
	})
	if e := c.Call(t.Context(), &tool.Call{Tool: "big"}, &recorder{}).Error; e == nil || e.Kind != tool.ExecutionFailed || !strings.Contains(e.Message, "Ask for less") {
		t.Errorf("%+v", e)
	}
	if e := c.Call(t.Context(), &tool.Call{Tool: "state"}, &recorder{}).Error; e == nil || e.Kind != tool.Internal || !strings.Contains(e.Message, "session state") {
		t.Errorf("%+v", e)
	}
	// A message that is too large for the plugin causes an error. The connection must stay usable.
	huge := json.RawMessage(`"` + strings.Repeat("x", MaxMessageSize) + `"`)
	if e := c.Call(t.Context(), &tool.Call{Arguments: huge}, &recorder{}).Error; e == nil {
		t.Error("an oversized call went through")
	}
	if e := c.Call(t.Context(), &tool.Call{Tool: "state"}, &recorder{}).Error; e == nil || e.Kind != tool.Internal {
		t.Errorf("%+v", e)
	}
}
