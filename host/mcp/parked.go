package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
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
	states   states

	mu      sync.Mutex
	byState map[string]*waiting // the key is the state that the client returns with its answer
	closed  bool
}

func newParkedCalls(patience time.Duration, key sealer, log *slog.Logger) *parkedCalls {
	return &parkedCalls{patience: patience, byState: make(map[string]*waiting), states: states{
		key: key, log: log, patience: patience, process: rand.Text(), now: time.Now,
	}}
}

// run is a running call. The client can continue the call with several requests, one after another.
type run struct {
	ctx  context.Context
	stop context.CancelCauseFunc
	// bound is a hash of the call's function, arguments and client. The hash prevents the client from continuing the
	// call with a different request.
	bound [sha256.Size]byte
	owner string // the name of the principal
	// earlier is not nil if the call continues a call of another process. The question of that call is not asked again.
	earlier *continued
	asks    chan *question
	done    chan struct{}
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
	// continuation is what another process needs to continue the call; nil if only this process can continue it.
	continuation []byte
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
func (r *run) ask(requests mcp.InputRequestMap, continuation []byte) (mcp.InputResponseMap, error) {
	if answers := r.earlier.answer(requests, continuation); answers != nil {
		return answers, nil
	}
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
	q := &question{requests: requests, answer: make(chan mcp.InputResponseMap, 1), continuation: continuation}
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
func askSession(ctx context.Context, session *mcp.ServerSession,
	requests mcp.InputRequestMap) (mcp.InputResponseMap, error) {
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

// begin starts a call in a new goroutine. If the call continues a call of another process, earlier is not nil.
func (l *parkedCalls) begin(ctx context.Context, in *incoming, earlier *continued, call func(*run) *tool.Result) *run {
	// A client without a session continues the call in another request, so the call must outlive the current request.
	own, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &run{ctx: own, stop: stop, bound: in.hash(), owner: in.owner(), earlier: earlier, asks: make(chan *question),
		done: make(chan struct{})}
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
	return outcome{requests: q.requests, state: l.states.wrap(r, state, q.continuation)}
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
	case l.countOf(r.owner) >= maxParked:
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

// countOf returns the number of parked calls of a principal. The caller must hold the lock.
func (l *parkedCalls) countOf(owner string) (n int) {
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

// takeFor removes and returns the parked call that a request continues. It returns nil if there is no such call. The
// call of another request remains parked.
func (l *parkedCalls) takeFor(in *incoming, state string) *waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.byState[state]
	if w == nil || w.bound != in.hash() {
		return nil
	}
	delete(l.byState, state)
	return w
}

// resume continues a parked call with the client's answers, and waits for its end or its next question. If an answer is
// missing, it returns the question again. If the call is parked in another process, resume returns what the caller
// needs to begin it here. It returns an error if the state is unknown or belongs to another call.
func (l *parkedCalls) resume(ctx context.Context, in *incoming) (outcome, *continued, error) {
	ticket, earlier, err := l.states.unwrap(in)
	if err != nil || earlier != nil {
		return outcome{}, earlier, err
	}
	w := l.takeFor(in, ticket)
	if w == nil {
		return outcome{}, nil, errState
	}
	w.timer.Stop()
	answers := make(mcp.InputResponseMap, len(w.question.requests))
	for key := range w.question.requests {
		if in.responses[key] == nil {
			return l.hold(w.run, w.question), nil, nil
		}
		answers[key] = in.responses[key]
	}
	w.attach(ctx, in)
	w.question.answer <- answers
	return l.wait(ctx, w.run), nil, nil
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

// errState is the only error for a requestState. It has no details, because they would help to forge one.
var errState = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the requestState is unknown, used, expired or from another call; call again without requestState"}

// sealer encrypts and authenticates values for their way through a client; see [host.Host.Seal].
type sealer interface {
	Seal(value, purpose []byte) (string, error)
	Unseal(text string, purpose []byte) ([]byte, error)
}

// states wraps the states of parked calls that another process can continue. Such a state contains all that the other
// process needs. The state of any other parked call is its random name.
type states struct {
	key      sealer
	log      *slog.Logger
	patience time.Duration
	process  string // identifies this process
	now      func() time.Time
}

const (
	// wrapped is the prefix of a wrapped state. The name of a parked call has only letters and digits.
	wrapped = "t1."
	// maxContinuation is the maximum size of a wrapped continuation, in bytes. Only this process can continue a call
	// with a larger one.
	maxContinuation = 256 << 10
)

// stateValue is the content of a wrapped state. The client, the request and the place are not in it: they are the
// purpose for which it is sealed.
type stateValue struct {
	Process      string `json:"process"`
	Ticket       string `json:"ticket"` // the name of the parked call in this process
	Expires      int64  `json:"expires"`
	Continuation []byte `json:"continuation"`
}

// continued is a call that another process began.
type continued struct {
	continuation []byte
	answers      mcp.InputResponseMap
}

// answer returns the answers that the client sent, if they belong to the given question. Otherwise it returns nil.
func (c *continued) answer(requests mcp.InputRequestMap, continuation []byte) mcp.InputResponseMap {
	if c == nil || continuation == nil || !bytes.Equal(continuation, c.continuation) {
		return nil
	}
	answers := make(mcp.InputResponseMap, len(requests))
	for key := range requests {
		if c.answers[key] == nil {
			return nil
		}
		answers[key] = c.answers[key]
	}
	return answers
}

// wrap returns the state for the client of a parked call.
func (s *states) wrap(r *run, ticket string, continuation []byte) string {
	if continuation == nil || len(continuation) > maxContinuation {
		return ticket
	}
	value, err := json.Marshal(stateValue{s.process, ticket, s.now().Add(s.patience).Unix(), continuation})
	if err != nil {
		return ticket
	}
	text, err := s.key.Seal(value, r.bound[:])
	if err != nil {
		s.log.Warn("only this process can continue a call that waits for an answer", "why", err)
		return ticket
	}
	return wrapped + text
}

// unwrap returns the name of the parked call that a request continues. If the call is parked in another process, unwrap
// returns what is needed to begin it here.
func (s *states) unwrap(in *incoming) (ticket string, earlier *continued, err error) {
	text, ok := strings.CutPrefix(in.state, wrapped)
	if !ok {
		return in.state, nil, nil
	}
	bound := in.hash()
	value, err := s.key.Unseal(text, bound[:])
	if err != nil {
		if !errors.Is(err, host.ErrSealed) {
			s.log.Warn("a requestState cannot be checked", "why", err)
		}
		return "", nil, errState
	}
	var v stateValue
	if err := json.Unmarshal(value, &v); err != nil || s.now().Unix() >= v.Expires {
		return "", nil, errState
	}
	if v.Process == s.process {
		return v.Ticket, nil, nil
	}
	return "", &continued{v.Continuation, in.responses}, nil
}
