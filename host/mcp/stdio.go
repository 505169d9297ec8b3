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
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/host/mcp/internal/outbox"
	"toolhost.dev/sdk/crew"
	"toolhost.dev/sdk/lines"
	"toolhost.dev/sdk/tool"
)

// Limits of a client's message.
const (
	maxLine  = 64 << 20 // in bytes
	maxDepth = 500      // nesting levels; the SDK ends a session at 1000
)

// Serve serves one client over a pair of streams. It returns when the client closes in, or when the context parent is
// canceled. It closes in and out.
func (s *Server) Serve(parent context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	l := &stream{server: s, ctx: ctx, cancel: cancel, in: lines.NewReader(in, maxLine), Outbox: outbox.New(out), out: out, source: in, running: make(map[string]context.CancelCauseFunc)}
	defer func() {
		l.calls.Wait()
		l.crew.Dismiss()
	}()
	session, err := s.mcp.Connect(ctx, &mcp.IOTransport{Reader: l, Writer: l, MaxLineLength: maxLine + 1}, nil)
	if err != nil {
		return err
	}
	l.session.Store(session)
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

// stream is the connection of a client for the SDK. For clients with sessions, stream handles tool calls without the
// SDK, because the SDK takes several times as long as a short call. stream also answers lines that are not JSON or too
// long, because the SDK would end the session.
type stream struct {
	server *Server
	//nolint:containedctx // that of Serve, which the reader cannot be given otherwise
	ctx    context.Context
	cancel context.CancelCauseFunc
	in     *lines.Reader
	source io.Closer
	rest   []byte // unread part of the current line

	session atomic.Pointer[mcp.ServerSession]

	*outbox.Outbox
	out io.Closer

	calls   sync.WaitGroup
	crew    crew.Crew // runs the calls
	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // cancel functions by request id
}

// Read returns the client's messages that the SDK must handle. It handles all other messages itself.
func (l *stream) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		if err != nil {
			l.cancel(err) // cancel all calls, because the client disconnected
			return 0, err
		}
		if l.take(line) {
			line = append(line, '\n')
			l.rest = line
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close closes both streams.
func (l *stream) Close() error { return errors.Join(l.source.Close(), l.out.Close()) }

// line returns the next line of the client without surrounding white space. It answers a line that is too long with an
// error and continues.
func (l *stream) line() ([]byte, error) {
	for {
		line, err := l.in.Read()
		var tooLong *lines.TooLongError
		switch {
		case errors.As(err, &tooLong):
			l.refuse(line, jsonrpc.CodeInvalidRequest, fmt.Sprintf("The message is larger than %d MiB and was dropped. Send smaller messages.", maxLine>>20))
			if tooLong.Err != nil {
				return nil, tooLong.Err
			}
			continue
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0: // the last line can lack a line feed
		case err != nil:
			return nil, err
		}
		return bytes.TrimSpace(line), nil
	}
}

// request holds the fields of a message that stream needs.
type request struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      mcp.Meta        `json:"_meta"`
		// These fields continue an earlier call or belong to a later protocol revision.
		RequestState   json.RawMessage `json:"requestState"`
		InputResponses json.RawMessage `json:"inputResponses"`
		Task           json.RawMessage `json:"task"`
		// RequestID is the call to cancel in the message "notifications/cancelled".
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

var (
	methodCall   = []byte(`"tools/call"`)
	methodCancel = []byte(`"notifications/cancelled"`)
)

// take handles a line of the client. It returns true if the SDK must handle the line instead.
func (l *stream) take(line []byte) bool {
	if len(line) == 0 {
		return false
	}
	if line[0] == '{' && (bytes.Contains(line, methodCall) || bytes.Contains(line, methodCancel)) {
		var r request
		if json.Unmarshal(line, &r) == nil && (l.call(&r) || l.canceled(&r)) {
			return false
		}
	}
	switch {
	case depth(line) > maxDepth:
		l.refuse(line, jsonrpc.CodeInvalidParams, fmt.Sprintf("The message is nested more than %d levels deep and was dropped. Send arguments with less nesting.", maxDepth))
	case !json.Valid(line):
		l.refuse(nil, jsonrpc.CodeParseError, "The line is not JSON. Each message is one line of JSON.")
	default:
		return true
	}
	return false
}

// depth returns the maximum nesting depth of a JSON text.
func depth(line []byte) int {
	most := 0
	scan(line, func(_, now int) bool {
		most = max(most, now)
		return true
	})
	return most
}

// scan iterates over a JSON text that can be truncated or nested too deeply for the decoder. It calls at for each byte
// outside strings and for each opening quote, until at returns false.
func scan(line []byte, at func(i, depth int) bool) {
	now, quoted := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
			continue
		case c == '"':
			if quoted = !quoted; !quoted {
				continue
			}
		case quoted:
			continue
		case c == '{' || c == '[':
			now++
		case c == '}' || c == ']':
			now--
		}
		if !at(i, now) {
			return
		}
	}
}

var idKey = lazyregexp.New(`^"id"\s*:\s*("[^"\\]{0,200}"|-?[0-9]{1,20})\s*[,}]`)

// idOf returns the id of a request that cannot be decoded. It returns "null" if it finds no id.
func idOf(line []byte) []byte {
	id := []byte("null")
	scan(line, func(i, depth int) bool {
		if depth == 1 && line[i] == '"' {
			if m := idKey.FindSubmatch(line[i:min(len(line), i+400)]); m != nil {
				id = m[1]
				return false
			}
		}
		return true
	})
	return id
}

// call starts a tool call. It returns false for a request that the SDK must handle.
func (l *stream) call(r *request) bool {
	session := l.session.Load()
	if r.Method != "tools/call" || r.JSONRPC != "2.0" || session == nil || r.Params.RequestState != nil || r.Params.InputResponses != nil || r.Params.Task != nil {
		return false
	}
	if p := session.InitializeParams(); p == nil || p.ProtocolVersion >= stateless {
		return false
	}
	if len(r.ID) == 0 || r.ID[0] != '"' && r.ID[0] != '-' && (r.ID[0] < '0' || r.ID[0] > '9') {
		return false
	}
	f, ok := l.server.function(r.Params.Name)
	if !ok || f.Tool == searchTool { // the middleware adds the found tools to the client's list
		return false
	}
	workspace, known := l.server.roots.peek(session)
	if !known {
		return false // the client's roots arrive on this stream, so its reader must not wait for them
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	if !l.add(string(r.ID), cancel) {
		cancel(nil)
		return false // another running request has the same id
	}
	in := toolCall(&mcp.CallToolRequest{Session: session, Params: &mcp.CallToolParamsRaw{Meta: r.Params.Meta, Name: r.Params.Name, Arguments: r.Params.Arguments}})
	call, bad := l.server.request(f, in, r.Params.Arguments)
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
		canceled := ctx.Err() != nil
		l.remove(string(r.ID))
		cancel(nil)
		var e *jsonrpc.Error
		switch {
		case canceled: // do not answer a canceled request, because the client expects no response
		case errors.As(refused, &e):
			l.writeError(r.ID, e)
		default:
			l.writeResponse(r.ID, res)
		}
	})
	return true
}

// work runs a call. Serve waits for its end.
func (l *stream) work(f func()) {
	l.calls.Add(1)
	l.crew.Go(func() {
		defer l.calls.Done()
		f()
	})
}

// writeError answers a request with an error of the protocol.
func (l *stream) writeError(id json.RawMessage, e *jsonrpc.Error) {
	line, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	if err == nil {
		l.Post(append(line, '\n'))
	}
}

// canceled handles a cancel notification for a running call. It returns false for other messages.
func (l *stream) canceled(r *request) bool {
	if r.Method != "notifications/cancelled" {
		return false
	}
	l.mu.Lock()
	cancel := l.running[string(r.Params.RequestID)]
	l.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel(context.Canceled)
	return true
}

func (l *stream) add(id string, cancel context.CancelCauseFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[id] != nil {
		return false
	}
	l.running[id] = cancel
	return true
}

func (l *stream) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
}

// refuse answers an invalid line with an error.
func (l *stream) refuse(line []byte, code int, message string) {
	l.server.opts.Log.Warn("a message of the client was rejected", "why", message)
	b, _ := json.Marshal(message)
	l.Post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`+"\n", idOf(line), code, b))
}

// The method "function" returns the offered function with the given name.
func (s *Server) function(name string) (function, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.offered, func(f function) bool { return f.Name == name })
	if i < 0 {
		return function{}, false
	}
	return s.offered[i], true
}
