package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// running contains the running calls. The map key is the token that the server uses in progress notifications.
type running struct {
	mu      sync.Mutex
	last    int
	byToken map[string]*active
}

// active is one running call.
type active struct {
	*sdk.Call
	// alive restarts the timeout of the call when the server is active. pause stops the timeout while the server
	// waits for the user.
	alive, pause func()
	// canceled is closed when the call is canceled. told is closed when the server has been notified of the
	// cancellation.
	canceled <-chan struct{}
	told     chan struct{}
	tell     func() // closes the channel "told"
}

func newActive(ctx context.Context, call *sdk.Call, alive, pause func()) *active {
	a := &active{Call: call, alive: alive, pause: pause, canceled: ctx.Done(), told: make(chan struct{})}
	a.tell = sync.OnceFunc(func() { close(a.told) })
	return a
}

// canceledIn returns the canceled call to which a message with this context belongs. If the call is not canceled,
// canceledIn returns nil. For a canceled call, the message notifies the server of the cancellation.
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

// This method returns the running call if exactly one call is running. Otherwise it returns nil.
func (r *running) only() *active {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byToken) != 1 {
		return nil
	}
	for _, a := range r.byToken {
		return a
	}
	return nil
}

var errSilent = errors.New("silent")

// cancelWait is the maximum time that a canceled call waits until the server is notified.
const cancelWait = time.Second

type activeKey struct{}

// This method runs a tool of the server.
func (m *mount) call(ctx context.Context, call *sdk.Call, name string, args json.RawMessage) (*sdk.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(m.limits.Call, func() { cancel(errSilent) })
	defer silence.Stop()
	a := newActive(ctx, call, func() { silence.Reset(m.limits.Call) }, func() { silence.Stop() })
	token := m.calls.add(a)
	defer m.calls.remove(token)
	params := &mcp.CallToolParams{Name: name, Arguments: args, Meta: mcp.Meta{}}
	params.SetProgressToken(token)

	type answer struct {
		res *mcp.CallToolResult
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		res, err := m.session.CallTool(context.WithValue(ctx, activeKey{}, a), params)
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
		return result(got.res)
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		return nil, sdk.Errorf(tool.Timeout, "The call was canceled because the MCP server sent neither an answer nor progress for %s. Ask for less, or raise timeout in the field block.", m.limits.Call)
	case cause != nil:
		return nil, cause
	}
	return nil, m.failure(got.err)
}

// failure converts the error of a request to the server to an error for the host.
func (m *mount) failure(err error) error {
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		// The connection has ended. The method watch ends this process during the sleep.
		time.Sleep(4 * endWait)
		return sdk.Errorf(tool.Unavailable, "The connection to the MCP server ended during the call: %s", clean(err.Error(), maxMessage)).From(tool.SourcePlugin)
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
	return sdk.Errorf(kind, "%s", text).WithCode(int(e.Code))
}

// progress forwards a progress notification of the server to the host.
func (m *mount) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	a := m.calls.get(token)
	if a == nil {
		return
	}
	a.alive()
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
	a.Progress(title, metadata)
}

// result converts the server's result of a call to a result for the host.
func result(r *mcp.CallToolResult) (*sdk.Result, error) {
	out := new(sdk.Result)
	var texts []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			texts = append(texts, c.Text)
		case *mcp.ImageContent:
			out.Attachments = append(out.Attachments, sdk.Attachment{Type: "image", MediaType: c.MIMEType, Content: c.Data})
		case *mcp.AudioContent:
			out.Attachments = append(out.Attachments, sdk.Attachment{Type: "file", MediaType: c.MIMEType, Content: c.Data})
		case *mcp.EmbeddedResource:
			if c.Resource == nil {
				continue
			}
			content := c.Resource.Blob
			if content == nil {
				content = []byte(c.Resource.Text)
			}
			out.Attachments = append(out.Attachments, sdk.Attachment{Type: "file", Path: c.Resource.URI, MediaType: c.Resource.MIMEType, Content: content})
		case *mcp.ResourceLink:
			texts = append(texts, link(c))
		}
	}
	if r.StructuredContent != nil {
		b, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return nil, sdk.Errorf(tool.ExecutionFailed, "The MCP server's structured result cannot be used: %w", err)
		}
		out.Data = b
		if len(r.Content) == 0 {
			texts = append(texts, string(b))
		}
	}
	out.Output = strings.Join(texts, "\n")
	if !r.IsError {
		return out, nil
	}
	why := out.Output
	if strings.TrimSpace(why) == "" {
		why = "The MCP server's tool failed without a message."
	}
	return out, sdk.Errorf(tool.ExecutionFailed, "%s", why)
}

func link(l *mcp.ResourceLink) string {
	text := "Resource " + l.URI
	for _, s := range []string{l.Title, l.Name} {
		if s != "" {
			text += " (" + s + ")"
			break
		}
	}
	if l.Description != "" {
		text += ": " + l.Description
	}
	return text
}
