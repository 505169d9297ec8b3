package call

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"toolhost.dev/sdk/tool"
)

// maxTail is the maximum size of the output that is kept of a call, in bytes.
const maxTail = 2 << 10

// ErrStopped is the cause of a canceled context if the host stops. It is not used if the caller cancels the call.
var ErrStopped = errors.New("the host was stopped")

// CanceledError is the cause of the cancellation if a person other than the caller cancels a call.
type CanceledError struct{ By string }

func (e *CanceledError) Error() string { return "the call was canceled by " + e.By }

// Running is a call that has not ended.
type Running struct {
	text atomic.Pointer[string]
	// Number identifies the call in this process. The caller chooses the ID, so it need not be unique.
	Number                            int64
	ID, Session, Workspace, Principal string
	Command, Name                     string
	Arguments                         []byte
	Began                             time.Time
	cancel                            atomic.Pointer[context.CancelCauseFunc]
	canceled                          atomic.Pointer[error] // why the call was canceled before it ran
	mu                                sync.Mutex
	tail                              []byte
	written                           int64
	asks                              []*Asking // that wait for an answer, oldest first
}

// Asking is an ask of a call that waits for an answer.
type Asking struct {
	// Title describes the ask in a few words.
	Title string
	// Digest is a hash of the content of the ask; see [AskDigest].
	Digest string
}

// AskDigest returns a hash of the content of an ask. People who answer elsewhere find the ask with it.
func AskDigest(ask tool.Ask) string {
	b, err := json.Marshal(ask)
	if err != nil {
		return "" // if this is empty, an answer that has a digest never applies
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Ask records that the call waits for an answer. The caller must call answered when the wait ends.
func (c *Running) Ask(ask tool.Ask) (answered func()) {
	a := &Asking{Title: "a form", Digest: AskDigest(ask)}
	switch {
	case ask.Permission != nil:
		a.Title = ask.Permission.Title
	case ask.Question != nil:
		a.Title = ask.Question.Text
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = append(c.asks, a)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asks = slices.DeleteFunc(c.asks, func(other *Asking) bool { return other == a })
	}
}

// Asking returns the oldest ask for whose answer the call waits, or nil.
func (c *Running) Asking() *Asking {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asks) == 0 {
		return nil
	}
	return c.asks[0]
}

// RunningCalls lists calls. The zero value is empty and ready to use. It is safe for concurrent use.
type RunningCalls struct {
	next atomic.Int64
	mu   sync.Mutex
	by   map[int64]*Running
}

// Begin adds a call. The caller must call [RunningCalls.End].
func (c *RunningCalls) Begin(call *Running) {
	call.Number, call.Began = c.next.Add(1), time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[int64]*Running)
	}
	c.by[call.Number] = call
}

// End removes a call.
func (c *RunningCalls) End(call *Running) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, call.Number)
}

// All returns the calls, oldest first.
func (c *RunningCalls) All() []*Running {
	c.mu.Lock()
	out := make([]*Running, 0, len(c.by))
	for _, call := range c.by {
		out = append(out, call)
	}
	c.mu.Unlock()
	slices.SortFunc(out, func(a, b *Running) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// Cancel cancels the call with the given number. The argument "by" is the name of the principal who cancels it. It
// returns the call, or nil if no such call runs.
func (c *RunningCalls) Cancel(number int64, by string) *Running {
	c.mu.Lock()
	call := c.by[number]
	c.mu.Unlock()
	if call == nil {
		return nil
	}
	var why error = &CanceledError{by}
	call.canceled.CompareAndSwap(nil, &why)
	if cancel := call.cancel.Load(); cancel != nil {
		(*cancel)(why)
	}
	return call
}

// Context returns a context for the run of the call, which [RunningCalls.Cancel] cancels. The caller must call stop.
func (c *Running) Context(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.cancel.Store(&cancel)
	if why := c.canceled.Load(); why != nil {
		cancel(*why)
	}
	return ctx, func() { cancel(nil) }
}

// Output adds output of the call. Only the end is kept.
func (c *Running) Output(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written += int64(len(p))
	if len(p) >= maxTail {
		c.tail = append(c.tail[:0], p[len(p)-maxTail:]...)
		return
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) > 2*maxTail {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-maxTail:]...)
	}
}

// Text returns a text about the call. It calls the function "compose" only once, because masking secrets takes time.
func (c *Running) Text(compose func(*Running) string) string {
	if text := c.text.Load(); text != nil {
		return *text
	}
	text := compose(c)
	c.text.Store(&text)
	return text
}

// Tail returns the end of the output as valid UTF-8, and the number of bytes of the whole output.
func (c *Running) Tail() (text string, written int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.tail[max(0, len(c.tail)-maxTail):]
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return string(b), c.written
}
