package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/mcp/internal/message"
	"toolhost.dev/host/mcp/internal/outbox"
	"toolhost.dev/sdk/crew"
	"toolhost.dev/sdk/lines"
	"toolhost.dev/sdk/tool"
)

// Limits of a client's messages.
const (
	maxLine  = 64 << 20 // in bytes
	maxBatch = 1000     // messages; the answer to each can be longer than the message
)

// Revisions of the protocol that have batches are before noBatches. Compare revisions as text, because they are dates.
const noBatches = "2025-06-18"

// Serve serves one client over a pair of streams. It returns when the client closes in, or when the context parent is
// canceled. It closes in and out.
func (s *Server) Serve(parent context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	l := newStream(s, in, out)
	l.ctx, l.cancel = ctx, cancel
	defer func() {
		l.calls.Wait()
		l.crew.Dismiss()
	}()
	session, err := s.mcp.Connect(ctx, l, nil)
	if err != nil {
		return err
	}
	l.session = session
	go l.receive()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(cmp.Or(session.Wait(), io.EOF))
	}()
	<-ctx.Done() // the context also ends with the input
	_ = session.Close()
	<-ended
	err = context.Cause(ctx)
	if errors.Is(err, io.EOF) || parent.Err() != nil {
		return nil
	}
	return err
}

// stream is the connection of a client for the SDK. It passes only valid messages to the SDK, because the SDK ends a
// session after any other line, and answers the others. For clients with sessions, stream handles tool calls without
// the SDK, because the SDK takes several times as long as a short call.
type stream struct {
	server *Server
	//nolint:containedctx // that of Serve, which the reader cannot be given otherwise
	ctx     context.Context
	cancel  context.CancelCauseFunc
	session *mcp.ServerSession // set before the first message is read

	in     *lines.Reader
	source io.Closer
	out    io.Closer
	box    *outbox.Outbox
	ids    message.IDs

	passed chan jsonrpc.Message // messages for the SDK
	closed chan struct{}
	close  func() error

	calls sync.WaitGroup
	crew  crew.Crew // runs the calls

	mu       sync.Mutex
	open     map[jsonrpc.ID]*open // requests that are not answered
	revision string               // the negotiated revision of the protocol, or ""

	writes  atomic.Int32  // messages of the SDK that are being written
	written chan struct{} // receives a value after such a write
}

// open is a request that is not answered.
type open struct {
	id         json.RawMessage
	batch      *message.Batch          // the batch of the request, or nil
	initialize bool                    // whether the method is "initialize"
	cancel     context.CancelCauseFunc // nil if the SDK handles the request
}

func newStream(s *Server, in io.ReadCloser, out io.WriteCloser) *stream {
	l := &stream{
		server: s, in: lines.NewReader(in, maxLine), source: in, out: out, box: outbox.New(out), ids: message.NewIDs(),
		passed: make(chan jsonrpc.Message), closed: make(chan struct{}), open: make(map[jsonrpc.ID]*open),
		written: make(chan struct{}, 1),
	}
	l.close = sync.OnceValue(func() error {
		close(l.closed)
		return errors.Join(l.source.Close(), l.out.Close())
	})
	return l
}

// Connect implements [mcp.Transport].
func (l *stream) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SessionID implements [mcp.Connection]. A stream has one session, which needs no id.
func (l *stream) SessionID() string { return "" }

// Close closes both streams. A reader of the input cannot always be woken, so Read does not wait for it.
func (l *stream) Close() error { return l.close() }

// Read returns the next message that the SDK must handle.
func (l *stream) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-l.passed:
		return m, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	case <-l.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message of the SDK.
func (l *stream) Write(_ context.Context, m jsonrpc.Message) error {
	l.writes.Add(1)
	defer l.wrote()
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	line = append(l.ids.ForClient(line), '\n')
	if res, ok := m.(*jsonrpc.Response); ok {
		request := l.end(res.ID, nil)
		if request != nil && request.initialize {
			l.negotiated(res)
		}
		if request != nil && request.batch != nil {
			if line = request.batch.Done(line); line == nil {
				return nil
			}
		}
	}
	_, err = l.box.Write(line)
	return err
}

// negotiated records the revision of the protocol that an answer to "initialize" names.
func (l *stream) negotiated(res *jsonrpc.Response) {
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if res.Error != nil || json.Unmarshal(res.Result, &result) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision = result.ProtocolVersion
}

// receive handles the lines of the client until the input ends. It ends all calls then, because the client
// disconnected.
func (l *stream) receive() {
	for {
		line, err := l.line()
		if err != nil {
			l.drain()
			l.cancel(err)
			return
		}
		if len(line) > 0 {
			l.take(line)
		}
	}
}

// line returns the next line of the client without surrounding white space. It answers a line that is too long with an
// error and continues.
func (l *stream) line() ([]byte, error) {
	for {
		line, err := l.in.Read()
		var tooLong *lines.TooLongError
		switch {
		case errors.As(err, &tooLong):
			l.dropped(line)
			if tooLong.Err != nil {
				return nil, tooLong.Err
			}
			continue
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0: // the last line can lack a line feed
		case err != nil:
			return nil, err
		}
		return message.Trim(line), nil
	}
}

// dropped answers a line that is too long. A request of the SDK whose answer is too long fails.
func (l *stream) dropped(head []byte) {
	text := fmt.Sprintf("The message is larger than %d MiB and was dropped. Send smaller messages.", maxLine>>20)
	id, response := message.Head(head)
	switch {
	case !response:
		l.refuse(&message.Message{ID: id, Code: jsonrpc.CodeInvalidRequest, Problem: text}, nil)
	case id != nil:
		l.respond(id, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: text})
	}
}

// take handles a line of the client.
func (l *stream) take(line []byte) {
	m := message.Read(line)
	if m.Kind != message.Array {
		l.handle(m, nil)
		return
	}
	l.mu.Lock()
	revision := l.revision
	l.mu.Unlock()
	refuse := func(format string, a ...any) {
		l.refuse(message.NewInvalid(format, a...), nil)
	}
	switch n := len(m.Elements); {
	case revision == "":
		refuse("The message is a batch, and the session is not initialized with a revision that has batches. Send one message per line.")
	case revision >= noBatches:
		refuse("The message is a batch, and revision %s of the protocol has none. Send one message per line.", revision)
	case n == 0:
		refuse("The batch is empty.")
	case n > maxBatch:
		refuse("The batch has %d messages, and %d are allowed. Send several batches.", n, maxBatch)
	default:
		batch := message.NewBatch(n)
		for _, element := range m.Elements {
			l.handle(message.One(element), batch)
		}
	}
}

// handle handles a message. The batch is nil for a message that is a line.
func (l *stream) handle(m *message.Message, batch *message.Batch) {
	switch m.Kind {
	case message.Request:
		l.request(m, batch)
		return
	case message.Invalid:
		l.refuse(m, batch)
		return
	case message.Notification:
		l.notification(m)
	case message.Response:
		l.response(m)
	case message.Ignored, message.Array:
		l.server.opts.Log.Warn("a message of the client was ignored", "why", m.Problem)
	}
	if batch != nil {
		l.post(batch.Done(nil))
	}
}

// request handles a request.
func (l *stream) request(m *message.Message, batch *message.Batch) {
	invalid := func(format string, a ...any) {
		m.Code, m.Problem = jsonrpc.CodeInvalidRequest, fmt.Sprintf(format, a...)
		l.refuse(m, batch)
	}
	if batch != nil && m.Method == "initialize" {
		invalid("The request initialize cannot be in a batch. Send it as the first line.")
		return
	}
	id := l.ids.ForSDK(m.ID)
	now := &open{id: m.ID, batch: batch, initialize: m.Method == "initialize"}
	if !l.begin(id, now) {
		invalid("The id %.100s belongs to a request that is still running. Each request needs its own id.", m.ID)
		return
	}
	if m.Method == "tools/call" && l.call(m, id, now) {
		return
	}
	if m = m.CheckDepth(); m.Kind == message.Invalid {
		l.end(id, now)
		l.refuse(m, batch)
		return
	}
	l.pass(&jsonrpc.Request{ID: id, Method: m.Method, Params: m.Params})
}

// begin records a request. It returns false if a request with the same id is not answered.
func (l *stream) begin(id jsonrpc.ID, request *open) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[id] != nil {
		return false
	}
	l.open[id] = request
	return true
}

// end removes a request, so that its id can be used again, and returns it. It returns nil if the id is unknown or
// belongs to another request than only. A nil only means any request.
func (l *stream) end(id jsonrpc.ID, only *open) *open {
	l.mu.Lock()
	defer l.mu.Unlock()
	request := l.open[id]
	if only != nil && request != only {
		return nil
	}
	delete(l.open, id)
	return request
}

// notification handles a notification.
func (l *stream) notification(m *message.Message) {
	if m.Method != "notifications/cancelled" {
		l.pass(&jsonrpc.Request{Method: m.Method, Params: m.Params})
		return
	}
	id := message.Canceled(m.Params)
	if id == nil {
		return
	}
	own := l.ids.ForSDK(id)
	l.mu.Lock()
	request := l.open[own]
	l.mu.Unlock()
	switch {
	case request == nil: // it is already answered
	case request.cancel != nil:
		l.end(own, request) // the client can use the id again, because the call is not answered
		request.cancel(context.Canceled)
	default:
		params, _ := json.Marshal(map[string]any{"requestId": own.Raw()}) // it can always be encoded
		l.pass(&jsonrpc.Request{Method: m.Method, Params: params})
	}
}

// response handles the response to a request of the SDK.
func (l *stream) response(m *message.Message) {
	var failed *jsonrpc.Error
	if m.Error != nil && json.Unmarshal(m.Error, &failed) != nil {
		failed = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the client answered with an error that is not valid: %.200s", m.Error)}
	}
	l.respond(m.ID, m.Result, failed)
}

func (l *stream) respond(id, result json.RawMessage, failed *jsonrpc.Error) {
	own, ok := message.OfResponse(id)
	if !ok {
		return // no request has the id
	}
	res := &jsonrpc.Response{ID: own, Result: result}
	if failed != nil {
		res.Error = failed
	}
	l.pass(res)
}

// pass sends a message to the SDK.
func (l *stream) pass(m jsonrpc.Message) {
	select {
	case l.passed <- m:
	case <-l.closed:
	case <-l.ctx.Done():
	}
}

// call starts a tool call. It returns false for a request that the SDK must handle.
func (l *stream) call(m *message.Message, id jsonrpc.ID, request *open) bool {
	if p := l.session.InitializeParams(); p == nil || p.ProtocolVersion >= stateless {
		return false
	}
	params := message.CallParams(m.Params)
	if params == nil {
		return false
	}
	f, ok := l.server.function(params.Name)
	if !ok || f.Tool == searchTool { // the middleware adds the found tools to the client's list
		return false
	}
	workspace, known := l.server.roots.peek(l.session)
	if !known {
		return false // the client's roots arrive on this stream, so its reader must not wait for them
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	l.mu.Lock()
	request.cancel = cancel
	l.mu.Unlock()
	in := toolCall(&mcp.CallToolRequest{Session: l.session, Params: params})
	call, bad := l.server.request(f, in, params.Arguments)
	call.Workspace = workspace
	front := &front{silent: l.server.silent(), patience: l.server.opts.AskTimeout, beside: l.server.opts.Beside}
	var pending *host.Pending
	if bad == nil {
		pending = l.server.host.Begin(call, front) // in this goroutine, so that calls keep the order of their requests
	}
	l.work(func() {
		var res *mcp.CallToolResult
		var refused error
		if bad != nil {
			res = toResult(tool.Failed(bad), f)
		} else {
			now := &run{ctx: ctx}
			now.attach(ctx, in)
			front.begin(now)
			result := l.server.runCall(ctx, call, front, pending)
			front.end()
			refused = protocolError(result, f)
			res = toResult(result, f)
		}
		canceled := l.end(id, request) == nil || ctx.Err() != nil
		cancel(nil)
		l.answer(request, canceled, refused, res)
	})
	return true
}

// answer answers a call. A canceled request has no answer, because the client expects none.
func (l *stream) answer(request *open, canceled bool, refused error, res *mcp.CallToolResult) {
	var e *jsonrpc.Error
	switch {
	case canceled && request.batch == nil:
	case canceled:
		l.post(request.batch.Done(nil))
	case errors.As(refused, &e):
		l.writeError(request.id, e, request.batch)
	default:
		l.writeResponse(request.id, res, request.batch)
	}
}

// work runs a call. Serve waits for its end.
func (l *stream) work(f func()) {
	l.calls.Add(1)
	l.crew.Go(func() {
		defer l.calls.Done()
		f()
	})
}

// send sends an answer, or adds it to those of its batch.
func (l *stream) send(line []byte, batch *message.Batch) {
	if batch != nil {
		line = batch.Done(line)
	}
	l.post(line)
}

// post sends a line that is not nil.
func (l *stream) post(line []byte) {
	if line != nil {
		l.box.Post(line)
	}
}

// refuse answers an invalid message with an error. The error does not have the id of a request that is still running,
// because the client would take it for the answer to that request.
func (l *stream) refuse(m *message.Message, batch *message.Batch) {
	l.server.opts.Log.Warn("a message of the client was rejected", "why", m.Problem)
	id := m.ID
	if id != nil {
		own := l.ids.ForSDK(id)
		l.mu.Lock()
		if l.open[own] != nil {
			id = nil
		}
		l.mu.Unlock()
	}
	l.writeError(id, &jsonrpc.Error{Code: int64(m.Code), Message: m.Problem}, batch)
}

// function returns the offered function with the given name.
func (s *Server) function(name string) (function, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.offered, func(f function) bool { return f.Name == name })
	if i < 0 {
		return function{}, false
	}
	return s.offered[i], true
}
