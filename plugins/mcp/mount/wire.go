package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk/lines"
	"toolhost.dev/sdk/rawjson"
)

const (
	// maxFrame is the maximum size of a message from the server, in bytes.
	maxFrame = 16 << 20
	// edge is how many bytes at each end of an oversized message are searched for the request ID.
	edge = 512
	// probeTimeout is the time that a server has to answer a request that it possibly does not know.
	probeTimeout = 5 * time.Second
	// writeTimeout is the time that a server has to read a message.
	writeTimeout = 30 * time.Second
	// maxNoise is the maximum number of lines that are logged although they are not messages.
	maxNoise = 20

	methodDiscover   = "server/discover"
	methodInitialize = "initialize"
	methodListTools  = "tools/list"
)

// wire is a connection over a server's standard input and output. The connection continues after any output of the
// server. A line that is not a message is dropped. If an answer is too large, only the call of that answer fails. If
// the server does not answer the probe for the newer protocol, the wire answers the probe.
type wire struct {
	in      *lines.Reader
	out     *os.File
	stop    func()
	schemas *schemas
	// heard is called for each notification of the server, in the order in which messages arrive. It returns before a
	// later result is delivered. It returns false for a notification that the SDK must handle. It can be nil.
	heard func(*jsonrpc.Request) bool

	announced announcement // the capabilities that the server announced

	incoming chan jsonrpc.Message
	turn     chan struct{} // contains a value while a line is written
	failed   chan struct{} // closed after reading or writing has failed
	fails    sync.Once
	err      error // the error, and whether the server closed the connection; set before "failed" is closed
	theirs   bool
	closeOut sync.Once

	mu         sync.Mutex
	pending    map[jsonrpc.ID]string     // maps the ID of each unanswered request to its method
	direct     map[jsonrpc.ID]chan reply // contains the unanswered requests that the SDK did not send
	lastDirect int64
	probed     bool
	impatient  bool // true if the wire answered the probe for the server
	spoke      bool // true if the server has sent at least one message
	noise      int
	firstNoise string // the first line that is not a message
}

func newWire(in io.Reader, out *os.File, schemas *schemas, stop func(), heard func(*jsonrpc.Request) bool) *wire {
	w := &wire{
		heard: heard,
		in:    lines.NewReader(in, maxFrame), out: out, stop: stop, schemas: schemas,
		incoming: make(chan jsonrpc.Message), turn: make(chan struct{}, 1), failed: make(chan struct{}),
		pending: make(map[jsonrpc.ID]string), direct: make(map[jsonrpc.ID]chan reply),
	}
	go w.readAll()
	return w
}

// Connect implements mcp.Transport.
func (w *wire) Connect(context.Context) (mcp.Connection, error) { return w, nil }

// SessionID implements mcp.Connection.
func (w *wire) SessionID() string { return "" }

// Close implements mcp.Connection. Close also ends the server.
func (w *wire) Close() error {
	w.fail(io.EOF, false)
	w.stop()
	return nil
}

func (w *wire) fail(err error, theirs bool) {
	w.fails.Do(func() {
		w.err, w.theirs = err, theirs
		close(w.failed)
	})
}

// ended reports whether the server has closed the connection.
func (w *wire) ended() bool {
	select {
	case <-w.failed:
		return w.theirs
	default:
		return false
	}
}

func (w *wire) closeInput() { w.closeOut.Do(func() { _ = w.out.Close() }) }

// probeFailed reports whether a probe for the newer protocol was sent, and the server did not answer it in time.
func (w *wire) probeFailed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.probed && (w.impatient || !w.spoke)
}

// Read implements mcp.Connection.
func (w *wire) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-w.incoming:
		return m, nil
	case <-w.failed:
		return nil, w.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection.
func (w *wire) Write(ctx context.Context, m jsonrpc.Message) error {
	canceled := canceledIn(ctx)
	err := w.write(ctx, m)
	if err == nil && canceled != nil {
		canceled.tell()
	}
	return err
}

func (w *wire) write(ctx context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.ID.IsValid() {
		w.mu.Lock()
		w.pending[r.ID] = r.Method
		w.mu.Unlock()
		if r.Method == methodDiscover {
			w.expect(r.ID)
		}
	}
	return w.send(ctx, append(line, '\n'))
}

// send writes a line. If the server's pipe has room for the line, send writes it at once. Otherwise a goroutine writes
// the complete line, even if the caller stops waiting.
func (w *wire) send(ctx context.Context, line []byte) error {
	select {
	case w.turn <- struct{}{}:
	case <-w.failed:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
	if line = w.writeNow(line); len(line) == 0 {
		<-w.turn
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-w.turn }()
		done <- w.writeRest(line)
	}()
	select {
	case err := <-done:
		return err
	case <-w.failed:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeNow writes as much of a line as the server's pipe has room for. It returns the rest of the line.
func (w *wire) writeNow(line []byte) (rest []byte) {
	pipe, err := w.out.SyscallConn()
	if err != nil {
		return line
	}
	n := 0
	// Ignore the error, because writing the rest fails with the same error.
	_ = pipe.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), line)
		return true
	})
	return line[max(n, 0):]
}

// writeRest writes the rest of a line and waits until the server's pipe has room for it.
func (w *wire) writeRest(line []byte) error {
	_ = w.out.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := w.out.Write(line)
	_ = w.out.SetWriteDeadline(time.Time{})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the server did not read its standard input for %s", writeTimeout)
	}
	if err != nil {
		w.fail(err, errors.Is(err, syscall.EPIPE))
	}
	return err
}

// expect waits for the server's answer to a probe. After a timeout, it answers the probe itself.
func (w *wire) expect(id jsonrpc.ID) {
	w.mu.Lock()
	w.probed = true
	w.mu.Unlock()
	time.AfterFunc(probeTimeout, func() {
		w.mu.Lock()
		_, w.impatient = w.pending[id]
		w.mu.Unlock()
		w.refuse(id, jsonrpc.CodeMethodNotFound, "no answer")
	})
}

// refuse answers a request with an error. If the request is already answered, refuse does nothing.
func (w *wire) refuse(id jsonrpc.ID, code int64, message string) {
	w.mu.Lock()
	_, waits := w.pending[id]
	delete(w.pending, id)
	w.mu.Unlock()
	refusal := &jsonrpc.Error{Code: code, Message: message}
	if waits && !w.answer(id, reply{err: refusal}) {
		w.deliver(&jsonrpc.Response{ID: id, Error: refusal})
	}
}

func (w *wire) deliver(m jsonrpc.Message) {
	select {
	case w.incoming <- m:
	case <-w.failed:
	}
}

// byteOrderMark is what some programs on Windows and for .NET write first.
var byteOrderMark = []byte("\ufeff")

func (w *wire) readAll() {
	for {
		line, err := w.in.Read()
		var tooLong *lines.TooLongError
		if errors.As(err, &tooLong) {
			w.tooLarge(tooLong.Size, append(line[:min(len(line), edge)], tooLong.Tail...))
			err = tooLong.Err
		} else if line = bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark)); len(line) > 0 {
			w.hear(line)
		}
		if err != nil {
			w.fail(io.EOF, true)
			return
		}
	}
}

// hear handles one line from the server. The line can be a message, a batch of messages as in older revisions, or
// other text.
func (w *wire) hear(line []byte) {
	if w.result(line) {
		return
	}
	if line[0] != '[' || !rawjson.Valid(line) {
		w.hearOne(line)
		return
	}
	for raw := range rawjson.Elements(line) { // a list of all elements could need many times the memory of the line
		w.hearOne(raw)
	}
}

func (w *wire) hearOne(raw []byte) {
	m, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		w.drop(raw)
		return
	}
	r, isResponse := m.(*jsonrpc.Response)
	if isResponse && w.answer(r.ID, reply{r.Result, r.Error}) {
		return
	}
	w.mu.Lock()
	w.spoke = true
	called := isResponse && r.Error == nil && w.pending[r.ID] == methodCallTool
	if isResponse {
		if w.pending[r.ID] == methodListTools {
			w.schemas.keep(r.Result)
		}
		if begins := w.pending[r.ID]; begins == methodDiscover || begins == methodInitialize {
			w.announced.keep(r.Result)
		}
		delete(w.pending, r.ID)
	}
	w.mu.Unlock()
	if called {
		r.Result = folded(r.Result)
	}
	if r, ok := m.(*jsonrpc.Request); ok && !r.ID.IsValid() && w.heard != nil && w.heard(r) {
		return
	}
	w.deliver(m)
}

func (w *wire) drop(raw []byte) {
	text := clean(string(raw[:min(len(raw), 300)]), 300)
	if bytes.IndexByte(raw[:min(len(raw), 300)], 0) >= 0 {
		text += " (with NUL bytes, as in UTF-16; messages are in UTF-8)"
	}
	w.mu.Lock()
	if w.noise++; w.noise == 1 {
		w.firstNoise = text
	}
	n := w.noise
	w.mu.Unlock()
	switch {
	case n <= maxNoise:
		logf("info", "the server printed a line that is not a protocol message: %s", text)
	case n == maxNoise+1:
		logf("info", "the server keeps printing lines that are not protocol messages; further lines are not logged")
	}
}

// noiseText describes the lines of a server that are not messages. Without such lines, it returns "".
func (w *wire) noiseText() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noise == 0 {
		return ""
	}
	return fmt.Sprintf("it printed %d lines to its standard output that are not protocol messages, which begin with:\n%s", w.noise, w.firstNoise)
}

var idAt = regexp.MustCompile(`"id"\s*:\s*(\d{1,18})`)

// tooLarge fails the call whose answer is too large. It looks for the request ID at the beginning and the end of the
// answer. If it finds no ID, it fails all calls.
func (w *wire) tooLarge(size int, edges []byte) {
	w.mu.Lock()
	var ids []jsonrpc.ID
	for _, m := range idAt.FindAllSubmatch(edges, -1) {
		n, _ := strconv.ParseInt(string(m[1]), 10, 64)
		if id, err := jsonrpc.MakeID(float64(n)); err == nil {
			if _, waits := w.pending[id]; waits {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		for id := range w.pending {
			ids = append(ids, id)
		}
	}
	w.mu.Unlock()
	for _, id := range ids {
		w.refuse(id, jsonrpc.CodeInternalError, fmt.Sprintf("The server's answer has %d bytes, and the limit is %d MiB. Ask for less in one call.", size, maxFrame>>20))
	}
}
