package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

type plugin struct {
	toolpb.UnimplementedPluginServiceServer

	mu       sync.Mutex
	running  map[*context.CancelCauseFunc]bool
	draining bool
	idle     chan struct{} // closed when the plugin is draining and no call is running
}

func (p *plugin) Describe(_ context.Context, r *toolpb.DescribeRequest) (*toolpb.DescribeResponse, error) {
	if mode == "strict" && len(r.ProtoReflect().GetUnknown()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "a field is not known")
	}
	return describe(), nil
}

func (p *plugin) Configure(_ context.Context, r *toolpb.ConfigureRequest) (*toolpb.ConfigureResponse, error) {
	refuse := func(path []string, summary string) (*toolpb.ConfigureResponse, error) {
		return &toolpb.ConfigureResponse{Diagnostics: []*toolpb.Diagnostic{
			{Severity: toolpb.Diagnostic_SEVERITY_ERROR, Summary: summary, Path: path},
		}}, nil
	}
	var c struct {
		Limit int `json:"limit"`
	}
	switch err := json.Unmarshal(r.GetConfig(), &c); {
	case mode == "choosy":
		return refuse(nil, "It is Sunday.")
	case err != nil && mode == "config-panic":
		panic(err)
	case err != nil && mode == "config-status":
		return nil, err
	case err != nil && mode == "silent":
		return refuse(nil, "")
	case err != nil:
		return refuse(nil, err.Error())
	case c.Limit < 0 && mode != "lenient":
		return refuse([]string{"limit"}, "The limit is negative.")
	}
	switch mode {
	case "lockfile":
		lock = filepath.Join(r.GetStateDir(), "lock")
		if _, err := os.Stat(lock); err == nil {
			return refuse(nil, "Another process naps.")
		}
	case "flock":
		f, err := os.Create(filepath.Join(r.GetStateDir(), "lock"))
		if err == nil {
			err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if err != nil {
			return refuse(nil, "Another process runs: "+err.Error())
		}
		locked = append(locked, f)
	}
	return &toolpb.ConfigureResponse{}, nil
}

// locked contains open lock files, because the garbage collector would otherwise close them. lock is the path of the
// lock file for the tool "nap".
var (
	locked []*os.File
	lock   string
)

func (p *plugin) Health(_ context.Context, r *toolpb.HealthRequest) (*toolpb.HealthResponse, error) {
	if mode == "blocking" {
		for p.busy() { // Health waits until no call is running, as in an event loop
			time.Sleep(10 * time.Millisecond)
		}
	}
	switch name := r.GetTool(); {
	case mode == "no-health":
		return nil, status.Error(codes.Unimplemented, "no health")
	case mode == "healthless":
		return &toolpb.HealthResponse{}, nil
	case mode == "all-healthy" || name == "" || name == "echo" || name == "report" || name == "nap":
		return &toolpb.HealthResponse{Status: toolpb.HealthResponse_STATUS_HEALTHY}, nil
	}
	return &toolpb.HealthResponse{Status: toolpb.HealthResponse_STATUS_NOT_FOUND}, nil
}

func (p *plugin) Drain(ctx context.Context, r *toolpb.DrainRequest) (*toolpb.DrainResponse, error) {
	if mode == "undrained" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p.mu.Lock()
	p.draining = mode != "deaf-drain"
	idle := len(p.running) == 0
	p.mu.Unlock()
	if idle {
		return &toolpb.DrainResponse{}, nil
	}
	var over <-chan time.Time
	if ms := r.GetGraceMs(); ms > 0 {
		over = time.After(time.Duration(ms) * time.Millisecond)
	}
	select {
	case <-p.idle:
		return &toolpb.DrainResponse{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-over:
	}
	p.mu.Lock()
	n := len(p.running)
	for cancel := range p.running {
		(*cancel)(context.Canceled)
	}
	p.mu.Unlock()
	<-p.idle
	return &toolpb.DrainResponse{Canceled: int32(n)}, nil
}

// busy reports whether a call is running.
func (p *plugin) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running) > 0
}

// enter registers a call and returns the number of running calls. If the plugin refuses the call, ok is false.
func (p *plugin) enter(cancel *context.CancelCauseFunc) (n int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return 0, false
	}
	if p.running == nil {
		p.running = make(map[*context.CancelCauseFunc]bool)
	}
	p.running[cancel] = true
	return len(p.running), true
}

func (p *plugin) leave(cancel *context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, cancel)
	if p.draining && len(p.running) == 0 {
		close(p.idle)
	}
}

type callStream = grpc.BidiStreamingServer[toolpb.CallRequest, toolpb.CallResponse]

func (p *plugin) Call(stream callStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	n, ok := p.enter(&cancel)
	if !ok {
		return say(stream, failed(toolpb.Kind_KIND_UNAVAILABLE, "It takes no more calls."))
	}
	defer p.leave(&cancel)
	start := first.GetStart()
	if mode == "stuck" {
		select {}
	}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				cancel(context.Canceled)
				return
			}
			c := m.GetCancel()
			switch {
			case m.GetMessage() == nil && mode == "strict-stream":
				cancel(fmt.Errorf("an unknown message"))
			case c.GetReason() == toolpb.Cancel_REASON_DEADLINE && mode != "timeless":
				cancel(context.DeadlineExceeded)
			case c.GetReason() == toolpb.Cancel_REASON_CANCELED && mode != "stubborn":
				cancel(context.Canceled)
			}
		}
	}()
	return p.tool(ctx, stream, start, n)
}

func (p *plugin) tool(ctx context.Context, stream callStream, start *toolpb.Start, running int) error {
	var args struct {
		Text    string `json:"text"`
		Seconds int    `json:"seconds"`
	}
	if err := json.Unmarshal(start.GetArguments(), &args); err != nil && start.GetTool() != "none" {
		if mode == "trusting" {
			panic(err)
		}
		return say(stream, failed(toolpb.Kind_KIND_INVALID_ARGUMENTS, err.Error()))
	}
	switch start.GetTool() {
	case "echo":
		switch {
		case mode == "lonely" && running > 10:
			return status.Error(codes.ResourceExhausted, "ten calls run already")
		case mode == "dead-example" && args.Text == "no such file":
			return say(stream, failed(toolpb.Kind_KIND_INVALID_ARGUMENTS, "There is no such mode."))
		}
		if mode == "blocking" { // like a tool that sleeps in an event loop
			loop.Lock()
			time.Sleep(150 * time.Millisecond)
			loop.Unlock()
		}
		if mode == "lonely" || mode == "strict-stream" {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
			if err := context.Cause(ctx); err != nil && err.Error() == "an unknown message" {
				return status.Error(codes.InvalidArgument, err.Error())
			}
		}
		return say(stream, &toolpb.Result{Output: args.Text})
	case "report":
		return report(stream)
	case "nap":
		if lock != "" {
			_ = os.WriteFile(lock, nil, 0o600)
			defer os.Remove(lock) //nolint:errcheck // ignore the error, because this plugin is broken on purpose
		}
		select {
		case <-time.After(time.Duration(args.Seconds) * time.Second):
			return say(stream, &toolpb.Result{Output: "rested"})
		case <-ctx.Done():
		}
		if mode == "fragile" && stream.Context().Err() != nil { // the host abandoned the call
			os.Exit(9) //nolint:gocritic // a crash runs nothing that is deferred
		}
		kind := toolpb.Kind_KIND_CANCELED
		if context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // as it was given
			kind = toolpb.Kind_KIND_TIMEOUT
		}
		return say(stream, failed(kind, "It was ended."))
	}
	if mode == "no-such-method" {
		return status.Error(codes.Unimplemented, "there is no such tool")
	}
	return say(stream, failed(toolpb.Kind_KIND_NOT_FOUND, "There is no such tool."))
}

// loop is the event loop of the mode "blocking": only one thing runs at a time.
var loop sync.Mutex

func report(stream callStream) error {
	good := &toolpb.Result{Output: "n is 1", Data: []byte(`{"n":1}`)}
	event := func(e *toolpb.CallResponse) { _ = stream.Send(e) }
	progress := &toolpb.CallResponse{
		Message: &toolpb.CallResponse_Progress{Progress: &toolpb.Progress{Title: "reporting"}},
	}
	switch mode {
	case "late-progress":
		_ = say(stream, good)
		event(progress)
		return nil
	case "two-results":
		_ = say(stream, good)
		return say(stream, good)
	case "endless":
		_ = say(stream, good)
		<-stream.Context().Done()
		return nil
	case "status":
		_ = say(stream, good)
		return status.Error(codes.Internal, "it is done")
	case "resultless":
		return nil
	case "failing-status":
		return status.Error(codes.Internal, "it failed")
	case "ask-0":
		event(&toolpb.CallResponse{
			Message: &toolpb.CallResponse_Ask{
				Ask: &toolpb.Ask{
					Ask: &toolpb.Ask_Question{Question: &toolpb.Question{Text: "Really?", FreeText: true}},
				},
			},
		})
	case "bad-data":
		good.Data = []byte(`{"n":"one"}`)
	case "no-json":
		good.Metadata = []byte(`n=1`)
	case "kindless":
		good = &toolpb.Result{Error: &toolpb.Error{Message: "It failed."}}
	case "stateful":
		good.SessionState = []byte("{}")
	case "imageless":
		good.Attachments = []*toolpb.Attachment{{Type: toolpb.Attachment_TYPE_IMAGE, Content: []byte("x")}}
	case "leaky":
		good.Title = "reporting with " + os.Getenv("BROKEN_TOKEN")
	case "relative":
		good.Effects = []*toolpb.Effect{
			{Operation: toolpb.Effect_OPERATION_READ, File: &toolpb.FileState{Path: "a.txt", Hash: make([]byte, 32)}},
		}
	}
	event(progress)
	return say(stream, good)
}

// Calls serves a shared stream. In some modes, it mixes up the calls or ends the stream early.
func (p *plugin) Calls(stream grpc.BidiStreamingServer[toolpb.CallsRequest, toolpb.CallsResponse]) error {
	for answered := 0; ; {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetMessage().GetStart() == nil {
			if mode == "shared-strict" {
				return status.Error(codes.InvalidArgument, "there is no such call")
			}
			continue
		}
		id := m.GetCall()
		if mode == "shared-mixed" {
			id = 1
		}
		_ = stream.Send(&toolpb.CallsResponse{
			Call: id, Message: &toolpb.CallResponse{
				Message: &toolpb.CallResponse_Result{Result: &toolpb.Result{Output: "sample"}},
			},
		})
		if answered++; answered == 20 && mode == "shared-short" {
			return nil
		}
	}
}

func say(stream callStream, r *toolpb.Result) error {
	return stream.Send(&toolpb.CallResponse{Message: &toolpb.CallResponse_Result{Result: r}})
}

func failed(k toolpb.Kind, message string) *toolpb.Result {
	return &toolpb.Result{Error: &toolpb.Error{Kind: k, Message: message}}
}
