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

	"toolhost.dev/sdk/tool"
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
	result *tool.Result

	mu  sync.Mutex
	now *incoming       // the request that currently waits for the call, or nil
	ctl context.Context // the context of the waiting request
}

// question is a set of requests of a call to its client.
type question struct {
	requests mcp.InputRequestMap
	answer   chan mcp.InputResponseMap
}

// outcome is the answer to a request: a result, or requests to the client with the state to send back.
type outcome struct {
	result   *tool.Result
	requests mcp.InputRequestMap
	state    string
}

// attached returns the request that currently waits for the call, and its context. It returns nil if no request waits.
func (r *run) attached() (context.Context, *incoming) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctl, r.now
}

func (r *run) attach(ctx context.Context, req *incoming) {
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
	_, in := r.attached()
	return in != nil && in.can(&mcp.ElicitParams{})
}

// ask sends requests to the client and waits for the answers.
func (r *run) ask(requests mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	ctx, in := r.attached()
	if in == nil {
		return nil, errNobody
	}
	for _, q := range requests {
		if !in.can(q) {
			return nil, errNobody
		}
	}
	if in.version < stateless {
		return askSession(ctx, in.session, requests)
	}
	q := &question{requests: requests, answer: make(chan mcp.InputResponseMap, 1)}
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

// askSession sends requests to a client with a session, all at the same time.
//
//nolint:staticcheck // revisions before 2026-07-28 have sampling and roots
func askSession(ctx context.Context, session *mcp.ServerSession, requests mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	answers := make(mcp.InputResponseMap, len(requests))
	for key, request := range requests {
		all.Go(func() {
			var a mcp.InputResponse
			var err error
			switch p := request.(type) {
			case *mcp.ElicitParams:
				a, err = session.Elicit(ctx, p)
			case *mcp.CreateMessageWithToolsParams:
				a, err = session.CreateMessageWithTools(ctx, p)
			case *mcp.ListRootsParams:
				a, err = session.ListRoots(ctx, p)
			default:
				err = errNobody
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			answers[key] = a
		})
	}
	all.Wait()
	return answers, errors.Join(errs...)
}

// begin starts a call in a new goroutine.
func (l *parkedCalls) begin(ctx context.Context, in *incoming, call func(*run) *tool.Result) *run {
	// A client without a session continues the call in another request, so the call must outlive the current request.
	own, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &run{ctx: own, stop: stop, bound: in.hash(), owner: in.owner(), asks: make(chan *question), done: make(chan struct{})}
	r.attach(ctx, in)
	go func() {
		defer close(r.done)
		r.result = call(r)
	}()
	return r
}

// wait waits for the end of a call or for its next question.
func (l *parkedCalls) wait(ctx context.Context, r *run) outcome {
	select {
	case <-r.done:
		r.stop(nil)
		return outcome{result: r.result}
	case q := <-r.asks:
		return l.hold(r, q)
	case <-ctx.Done(): // the client canceled its call or disconnected
		r.stop(context.Cause(ctx))
		<-r.done
		return outcome{result: r.result}
	}
}

// hold parks a call and returns its question.
func (l *parkedCalls) hold(r *run, q *question) outcome {
	r.detach()
	state, err := l.park(r, q)
	if err != nil {
		r.stop(err)
		<-r.done
		return outcome{result: r.result}
	}
	return outcome{requests: q.requests, state: state}
}

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

// resume continues a parked call with the client's answers, and waits for its end or its next question. If an answer is
// missing, it returns the question again. It returns an error if the state is unknown or belongs to another call.
func (l *parkedCalls) resume(ctx context.Context, in *incoming) (outcome, error) {
	w := l.take(in.state)
	if w == nil || w.bound != in.hash() {
		if w != nil {
			w.stop(errors.New("the requestState was used for another call"))
		}
		return outcome{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the requestState is unknown, used, expired or from another call; call again without requestState"}
	}
	w.timer.Stop()
	answers := make(mcp.InputResponseMap, len(w.question.requests))
	for key := range w.question.requests {
		if in.responses[key] == nil {
			return l.hold(w.run, w.question), nil
		}
		answers[key] = in.responses[key]
	}
	w.attach(ctx, in)
	w.question.answer <- answers
	return l.wait(ctx, w.run), nil
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
