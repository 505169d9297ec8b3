// Package batch runs streams of requests. Requests and results are JSON Lines. [Batch.Run] runs one stream.
package batch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"toolhost.dev/host"
	"toolhost.dev/host/router"
	"toolhost.dev/sdk/lines"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// request is one line of the input.
type request struct {
	ID        json.RawMessage `json:"id"`
	Command   *string         `json:"command"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Workspace string          `json:"workspace"`
	Session   string          `json:"session"`
	Branch    string          `json:"branch"`
	Preview   bool            `json:"preview"`
	Trace     string          `json:"traceparent"`
	Once      string          `json:"call_id"`
	// Cancel is the id of an earlier request, which the line cancels.
	Cancel json.RawMessage `json:"cancel"`
}

// Batch configures how a stream of requests is run. The field Host is required.
type Batch struct {
	Host *host.Host
	// Request holds the defaults of all requests.
	Request host.Request
	// Front is the client of all requests. It can be nil.
	Front host.Client
	// Ordered requires results in the order of the requests. By default, each result is written as soon as its call
	// ends.
	Ordered bool
	// UntilFailure makes the requests run one after the other, until one fails. Later requests do not run. All requests
	// use the session and the branch of the field Request.
	UntilFailure bool
	// MaxLine is the maximum length of a request line, in bytes. Zero means 64 MiB.
	MaxLine int
}

type batch struct {
	Batch

	mu  sync.Mutex
	out io.Writer
	err error // first write error
	// open contains the requests that are not answered, by line number.
	open map[int]open
	// failed is the number of the first line that failed, or 0. Only a batch with UntilFailure sets it.
	failed int
}

// open is a request that is not answered.
type open struct {
	id     string // see idOf
	cancel context.CancelFunc
}

// FailedError reports that a line of a batch with UntilFailure failed. The later lines did not run.
type FailedError struct{ Line int }

func (e *FailedError) Error() string { return fmt.Sprintf("line %d failed", e.Line) }

const defaultMaxLine = 64 << 20

// maxInFlight is the maximum number of requests that are read but not yet answered.
const maxInFlight = 1024

// Run reads requests from in and writes results to out. It calls Write once per result. A request is {"id","command"}
// or {"id","name","arguments"}, with an optional "workspace", "session", "branch", "preview", "traceparent" and
// "call_id" ([host.Request.Once]). The line {"cancel":ID} cancels the unanswered requests with this id. A call starts
// as soon as its line is read, and at most 1024 calls are in flight. Calls of one session run alone and in order,
// unless their tools can safely run at the same time as other tools. The tools job and ask_user wait only for commands
// that start a job. The result of an invalid line is an error.
//
// Run returns when all requests are answered, a write to out fails, or ctx is canceled. A write error cancels the
// running calls.
func (p Batch) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	if p.MaxLine <= 0 {
		p.MaxLine = defaultMaxLine
	}
	b := &batch{Batch: p, out: out, open: make(map[int]open)}
	b.Request.InOrder = true
	b.Ordered = b.Ordered || b.UntilFailure
	return b.run(ctx, in)
}

// One runs a single request, which is a JSON object. It returns the result line.
func (p Batch) One(ctx context.Context, request []byte) []byte {
	b := &batch{Batch: p, open: make(map[int]open)}
	return b.begin(ctx, 0, request, false)()
}

func (b *batch) run(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests := lines.NewReader(in, b.MaxLine)
	slots := make(chan struct{}, maxInFlight)
	previous := make(chan struct{})
	close(previous)
	var wg sync.WaitGroup
	for n := 1; b.writeErr() == nil && ctx.Err() == nil; n++ {
		line, err := requests.Read()
		var tooLong *lines.TooLongError
		long := errors.As(err, &tooLong)
		if long {
			err = tooLong.Err
		}
		if long || len(bytes.TrimSpace(line)) > 0 {
			slots <- struct{}{}
			answer := b.answer(ctx, n, line, long)
			turn := previous
			next := make(chan struct{})
			previous = next
			wg.Go(func() {
				defer func() { <-slots }()
				defer close(next)
				text := answer()
				if b.Ordered {
					<-turn
				}
				if b.write(text) != nil {
					cancel() // cancel the other calls, because their results cannot be written
				}
			})
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			wg.Wait()
			return fmt.Errorf("the requests cannot be read: %w", err)
		}
	}
	wg.Wait()
	if err := b.writeErr(); err != nil {
		return fmt.Errorf("the results cannot be written: %w", err)
	}
	if b.failed > 0 && ctx.Err() == nil {
		return &FailedError{Line: b.failed}
	}
	return ctx.Err()
}

// answer begins request number n, and returns a function that runs it. In a batch that stops at the first
// failure, the method itself runs the request.
func (b *batch) answer(ctx context.Context, n int, line []byte, tooLong bool) func() []byte {
	if !b.UntilFailure {
		return b.begin(ctx, n, line, tooLong)
	}
	text := b.next(ctx, n, line, tooLong)
	return func() []byte { return text }
}

// next runs request number n of a batch that stops at the first failure.
func (b *batch) next(ctx context.Context, n int, line []byte, tooLong bool) []byte {
	var r request
	refuse := func(kind tool.Kind, format string, a ...any) []byte {
		if b.failed == 0 {
			b.failed = n
		}
		return resultLine(r.ID, tool.Failed(tool.Errorf(kind, format, a...).From(tool.SourceHost)))
	}
	readable := !tooLong && json.Unmarshal(line, &r) == nil
	switch {
	case b.failed > 0:
		return refuse(tool.Canceled, "Line %d was not run, because line %d failed and the batch is atomic.", n, b.failed)
	case readable && (r.Session != "" || r.Branch != "" || r.Workspace != ""):
		return refuse(tool.InvalidArguments, "Line %d names a session, a branch or a workspace. An atomic batch has one of each: set them with --session and --workspace.", n)
	case readable && r.Cancel != nil:
		return refuse(tool.InvalidArguments, "Line %d cancels a request. The requests of an atomic batch run one after the other, so none runs when the line is read: end the batch to cancel it.", n)
	}
	text := b.begin(ctx, n, line, tooLong)()
	var res struct {
		Success bool `json:"success"`
	}
	if json.Unmarshal(text, &res) != nil || !res.Success {
		b.failed = n
	}
	return text
}

// begin resolves and queues request number n without blocking. The returned function runs the request and returns the
// result line. The number 0 means a request that is not a line of a stream.
func (b *batch) begin(ctx context.Context, n int, line []byte, tooLong bool) func() []byte {
	var r request
	fail := func(format string, a ...any) func() []byte {
		message := fmt.Sprintf(format, a...)
		if n > 0 {
			message = fmt.Sprintf("line %d: %s", n, message)
		}
		e := tool.Errorf(tool.InvalidArguments, "%s%s", strings.ToUpper(message[:1]), message[1:]).From(tool.SourceHost)
		e.Data = fmt.Appendf(nil, `{"reason":%q}`, host.ReasonRequest)
		return func() []byte { return resultLine(r.ID, tool.Failed(e)) }
	}
	if tooLong {
		return fail("the request is longer than %d bytes. Write long content to a file and pass the path of the file.", b.MaxLine)
	}
	if !utf8.Valid(line) { // the decoder would replace bytes of a command, and keep those of arguments
		return fail("the request is not UTF-8. Send text, or write the bytes with printf.")
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return fail("the request is invalid: %v. Send one JSON object: {\"id\":1,\"command\":\"…\"}.", err)
	}
	if key := unknownKey(line); key != "" {
		if r.Command != nil || !router.IsCall(string(line)) {
			return fail("the key %q is unknown.%s The keys are %s.", key, suggest.DidYouMean(key, keys), strings.Join(keys, ", "))
		}
		pasted := string(line) // a call in the format of a model API, which the router reads
		r.Command, r.Name = &pasted, ""
	}
	asked := r.Command != nil || r.Name != ""
	switch {
	case r.Cancel != nil && asked:
		return fail("a line with \"cancel\" is no call. Send the call and the line {\"cancel\":ID} separately.")
	case r.Cancel != nil:
		id := idOf(r.Cancel)
		if b.cancel(id) == 0 {
			return fail("no request with the id %.100s is running or waiting. It has its result, or it was not sent.", cmp.Or(id, "null"))
		}
		text := resultLine(r.ID, &host.Result{Output: fmt.Sprintf("The request %.100s is being canceled.", id)})
		return func() []byte { return text }
	case !asked || r.Command != nil && r.Name != "":
		return fail("the request needs either a command or a name with arguments.")
	}
	pending := b.Host.Begin(b.requestOf(&r), b.Front)
	ctx, done := b.opened(ctx, n, r.ID)
	return func() []byte {
		defer done()
		return resultLine(r.ID, pending.Run(ctx))
	}
}

// requestOf returns the request of a line with the defaults of the batch.
func (b *batch) requestOf(r *request) host.Request {
	req := b.Request
	req.Name, req.Arguments, req.Workspace = r.Name, r.Arguments, cmp.Or(r.Workspace, req.Workspace)
	if r.Command != nil {
		req.Command = *r.Command
	}
	if r.Branch != "" {
		req.Branch = r.Branch
	}
	req.Preview, req.Once = r.Preview, r.Once
	if r.Session != "" {
		req.Session = r.Session
	}
	if r.Trace != "" {
		req.Trace = r.Trace
	}
	return req
}

// opened records that request number n is not answered. The request runs with the returned context. The caller must
// call done when it is answered.
func (b *batch) opened(ctx context.Context, n int, id json.RawMessage) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[n] = open{idOf(id), cancel}
	return ctx, func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, n)
	}
}

// cancel cancels the unanswered requests with an id of idOf, and returns their number. Requests without id cannot be
// canceled.
func (b *batch) cancel(id string) (number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.open {
		if o.id == id && id != "" {
			o.cancel()
			number++
		}
	}
	return number
}

// idOf returns the same text for ids that are equal in JSON. It returns "" for null.
func idOf(id json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(id))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || v == nil {
		return ""
	}
	text, _ := json.Marshal(v) // a decoded value can be encoded
	return string(text)
}

// keys lists the keys of a request.
var keys = []string{"arguments", "branch", "call_id", "cancel", "command", "id", "name", "preview", "session",
	"traceparent", "workspace"}

// unknownKey returns the first key of a JSON object that is not in the list of keys, or "". It ignores the case of
// letters.
func unknownKey(line []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(keys, strings.ToLower(key)) {
			return key
		}
	}
	return ""
}

// resultLine returns a result as JSON. The first field is the id of the request.
func resultLine(id json.RawMessage, res *host.Result) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	var body bytes.Buffer
	if err := encode(&body, res); err != nil {
		body.Reset()
		_ = encode(&body, tool.Failed(tool.Errorf(tool.Internal, "The result cannot be written as JSON: %w.", err).From(tool.SourceHost))) // the error is ignored, because text can always be encoded
	}
	return fmt.Appendf(nil, `{"id":%s,%s`, id, body.Bytes()[1:])
}

func (b *batch) write(line []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		_, b.err = b.out.Write(line)
	}
	return b.err
}

func (b *batch) writeErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
