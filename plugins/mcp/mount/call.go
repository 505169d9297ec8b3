package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// running contains the running calls of a connection. The map key is the token that the server uses in progress
// notifications.
type running struct {
	mu      sync.Mutex
	last    int
	byToken map[string]*active
}

// active is one running call.
type active struct {
	*sdk.Call
	silence *silence
	// canceled is closed when the call is canceled. The channel "told" is closed when the server has been notified of
	// the cancellation.
	canceled <-chan struct{}
	told     chan struct{}
	tell     func()       // closes the channel "told"
	asked    atomic.Int64 // the number of requests to the client; a server can send several at once
	events   events
}

// silence is the timeout of a call. It ends the call if the server sends nothing for too long. It stands still while
// the server waits for the user.
type silence struct {
	limit time.Duration

	mu        sync.Mutex
	timer     *time.Timer
	questions int // the number of questions that the user has not answered yet
}

func newSilence(limit time.Duration, end func()) *silence {
	return &silence{limit: limit, timer: time.AfterFunc(limit, end)}
}

// heard restarts the timeout, because the server sent something.
func (s *silence) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.questions == 0 {
		s.timer.Reset(s.limit)
	}
}

// wait stops the timeout while the user thinks. The caller must call the function "answered" after the answer.
func (s *silence) wait() (answered func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.questions++
	s.timer.Stop()
	return func() {
		s.mu.Lock()
		s.questions--
		s.mu.Unlock()
		s.heard()
	}
}

// stop stops the timeout for good.
func (s *silence) stop() { s.wait() }

// events is the queue of a call's notifications. A caller that receives its notifications slowly must not delay the
// calls of other callers on the same connection.
type events struct {
	mu      sync.Mutex
	queue   chan func()
	drained chan struct{} // closed after the last notification was sent
	ended   bool
}

// maxEvents is the maximum number of queued notifications of a call. Further notifications are dropped.
const maxEvents = 256

// post queues a notification.
func (e *events) post(send func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	if e.queue == nil {
		queue, drained := make(chan func(), maxEvents), make(chan struct{})
		e.queue, e.drained = queue, drained
		go func() {
			defer close(drained)
			for send := range queue {
				send()
			}
		}()
	}
	select {
	case e.queue <- send:
	default:
	}
}

// end waits until the queued notifications are sent, because they must come before the result.
func (e *events) end() {
	e.mu.Lock()
	e.ended = true
	queue, drained := e.queue, e.drained
	e.mu.Unlock()
	if queue == nil {
		return
	}
	close(queue)
	select {
	case <-drained:
	case <-time.After(cancelWait):
	}
}

func newActive(ctx context.Context, call *sdk.Call, silence *silence) *active {
	a := &active{Call: call, silence: silence, canceled: ctx.Done(), told: make(chan struct{})}
	a.tell = sync.OnceFunc(func() { close(a.told) })
	return a
}

// canceledIn returns the canceled call to which a message with this context belongs. If the call is not canceled,
// canceledIn returns nil. If the call is canceled, the message notifies the server of the cancellation.
func canceledIn(ctx context.Context) *active {
	a, ok := ctx.Value(activeKey{}).(*active)
	if !ok {
		return nil
	}
	select {
	case <-a.canceled:
		return a
	default:
		return nil
	}
}

func (r *running) add(a *active) (token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byToken == nil {
		r.byToken = make(map[string]*active)
	}
	r.last++
	token = strconv.Itoa(r.last)
	r.byToken[token] = a
	return token
}

func (r *running) remove(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byToken, token)
}

func (r *running) get(token string) *active {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byToken[token]
}

// ofOneSession returns a running call if all running calls belong to one session. Otherwise it returns nil, because in
// the older protocol a request of a server does not name its call, and another session can belong to another user.
func (r *running) ofOneSession() *active {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *active
	for _, a := range r.byToken {
		if found != nil && a.SessionID != found.SessionID {
			return nil
		}
		found = a
	}
	return found
}

var errSilent = errors.New("silent")

// cancelWait is the maximum time that a canceled call waits until the server is notified.
const cancelWait = time.Second

type activeKey struct{}

// call runs a tool of the server.
func (m *mount) call(ctx context.Context, call *sdk.Call, name string, args json.RawMessage) (*sdk.Result, error) {
	c, done, err := m.connFor(ctx, call)
	if err != nil {
		return nil, err
	}
	defer done()
	params := &mcp.CallToolParams{Name: name, Arguments: args, Meta: m.meta(call)}
	res, err := during(ctx, c, call, func(ctx context.Context, a *active, token string) (*mcp.CallToolResult, error) {
		params.SetProgressToken(token)
		return rounds(ctx, c, a, func() (*mcp.CallToolResult, mcp.InputRequestMap, string, error) {
			res, err := c.callTool(ctx, params)
			if err != nil {
				return nil, nil, "", err
			}
			return res, res.InputRequests, res.RequestState, nil
		}, func(answers mcp.InputResponseMap, state string) {
			params.InputResponses, params.RequestState = answers, state
		})
	})
	if err != nil {
		return nil, err
	}
	return result(res)
}

// during sends a request to the server and waits for the answer. It cancels the request if the server sends nothing for
// too long.
func during[R any](ctx context.Context, c *conn, call *sdk.Call,
	send func(ctx context.Context, a *active, token string) (R, error)) (R, error) {
	m := c.mount
	var none R
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := newActive(ctx, call, newSilence(m.limits.Call, func() { cancel(errSilent) }))
	defer a.silence.stop()
	token := c.calls.add(a)
	defer func() {
		c.calls.remove(token)
		c.reportDropped(a, c.flood.rest(a.SessionID))
		a.events.end()
	}()
	type answer struct {
		res R
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		res, err := send(context.WithValue(ctx, activeKey{}, a), a, token)
		answers <- answer{res, err}
	}()
	var got answer
	select {
	case got = <-answers:
	case <-ctx.Done():
		select {
		case got = <-answers:
		case <-time.After(cancelWait):
			got.err = ctx.Err()
		}
	}
	if got.err != nil && ctx.Err() != nil { // wait until the server is notified, because this process can end after the result
		select {
		case <-a.told:
		case <-time.After(cancelWait):
		}
	}
	if got.err == nil {
		return got.res, nil
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		return none, sdk.Errorf(tool.Timeout, "The call was canceled because the MCP server sent neither an answer nor progress for %s. Ask for less, or raise timeout in the field block.", m.limits.Call)
	case cause != nil:
		return none, cause
	}
	return none, c.failure(got.err)
}

// meta returns the metadata of a request to the server. The metadata contains the kinds of requests that the server may
// send to the caller, and the log level that the caller wants.
func (m *mount) meta(call *sdk.Call) mcp.Meta {
	meta := mcp.Meta{}
	if call.Client == nil {
		return meta
	}
	var has map[string]json.RawMessage
	_ = json.Unmarshal(call.Client.Capabilities, &has) // a client without valid capabilities has none
	may := map[string]any{}
	if m.cfg.allows(allowSampling) && has["sampling"] != nil {
		may["sampling"] = has["sampling"]
	}
	if m.cfg.allows(allowRoots) && has["roots"] != nil {
		may["roots"] = has["roots"]
	}
	var modes map[string]json.RawMessage
	if has["elicitation"] != nil && json.Unmarshal(has["elicitation"], &modes) == nil {
		ask := map[string]any{}
		if m.cfg.allows(allowForm) && (modes["form"] != nil || modes["url"] == nil) {
			ask["form"] = struct{}{}
		}
		if m.cfg.allows(allowURL) && modes["url"] != nil {
			ask["url"] = struct{}{}
		}
		if len(ask) > 0 {
			may["elicitation"] = ask
		}
	}
	meta[mcp.MetaKeyClientCapabilities] = may
	if call.Client.LogLevel != "" && m.cfg.offers(offerLogging) {
		meta[mcp.MetaKeyLogLevel] = call.Client.LogLevel //nolint:staticcheck // servers still read it
	}
	return meta
}

// codeRejected is the SDK's error code for a request that a remote server refused without an answer.
const codeRejected = -32005

// failure converts the error of a request to the server to an error for the host.
func (c *conn) failure(err error) error {
	var refused *tool.Error
	if errors.As(err, &refused) {
		return err
	}
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		if c.key == "" { // the shared connection has ended, and the method "watch" ends this process during the sleep
			time.Sleep(4 * endWait)
		}
		return sdk.Errorf(tool.Unavailable, "The connection to the MCP server ended during the call: %s", clean(err.Error(), maxMessage)).From(tool.SourcePlugin)
	}
	if e.Code == codeRejected { // this process made the error, and the text around the message contains the cause
		text := strings.TrimPrefix(err.Error()[strings.LastIndex(err.Error(), e.Message)+len(e.Message):], ": ")
		return sdk.Errorf(tool.Unavailable, "The MCP server refused the request: %s", clean(text, maxMessage)).
			From(tool.SourcePlugin)
	}
	kind := tool.ExecutionFailed
	switch e.Code {
	case jsonrpc.CodeInvalidParams:
		kind = tool.InvalidArguments
	case jsonrpc.CodeMethodNotFound:
		kind = tool.NotFound
	}
	text := clean(e.Message, maxMessage)
	if text == "" {
		text = fmt.Sprintf("The MCP server refused the call with the error code %d and without a message.", e.Code)
	}
	out := sdk.Errorf(kind, "%s", text).WithCode(int(e.Code))
	if len(e.Data) <= maxErrorData && json.Valid(e.Data) {
		out.Data = e.Data
	}
	return out
}

// maxErrorData is the maximum size of the data of an error, in bytes.
const maxErrorData = 64 << 10

// progress forwards a progress notification of the server to the host.
func (c *conn) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	a := c.calls.get(token)
	if a == nil {
		return
	}
	a.silence.heard()
	title := clean(r.Params.Message, maxMessage)
	if title == "" {
		title = strconv.FormatFloat(r.Params.Progress, 'g', 4, 64)
		if r.Params.Total > 0 {
			title += " of " + strconv.FormatFloat(r.Params.Total, 'g', 4, 64)
		}
	}
	metadata := map[string]any{"progress": r.Params.Progress}
	if r.Params.Total > 0 {
		metadata["total"] = r.Params.Total
	}
	a.events.post(func() { a.Progress(title, metadata) })
}
