package toolrpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// raw is a plugin without the SDK. A function of the test defines how the plugin uses the stream of a call.
type raw struct {
	toolpb.UnimplementedPluginServiceServer
	call func(stream grpc.BidiStreamingServer[toolpb.CallRequest, toolpb.CallResponse]) error
}

func (r raw) Call(stream grpc.BidiStreamingServer[toolpb.CallRequest, toolpb.CallResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return r.call(stream)
}

func result(output string) *toolpb.CallResponse {
	return &toolpb.CallResponse{Message: &toolpb.CallResponse_Result{Result: &toolpb.Result{Output: output}}}
}

// greased adds an unknown field to a message, as a later version of the protocol could do.
func greased(m *toolpb.CallResponse) *toolpb.CallResponse {
	unknown := protowire.AppendString(protowire.AppendTag(nil, 4000, protowire.BytesType), "from the future")
	m.ProtoReflect().SetUnknown(unknown)
	if r := m.GetResult(); r != nil {
		r.ProtoReflect().SetUnknown(unknown)
	}
	return m
}

type respond = grpc.BidiStreamingServer[toolpb.CallRequest, toolpb.CallResponse]

func TestBrokenPlugins(t *testing.T) {
	for name, tc := range map[string]struct {
		call func(s respond) error
		kind tool.Kind
		want string // text in the error message; if kind is empty, the whole output
	}{
		"no result":   {func(respond) error { return nil }, tool.Internal, "ended the call without a result"},
		"events only": {func(s respond) error { return s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Progress{}}) }, tool.Internal, "without a result"},
		"error":       {func(respond) error { return errors.New("boom") }, tool.Internal, "boom"},
		"transport": {func(respond) error {
			return status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL")
		}, tool.Canceled, "connection to the plugin failed during the call"},
		"reading":     {func(respond) error { return status.Error(codes.Unavailable, "error reading from server: EOF") }, tool.Unavailable, "connection to the plugin failed"},
		"deadline":    {func(respond) error { return context.DeadlineExceeded }, tool.Timeout, "connection to the plugin failed"},
		"unavailable": {func(respond) error { return status.Error(codes.Unavailable, "going") }, tool.Unavailable, "going"},
		"exhausted":   {func(respond) error { return status.Error(codes.ResourceExhausted, "full") }, tool.ExecutionFailed, "Ask for less"},
		"unknown kind": {func(s respond) error {
			return s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Result{Result: &toolpb.Result{Error: &toolpb.Error{Kind: 99, Message: "new"}}}})
		}, tool.Internal, "new"},
		"bad data": {func(s respond) error {
			return s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Result{Result: &toolpb.Result{Data: []byte("{")}}})
		}, tool.Internal, "not JSON"},
		"bad metadata": {func(s respond) error {
			return s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Result{Result: &toolpb.Result{Output: "ok", Metadata: []byte("{")}}})
		}, "", "ok"},
		"short hashes": {func(s respond) error {
			return s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Result{Result: &toolpb.Result{Output: "ok", Effects: []*toolpb.Effect{
				{HashBefore: []byte{1}, File: &toolpb.FileState{Hash: make([]byte, 99)}}, {},
			}}}})
		}, "", "ok"},
		"empty result": {func(s respond) error { return s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Result{}}) }, "", ""},
		"from the future": {func(s respond) error {
			_ = s.Send(greased(&toolpb.CallResponse{}))
			_ = s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Ask{}})
			_ = s.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Output{Output: &toolpb.Output{Stream: 77}}})
			return s.Send(greased(result("ok")))
		}, "", "ok"},
		"two results":            {func(s respond) error { _ = s.Send(result("first")); return s.Send(result("second")) }, "", "first"},
		"error after the result": {func(s respond) error { _ = s.Send(result("first")); return errors.New("late") }, "", "first"},
		"never ends":             {func(s respond) error { _ = s.Send(result("first")); <-s.Context().Done(); return nil }, "", "first"},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, raw{call: tc.call})
			res := c.Call(t.Context(), &tool.Call{}, &recorder{ask: func(context.Context, tool.Ask) (tool.Answer, error) { return tool.Answer{}, nil }})
			switch {
			case tc.kind == "" && (res.Error != nil || res.Output != tc.want):
				t.Errorf("%q %+v", res.Output, res.Error)
			case tc.kind != "" && (res.Error == nil || res.Error.Kind != tc.kind || !strings.Contains(res.Error.Message, tc.want)):
				t.Errorf("%+v", res.Error)
			}
		})
	}
}

// TestOddHosts checks a server with the messages that older or newer hosts send.
func TestOddHosts(t *testing.T) {
	var got *tool.Call
	var deadline bool
	c := serve(t, func(ctx context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		got = call
		_, deadline = ctx.Deadline()
		return &tool.Result{Output: "ok"}
	})
	say := func(m *toolpb.CallRequest) (*toolpb.CallResponse, error) {
		stream, err := c.rpc.Call(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(m)
		r, err := stream.Recv()
		if err == nil {
			if _, end := stream.Recv(); !errors.Is(end, io.EOF) {
				t.Errorf("the stream goes on after the result: %v", end)
			}
		}
		return r, err
	}
	for _, m := range []*toolpb.CallRequest{
		{}, {Message: &toolpb.CallRequest_Cancel{Cancel: &toolpb.Cancel{}}}, {Message: &toolpb.CallRequest_Answer{}},
	} {
		if _, err := say(m); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "must be Start") {
			t.Errorf("%v: %v", m, err)
		}
	}
	start := &toolpb.Start{Tool: "x", TimeoutMs: 60_000}
	start.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 3999, protowire.VarintType), 7))
	if r, err := say(&toolpb.CallRequest{Message: &toolpb.CallRequest_Start{Start: start}}); err != nil || r.GetResult().GetOutput() != "ok" || got.Tool != "x" || !deadline {
		t.Errorf("%v %v", r, err)
	}
	if _, err := say(&toolpb.CallRequest{Message: &toolpb.CallRequest_Start{}}); err != nil || deadline {
		t.Errorf("an empty start: %v", err)
	}
}

// TestStrayAnswers checks that unexpected and malformed answers have no effect.
func TestStrayAnswers(t *testing.T) {
	c := serve(t, func(ctx context.Context, _ *tool.Call, peer tool.Peer) *tool.Result {
		a, err := peer.Ask(ctx, tool.Ask{Question: &tool.Question{}})
		if err != nil {
			return tool.Failed(err)
		}
		return &tool.Result{Output: string(a.Outcome)}
	})
	stream, err := c.rpc.Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*toolpb.CallRequest{
		{Message: &toolpb.CallRequest_Start{Start: &toolpb.Start{}}},
		{Message: &toolpb.CallRequest_Answer{Answer: &toolpb.Answer{AskId: 99}}},
		{Message: &toolpb.CallRequest_Answer{}},
		{Message: &toolpb.CallRequest_FileStates{}},
		{Message: &toolpb.CallRequest_Start{Start: &toolpb.Start{}}},
		{},
	} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	ask, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // only the first answer counts
		_ = stream.Send(&toolpb.CallRequest{Message: &toolpb.CallRequest_Answer{Answer: &toolpb.Answer{AskId: ask.GetAsk().GetId(), Outcome: 77}}})
	}
	r, err := stream.Recv()
	if err != nil || r.GetResult().GetOutput() != string(tool.Declined) {
		t.Errorf("%v %v", r, err) // an unknown outcome must not grant the permission
	}
}

func TestHostGone(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	c := serve(t, func(ctx context.Context, _ *tool.Call, _ tool.Peer) *tool.Result {
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return &tool.Result{}
	})
	ctx, cut := context.WithCancel(t.Context())
	stream, err := c.rpc.Call(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&toolpb.CallRequest{Message: &toolpb.CallRequest_Start{Start: &toolpb.Start{}}})
	<-started
	cut()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the tool runs on without a host")
	}
}

func TestUnaryCalls(t *testing.T) {
	desc := &tool.Description{
		Name: "p", Version: "1.2.3", MinHostVersion: "0.1.0", ConfigSchema: json.RawMessage(`{}`), Capabilities: []string{"a"},
		Keeps: []tool.Kept{{Kind: "k", Files: []string{"f"}, Age: "a"}},
		Needs: &tool.Needs{Read: tool.Required, Write: tool.Optional, Network: tool.Required, Secrets: []tool.Secret{{Name: "T", Need: tool.Required}, {Name: "U", Need: tool.Optional}}},
		Tools: []tool.Definition{{
			Name: "t", Description: "d", Input: json.RawMessage(`{"type":"object"}`), Output: json.RawMessage(`{}`), Category: tool.CategoryMCP, Version: "9", Examples: []string{"t x"}, StdinParameter: "s", Keywords: []string{"k"}, Role: "r", Program: &tool.Program{Operands: 2, First: "f", Number: "C", Otherwise: "o=1", Special: "+", Options: map[string]tool.ProgramOption{"a": {Argument: "x=", Value: true, Suffix: "/"}, "b": {Optional: true}}},
			Traits: tool.Traits{ReadOnly: true, ConcurrencySafe: true, Dangerous: true, AutoExecute: true, Disabled: true, Idempotent: true}, DefaultTimeout: 90 * time.Second,
		}, {Name: "own", DefaultTimeout: -time.Millisecond}},
	}
	c := connect(t, &server{impl: &fake{desc: desc}})
	got, err := c.Describe(t.Context())
	if err != nil || !reflect.DeepEqual(got, desc) {
		t.Errorf("%+v %v\nwanted %+v", got, err, desc)
	}
	if n := needsFromPB(&toolpb.Needs{Exec: 77}); n.Exec != tool.Optional || needsFromPB(nil) != nil {
		t.Errorf("a need of a later version is %q", n.Exec)
	}
	// A negative timeout means that the tool limits its calls itself. It must not become zero, because zero means
	// the host's default.
	for d, sign := range map[time.Duration]int{-1: -1, 1: 1, 0: 0, -time.Hour: -1} {
		if ms := definitionToPB(tool.Definition{DefaultTimeout: d}).GetDefaultTimeoutMs(); (ms > 0) != (sign > 0) || (ms < 0) != (sign < 0) {
			t.Errorf("%d ns is %d ms", d, ms)
		}
	}
	diags, err := c.Configure(t.Context(), tool.Configuration{Config: json.RawMessage(`{"a":1}`), Roots: []tool.Root{{Path: "/r"}}, StateDir: "/s", HostVersion: "1"})
	want := []tool.Diagnostic{{Severity: tool.SeverityWarning, Summary: `{"a":1}`, Detail: "/s1\uFFFD", Path: []string{"/r", "0"}}, {Severity: tool.SeverityError, Summary: "s"}}
	if err != nil || !reflect.DeepEqual(diags, want) {
		t.Errorf("%+v %v", diags, err)
	}
	for name, status := range map[string]tool.HealthStatus{"": tool.Healthy, "ill": tool.Unhealthy, "none": tool.HealthNotFound, "odd": tool.Unhealthy} {
		if h, err := c.Health(t.Context(), name); err != nil || h.Status != status {
			t.Errorf("%q: %+v %v", name, h, err)
		}
	}
	if n, err := c.Drain(t.Context(), 7*time.Millisecond); n != 7 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	none := connect(t, &server{impl: &fake{}})
	if _, err := none.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), "no description") {
		t.Error(err)
	}
	_, err = connect(t, raw{}).Health(t.Context(), "")
	if e := tool.AsError(err); e == nil || !strings.Contains(e.Message, "Rebuild it against a current SDK") {
		t.Errorf("%+v", e)
	}
}
