package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// handler returns the handler for calls of one function.
func (s *Server) handler(f function) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		in, f := toolCall(req), called(ctx, f)
		in.about[1] = f.Name // the request can have the name of the search; see foundKey
		in.place = s.place(f.plugin)
		out, bad, err := s.serve(ctx, in, func() (host.Request, *tool.Error) {
			return s.request(f, in, req.Params.Arguments)
		})
		switch {
		case err != nil:
			return nil, err
		case bad != nil:
			return toResult(tool.Failed(bad), f), nil
		case out.requests != nil:
			return s.addHandle(in, &mcp.CallToolResult{InputRequests: out.requests, RequestState: out.state}), nil
		}
		if err := protocolError(out.result, f); err != nil {
			return nil, err
		}
		return s.addHandle(in, toResult(out.result, f)), nil
	}
}

// explained adds the reason to the error about an unknown tool if the plugin of the tool was not loaded.
func (s *Server) explained(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if call, ok := req.(*mcp.CallToolRequest); ok && err != nil {
			_, known := s.function(call.Params.Name)
			if why := s.host.WhyUnloaded(call.Params.Name); why != "" && !known {
				err = &jsonrpc.Error{
					Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q: %s", call.Params.Name, why),
				}
			}
		}
		return res, err
	}
}

// protocolError returns the error of a mounted server about a capability that the client lacks. Clients understand it
// only as an error of the protocol.
func protocolError(res *tool.Result, f function) error {
	if e := res.Error; e != nil && f.mounted && e.Source == tool.SourceTool &&
		e.Code == mcp.CodeMissingRequiredClientCapabilities {
		return &jsonrpc.Error{Code: int64(e.Code), Message: e.Message, Data: e.Data}
	}
	return nil
}

// serve carries out a request of a client: it begins a call, or continues a parked one. The function "build" returns
// the request for the host.
func (s *Server) serve(ctx context.Context, in *incoming,
	build func() (host.Request, *tool.Error)) (out outcome, bad *tool.Error, err error) {
	silent := s.silent()
	ctx, done := s.posts.follow(ctx, in.header(postHeader), !silent)
	defer done()
	var earlier *continued
	if in.state != "" {
		if out, earlier, err = s.parked.resume(ctx, in); earlier == nil {
			return out, nil, err
		}
	}
	workspace, leave := s.roots.enter(ctx, in.session)
	defer leave()
	call, bad := build()
	if bad != nil {
		return out, bad, nil
	}
	call.Workspace = cmp.Or(in.header(workspaceHeader), workspace)
	call.Once, _ = in.meta[keyCallID].(string)
	// Commands are not continuable: a command can have effects before its question, so it must not run again.
	call.Continuable = call.Name != "" && in.version >= stateless
	if earlier != nil {
		call.Continuation = earlier.continuation
	}
	// Begin queues the call before the goroutine starts, so that calls of a session keep the order of the requests.
	front := &front{silent: silent, patience: s.opts.AskTimeout, approver: s.approver(call.Principal),
		beside: s.secondClient(call.Principal)}
	pending := s.host.Begin(call, front)
	leave()
	return s.parked.wait(ctx, s.parked.begin(ctx, in, earlier, func(r *run) *tool.Result {
		front.begin(r)
		res := s.runCall(r.ctx, call, front, pending)
		front.end()
		return res
	})), nil, nil
}

// place returns where a request for a plugin runs. The state of a request is valid only there.
func (s *Server) place(plugin string) []string {
	return []string{s.roots.start, s.opts.Endpoint, plugin}
}

// silent reports whether the operator turned off the signs of life of silent calls.
func (s *Server) silent() bool {
	if s.opts.Endpoint == "" {
		return false
	}
	e, err := s.host.Endpoint(s.opts.Endpoint, nil)
	return err == nil && e.Silent
}

// approver returns the client that answers the permission asks of a principal's calls. It returns nil if the calling
// client answers them itself.
func (s *Server) approver(p *host.Principal) host.Client {
	if p == nil || p.Interactive || s.opts.Approver == nil {
		return nil
	}
	return s.opts.Approver(p)
}

// secondClient returns the client that answers permission asks in addition to the calling client, or nil.
func (s *Server) secondClient(p *host.Principal) host.Client {
	if p != nil && !p.Interactive {
		return nil
	}
	return s.opts.Beside
}

// request converts a client's request to a request of the host.
func (s *Server) request(f function, in *incoming, arguments json.RawMessage) (host.Request, *tool.Error) {
	call := s.base(in)
	if f.Tool != "" {
		call.Name, call.Arguments = f.Tool, arguments
		return call, nil
	}
	var args struct{ Command *string }
	if err := json.Unmarshal(arguments, &args); err != nil || args.Command == nil {
		return call, tool.Errorf(tool.InvalidArguments, `The arguments have no command. Give one, such as {"command": "read main.go"}.`).From(tool.SourceHost)
	}
	call.Command = *args.Command
	return call, nil
}

// sessionOf returns the host session for a request. If the session does not exist yet, it begins as a copy of the
// session "from".
func (s *Server) sessionOf(in *incoming) (session, from string) {
	switch {
	case s.opts.Session != "":
		return s.opts.Session, ""
	case in.session != nil && in.session.ID() != "" && in.version < stateless:
		return "mcp:" + in.session.ID(), ""
	}
	if handle := in.handle(); handle != "" {
		return "mcp:handle:" + s.opts.Endpoint + ":" + handle, s.session
	}
	return s.session, ""
}

// front sends notifications and questions of a running call to its client.
type front struct {
	patience time.Duration
	silent   bool        // whether the client gets no signs of life of silent calls
	approver host.Client // answers permission asks; nil if the client answers them
	beside   host.Client // also answers permission asks; nil if only the client does

	mu    sync.Mutex
	run   *run
	count float64   // number in the last notification; must increase
	total float64   // total in the last notification; 0 if the tool reports none
	last  time.Time // time of the last notification
	ended bool
}

func (f *front) begin(r *run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = r
}

const (
	// progressPause is the minimum time between two notifications about a command's output.
	progressPause = 200 * time.Millisecond
	// resultPause is the minimum time between the last notification and the result. Some clients lose a notification
	// that arrives together with the result.
	resultPause = time.Millisecond
)

// end stops notifications and waits until the server can send the result.
func (f *front) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if rest := resultPause - time.Since(f.last); rest > 0 {
		time.Sleep(rest)
	}
}

// Progress implements [host.Client]. It sends a progress notification.
func (f *front) Progress(title string, metadata map[string]any) {
	if _, alive := metadata["activity"]; alive && f.silent {
		return
	}
	f.notify(title, metadata, 0)
}

// amount sets the numbers of the next notification. It uses the numbers of the tool if they increase, because MCP
// requires increasing numbers. For other notifications, such as for output, the number increases only a little. If the
// tool reports no numbers, the notifications are counted.
func (f *front) amount(metadata map[string]any) {
	const little = 1e-6
	done, ok := metadata[tool.ProgressDone].(float64)
	switch total, _ := metadata[tool.ProgressTotal].(float64); {
	case ok:
		f.total = total
		f.count = max(done, f.count+little*max(1, total))
	case f.total > 0:
		f.count += little * f.total
	default:
		f.count++
	}
}

// Output implements [host.Client]. It sends the last line of a chunk of output as a progress notification. The result
// of the call contains the full output.
func (f *front) Output(_ tool.Stream, chunk []byte) {
	text := strings.TrimRight(strings.ToValidUTF8(string(chunk[max(0, len(chunk)-4096):]), "\uFFFD"), "\r\n")
	line := text[strings.LastIndexAny(text, "\r\n")+1:]
	if line = strings.TrimSpace(clean(line)); line != "" {
		f.notify(line, nil, progressPause)
	}
}

// notify sends a progress notification if the client requested notifications. It does nothing if less time than the
// duration "pause" has passed since the last notification.
func (f *front) notify(message string, metadata map[string]any, pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.run == nil || time.Since(f.last) < pause {
		return
	}
	ctx, req := f.run.attached()
	if req == nil || req.token == nil {
		return
	}
	f.amount(metadata)
	p := &mcp.ProgressNotificationParams{ProgressToken: req.token, Progress: f.count, Total: f.total, Message: message}
	if len(metadata) > 0 {
		p.Meta = mcp.Meta{metaPrefix + "metadata": metadata}
	}
	_ = req.session.NotifyProgress(ctx, p) // ignore errors, because a disconnected client also cancels its call
	f.last = time.Now()
}

// Log implements [tool.Logger]. It sends a log message to the client, which can have chosen a level.
func (f *front) Log(m tool.LogMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.run == nil {
		return
	}
	ctx, req := f.run.attached()
	if req == nil || !slices.Contains(logLevels, m.Level) {
		return
	}
	var data any = m.Data
	if m.Data == nil {
		data = ""
	}
	_ = req.session.Log(ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(m.Level), Logger: clean(m.Logger), Data: data}) //nolint:staticcheck // ignore errors as in notify; revisions before 2026-07-28 have logging
	f.last = time.Now()
}

// logLevels lists the levels of log messages.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// clean removes control characters, because the output of commands and plugins could control a terminal.
func clean(s string) string { return mapHidden(s, func(rune) string { return "" }) }

// oneLine returns a text as one line. It replaces hidden characters, and characters that control a terminal, by their
// numbers, so that the text cannot pretend to be another part of a dialog.
func oneLine(text string) string {
	return visible(strings.NewReplacer("\r\n", " ", "\n", " ").Replace(text))
}

// visible returns a text of several lines. It replaces hidden characters, and characters that control a terminal, by
// their numbers.
func visible(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = mapHidden(lines[i], func(r rune) string { return fmt.Sprintf(`\u%04x`, r) })
	}
	return strings.Join(lines, "\n")
}

// mapHidden replaces characters that control a terminal, and characters that make a text look like a different text.
func mapHidden(s string, by func(rune) string) string {
	var out strings.Builder
	for _, r := range s {
		if r < 0x20 && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			out.WriteString(by(r))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
