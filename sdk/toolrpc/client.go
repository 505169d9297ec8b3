package toolrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"toolhost.dev/sdk/tool"
	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// CancelGrace is how long a canceled call can still answer. After this time, the stream of the call is closed.
const CancelGrace = 3 * time.Second

// endGrace is how long a plugin can take to end the stream after its result.
const endGrace = time.Second

// ErrAbandoned is wrapped by the error of a call that was abandoned, because the plugin did not acknowledge the end of
// the call within [CancelGrace].
var ErrAbandoned = errors.New("the plugin did not acknowledge the end of the call")

// Client is the host's end of a connection. It implements [tool.Plugin] for a plugin in another process. It is safe for
// concurrent use.
type Client struct {
	rpc    toolpb.PluginServiceClient
	relay  toolpb.RelayServiceClient
	shared atomic.Pointer[sharedStream] // nil if the plugin does not support the method Calls
	kept   keptStreams
	// HostVersion is the version of the host. The client sends it to the plugin.
	HostVersion string
}

var (
	_ tool.Plugin = (*Client)(nil)
	_ tool.Hook   = (*Client)(nil)
	_ tool.Relay  = (*Client)(nil)

	_ tool.Invalidator = (*Client)(nil)
)

// NewClient returns a client that uses the connection.
func NewClient(conn grpc.ClientConnInterface) *Client {
	return &Client{rpc: toolpb.NewPluginServiceClient(conn), relay: toolpb.NewRelayServiceClient(conn)}
}

// Describe implements [tool.Plugin].
func (c *Client) Describe(ctx context.Context) (*tool.Description, error) {
	r, err := c.rpc.Describe(ctx, &toolpb.DescribeRequest{HostVersion: c.HostVersion, Capabilities: hostCapabilities})
	if err != nil {
		return nil, callError(err)
	}
	d := descriptionFromPB(r)
	for i := range d.Tools {
		d.Tools[i].Input, d.Tools[i].Output = compact(d.Tools[i].Input), compact(d.Tools[i].Output)
	}
	c.share(d)
	return d, nil
}

// Configure implements [tool.Plugin].
func (c *Client) Configure(ctx context.Context, conf tool.Configuration) ([]tool.Diagnostic, error) {
	r, err := c.rpc.Configure(ctx, &toolpb.ConfigureRequest{
		Config: conf.Config, Roots: mapSlice(conf.Roots, configuredRootToPB), StateDir: conf.StateDir,
		OutputBytes: conf.OutputBytes,
		HostVersion: conf.HostVersion,
	})
	if err != nil {
		return nil, callError(err)
	}
	return mapSlice(r.GetDiagnostics(), diagnosticFromPB), nil
}

// Health implements [tool.Plugin].
func (c *Client) Health(ctx context.Context, name string) (tool.Health, error) {
	r, err := c.rpc.Health(ctx, &toolpb.HealthRequest{Tool: name})
	if err != nil {
		return tool.Health{}, callError(err)
	}
	st, ok := healths.toGo[r.GetStatus()]
	if !ok {
		st = tool.Unhealthy
	}
	return tool.Health{Status: st, Message: r.GetMessage(), Details: r.GetDetails()}, nil
}

// Drain implements [tool.Plugin].
func (c *Client) Drain(ctx context.Context, grace time.Duration) (int, error) {
	r, err := c.rpc.Drain(ctx, &toolpb.DrainRequest{GraceMs: grace.Milliseconds()})
	if err != nil {
		return 0, callError(err)
	}
	return int(r.GetCanceled()), nil
}

// Hook implements [tool.Hook] for plugins with [tool.CapabilityHooks].
func (c *Client) Hook(ctx context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
	r, err := c.rpc.Hook(ctx, hookInputToPB(in))
	if err != nil {
		return nil, callError(err)
	}
	return hookAnswerFromPB(r)
}

// Invalidate implements [tool.Invalidator] for plugins with [tool.CapabilityInvalidate].
func (c *Client) Invalidate(ctx context.Context, i tool.Invalidation) error {
	r := &toolpb.InvalidateRequest{All: i.All}
	for _, p := range i.Paths {
		r.Paths = append(r.Paths, []byte(p)) // a path need not be UTF-8
	}
	if _, err := c.rpc.Invalidate(ctx, r); err != nil {
		return callError(err)
	}
	return nil
}

// Call implements [tool.Plugin]. When ctx ends, Call notifies the tool. If the tool does not answer within
// [CancelGrace], Call closes its stream and returns.
func (c *Client) Call(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
	if err := ctx.Err(); err != nil {
		return tool.Failed(tool.AsError(context.Cause(ctx)).From(tool.SourceHost))
	}
	l, err := c.line(ctx, call)
	if err != nil {
		return tool.Failed(callError(err))
	}
	conv := &conversation{ctx: ctx, line: l, peer: peer}
	var timeout time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), time.Millisecond)
	}
	start := &toolpb.CallRequest{Message: &toolpb.CallRequest_Start{Start: startToPB(call, timeout)}}
	var starting sync.Mutex // locked until Start is sent, because Cancel must not be sent before Start
	starting.Lock()
	stop := context.AfterFunc(ctx, func() {
		defer time.AfterFunc(CancelGrace, l.cut)
		reason := toolpb.Cancel_REASON_CANCELED
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			reason = toolpb.Cancel_REASON_DEADLINE
		}
		go func() {
			starting.Lock()
			defer starting.Unlock()
			_ = l.send(&toolpb.CallRequest{Message: &toolpb.CallRequest_Cancel{Cancel: &toolpb.Cancel{Reason: reason}}}) // ignore the error, because the stream is closed after the grace in any case
		}()
	})
	defer stop()
	// Ignore the error of send, because it only means that the stream has ended. The method listen returns the
	// reason.
	_ = l.send(start)
	starting.Unlock()
	res, err := conv.listen()
	conv.large.stop()
	switch {
	case err == nil:
		l.end()
		return res
	case ctx.Err() != nil && status.Code(err) == codes.Canceled:
		l.cut()
		e := tool.AsError(context.Cause(ctx))
		return tool.Failed(tool.Errorf(e.Kind, "%s (%s was abandoned because it did not stop within %s.)", e.Message, call.Tool, CancelGrace).From(tool.SourcePlugin).
			WithCause(ErrAbandoned))
	}
	l.cut()
	return tool.Failed(callError(err))
}

// line is the stream of one call. Its methods are safe for concurrent use, except recv.
type line interface {
	send(m *toolpb.CallRequest) error
	recv() (*toolpb.CallResponse, error)
	// end must be called after the result. The method "cut" must be called to abandon the call. Each of them
	// can be called twice.
	end()
	cut()
}

// line returns the stream for a call. A call that is usually short and can be abandoned without harm uses the shared
// stream. Every other call gets a stream of its own.
func (c *Client) line(ctx context.Context, call *tool.Call) (line, error) {
	if call.Method != "" {
		return c.exchange(ctx)
	}
	if shared := c.shared.Load(); shared != nil {
		if shared.takes(call.Tool) {
			return shared.begin(c.rpc)
		}
		return c.kept.begin(c.rpc)
	}
	// The stream must outlive ctx, so that a canceled call can still answer.
	streamCtx, cut := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := c.rpc.Call(streamCtx)
	if err != nil {
		cut()
		return nil, err
	}
	return &ownLine{stream: stream, cancel: cut}, nil
}

// ownLine is a stream that serves a single call.
type ownLine struct {
	stream interface {
		Send(m *toolpb.CallRequest) error
		Recv() (*toolpb.CallResponse, error)
	}
	cancel context.CancelFunc
	mu     sync.Mutex // locked during Send, which is not safe for concurrent use
}

func (l *ownLine) send(m *toolpb.CallRequest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream.Send(m)
}

func (l *ownLine) recv() (*toolpb.CallResponse, error) { return l.stream.Recv() }

// end waits until the plugin ends the stream. Plugins do this immediately after the result, and waiting is cheaper
// than resetting the stream. If the plugin does not end the stream in time, end resets it.
func (l *ownLine) end() {
	late := time.AfterFunc(endGrace, l.cancel)
	_, _ = l.stream.Recv()
	late.Stop()
	l.cancel()
}

func (l *ownLine) cut() { l.cancel() }

// conversation is the host's side of one call.
type conversation struct {
	ctx   context.Context
	line  line
	peer  tool.Peer
	large *largeResult // nil before the plugin announces a large result
}

// listen handles the plugin's messages. It returns the result when the result arrives.
func (c *conversation) listen() (*tool.Result, error) {
	for {
		m, err := c.line.recv()
		if err != nil {
			return nil, c.large.explain(err)
		}
		switch m := m.GetMessage().(type) {
		case *toolpb.CallResponse_Result:
			return c.large.or(m.Result), nil
		case *toolpb.CallResponse_ResultPart:
			if err := c.large.add(m.ResultPart); err != nil {
				return nil, err
			}
		case *toolpb.CallResponse_Progress:
			c.progress(m.Progress)
		case *toolpb.CallResponse_Output:
			s := tool.Stdout
			if m.Output.GetStream() == toolpb.Output_STREAM_STDERR {
				s = tool.Stderr
			}
			for chunk := range slices.Chunk(m.Output.GetChunk(), maxChunk) {
				c.peer.Output(s, chunk)
			}
		case *toolpb.CallResponse_Log:
			c.log(m.Log)
		case *toolpb.CallResponse_Ask:
			if a := m.Ask.GetAnnounce(); a != nil {
				if err := c.announced(m.Ask.GetId(), a.GetBytes()); err != nil {
					return nil, err
				}
				continue
			}
			go c.answer(m.Ask) // use a goroutine, because a person can take minutes while other messages must be handled
		case *toolpb.CallResponse_FileStateQuery:
			c.tellFileStates(m.FileStateQuery)
		}
	}
}

func (c *conversation) progress(p *toolpb.Progress) {
	if p.GetKeepsDirectory() {
		if k, ok := c.peer.(tool.DirectoryKeeper); ok {
			k.KeepsDirectory()
		}
		if p.GetTitle() == "" && len(p.GetMetadata()) == 0 {
			return
		}
	}
	c.peer.Progress(short(p.GetTitle()), fromJSONObject(p.GetMetadata()))
}

func (c *conversation) log(m *toolpb.Log) {
	l, ok := c.peer.(tool.Logger)
	if !ok {
		return
	}
	data := validJSON(m.GetData())
	if len(data) > maxNote {
		data = json.RawMessage(fmt.Sprintf(`"(a message of %d bytes)"`, len(data)))
	}
	l.Log(tool.LogMessage{Level: short(m.GetLevel()), Logger: short(m.GetLogger()), Data: data})
}

func (c *conversation) answer(a *toolpb.Ask) {
	var answer tool.Answer
	var err error
	if n := proto.Size(a); n > maxQuestion && (a.GetPermission() != nil || a.GetQuestion() != nil) {
		err = fmt.Errorf("the ask has %d bytes, and the limit is %d; nobody can read more", n, maxQuestion)
	} else {
		answer, err = c.peer.Ask(c.ctx, askFromPB(a))
	}
	if err != nil {
		answer = tool.Answer{Outcome: tool.NobodyToAsk, Message: err.Error()}
	}
	_ = c.line.send(&toolpb.CallRequest{Message: &toolpb.CallRequest_Answer{Answer: answerToPB(a.GetId(), answer)}})
}

func (c *conversation) tellFileStates(q *toolpb.FileStateQuery) {
	out := &toolpb.FileStates{QueryId: q.GetId()}
	// Ignore the error: without a state, the session does not know the file. The tool then refuses to change the
	// file, so no content is lost.
	states, _ := c.peer.FileStates(c.ctx, q.GetPaths()...)
	for _, s := range states {
		out.States = append(out.States, fileStateToPB(s))
	}
	_ = c.line.send(&toolpb.CallRequest{Message: &toolpb.CallRequest_FileStates{FileStates: out}})
}

// transportTexts lists how error messages of gRPC and of the connection begin. They do not help a user. A message from
// a plugin itself does not begin with these texts.
var transportTexts = []string{
	"rpc error", "stream terminated by", "error reading from server", "transport: ", "transport is closing", "connection error", "context deadline exceeded", "context canceled",
	"the client connection is closing", "closing transport", "keepalive", "unexpected EOF", "EOF", "server closed the stream", "grpc: ", "http2: ", "write unix", "read unix",
}

// callError converts the error of a failed RPC to the error of the call.
func callError(err error) *tool.Error {
	if errors.Is(err, io.EOF) {
		return tool.Errorf(tool.Internal, "The plugin ended the call without a result. Report this to the plugin's author.").From(tool.SourcePlugin)
	}
	st := status.Convert(err)
	kind, text := tool.Internal, st.Message()
	if slices.ContainsFunc(transportTexts, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		text = "The connection to the plugin failed during the call. Call the tool again; if that fails too, look at toolhost status."
	}
	switch st.Code() {
	case codes.Unavailable:
		kind = tool.Unavailable
	case codes.ResourceExhausted:
		kind, text = tool.ExecutionFailed, "The plugin's answer exceeds the size limit of a message ("+st.Message()+"). Ask for less in one call."
	case codes.Canceled:
		kind = tool.Canceled
	case codes.DeadlineExceeded:
		kind = tool.Timeout
	case codes.Unimplemented:
		text = "The plugin does not implement this part of the protocol (" + st.Message() + "). Rebuild it against a current SDK."
	}
	return tool.Errorf(kind, "%s", text).From(tool.SourcePlugin)
}
