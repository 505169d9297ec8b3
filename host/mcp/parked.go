package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stateless is the first revision of the protocol in which a server must not send requests to a client during a call.
// Instead, the server returns its question, and the client repeats the call with the answer.
const stateless = "2026-07-28"

// maxParked is the maximum number of parked calls of a principal.
const maxParked = 256

var (
	errNobody   = errors.New("the client cannot ask its user")
	errTimeout  = errors.New("nobody answered in time")
	errShutdown = errors.New("the server is stopping")
)

// parkedCalls holds the calls that wait for an answer from their client.
type parkedCalls struct {
	patience time.Duration

	mu      sync.Mutex
	byState map[string]*waiting // the key is the state that the client returns with its answer
	closed  bool
}

func newParkedCalls(patience time.Duration) *parkedCalls {
	return &parkedCalls{patience: patience, byState: make(map[string]*waiting)}
}

// run is a running call. The client can continue the call with several requests, one after another.
type run struct {
	ctx  context.Context
	stop context.CancelCauseFunc
	// bound is a hash of the call's function, arguments and client. The hash prevents the client from continuing the
	// call with a different request.
	bound [sha256.Size]byte
	owner string // the name of the principal
	asks  chan *question
	done  chan struct{}
	// result is set before done is closed.
	result *mcp.CallToolResult

	mu  sync.Mutex
	now *mcp.CallToolRequest // the request that currently waits for the call, or nil
	ctl context.Context      // the context of the waiting request
}

// question is a question of a call to its client.
type question struct {
	params *mcp.ElicitParams
	answer chan *mcp.ElicitResult
}

// attached returns the request that currently waits for the call, and its context. It returns nil if no request waits.
func (r *run) attached() (context.Context, *mcp.CallToolRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctl, r.now
}

func (r *run) attach(ctx context.Context, req *mcp.CallToolRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctl, r.now = ctx, req
}

func (r *run) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctl, r.now = nil, nil
}

// reachesPerson reports whether the client supports asks.
func (r *run) reachesPerson() bool {
	_, req := r.attached()
	if req == nil {
		return false
	}
	c := req.ClientCapabilities()
	return c != nil && c.Elicitation != nil
}

// ask sends a question to the client and waits for the answer of the client's user.
func (r *run) ask(p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	ctx, req := r.attached()
	if req == nil || !r.reachesPerson() {
		return nil, errNobody
	}
	if req.ProtocolVersion() < stateless {
		return req.Session.Elicit(ctx, p)
	}
	q := &question{params: p, answer: make(chan *mcp.ElicitResult, 1)}
	select {
	case r.asks <- q:
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	}
}

// begin starts a call in a new goroutine.
func (l *parkedCalls) begin(ctx context.Context, req *mcp.CallToolRequest, call func(*run) *mcp.CallToolResult) *run {
	// A client without a session continues the call in another request, so the call must outlive the current request.
	own, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &run{ctx: own, stop: stop, bound: about(req), owner: ownerOf(req), asks: make(chan *question), done: make(chan struct{})}
	r.attach(ctx, req)
	go func() {
		defer close(r.done)
		r.result = call(r)
	}()
	return r
}

// about returns a hash of the function, the arguments and the client in a request.
func about(req *mcp.CallToolRequest) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range []string{ownerOf(req), req.Params.Name, string(req.Params.Arguments)} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// wait waits for the end of a call or for its next question.
func (l *parkedCalls) wait(ctx context.Context, r *run) *mcp.CallToolResult {
	select {
	case <-r.done:
		r.stop(nil)
		return r.result
	case q := <-r.asks:
		r.detach()
		state, err := l.park(r, q)
		if err != nil {
			r.stop(err)
			<-r.done
			return r.result
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{answerKey: q.params}, RequestState: state}
	case <-ctx.Done(): // the client canceled its call or disconnected
		r.stop(context.Cause(ctx))
		<-r.done
		return r.result
	}
}

// answerKey is the key of the question in requests and answers. All questions use the same key, because a call asks one
// question at a time.
const answerKey = "answer"

// waiting is a parked call with its open question.
type waiting struct {
	*run
	question *question
	timer    *time.Timer
}

// park stores a call until its client answers.
func (l *parkedCalls) park(r *run, q *question) (state string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return "", errShutdown
	case l.of(r.owner) >= maxParked:
		return "", errors.New("too many calls are waiting for an answer")
	}
	state = rand.Text() + rand.Text()
	l.byState[state] = &waiting{r, q, time.AfterFunc(l.patience, func() {
		if w := l.take(state); w != nil {
			w.stop(errTimeout)
		}
	})}
	return state, nil
}

// of returns the number of parked calls of a principal. The caller must hold the lock.
func (l *parkedCalls) of(owner string) (n int) {
	for _, w := range l.byState {
		if w.owner == owner {
			n++
		}
	}
	return n
}

// take removes and returns the parked call with the given state. It returns nil if the state is unknown.
func (l *parkedCalls) take(state string) *waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.byState[state]
	delete(l.byState, state)
	return w
}

// resume continues a parked call with the client's answer. It returns an error if the state is unknown or belongs to
// another call.
func (l *parkedCalls) resume(ctx context.Context, req *mcp.CallToolRequest) (*run, error) {
	w := l.take(req.Params.RequestState)
	if w == nil || w.bound != about(req) {
		if w != nil {
			w.stop(errors.New("the requestState was used for another call"))
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the requestState is unknown, used, expired or from another call; call again without requestState"}
	}
	w.timer.Stop()
	w.attach(ctx, req)
	answer, ok := req.Params.InputResponses[answerKey].(*mcp.ElicitResult)
	if !ok || answer == nil {
		answer = &mcp.ElicitResult{Action: "cancel"}
	}
	w.question.answer <- answer
	return w.run, nil
}

// close cancels the parked calls. Further calls cannot be parked.
func (l *parkedCalls) close() {
	l.mu.Lock()
	parked := l.byState
	l.byState, l.closed = make(map[string]*waiting), true
	l.mu.Unlock()
	for _, w := range parked {
		w.timer.Stop()
		w.stop(errShutdown)
		<-w.done
	}
}
