package engine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"toolhost.dev/host/internal/control"
)

// AskQueue contains open asks that people can answer through another host.
type AskQueue interface {
	// Open returns the open asks, in the format of GET /v1/asks.
	Open() (json.RawMessage, error)
	// Answer answers an ask. The argument is the body of an answer, with the fields id and by.
	Answer(body json.RawMessage) error
}

// OfferAsks lets people answer the asks of this host through another host of the same user.
func (e *Engine) OfferAsks(q AskQueue) { e.asks.Store(&q) }

// controlAsks runs a request about the asks of this host from another host.
func (e *Engine) controlAsks(op string, args json.RawMessage) (any, error) {
	q := e.asks.Load()
	switch {
	case q != nil && op == control.OpAsks:
		return (*q).Open()
	case q != nil:
		return struct{}{}, (*q).Answer(args)
	case op == control.OpAsks:
		return []any{}, nil
	}
	return nil, errors.New("this host has no open ask")
}

// askOthers limits the time for which another host is asked.
const askOthers = 2 * time.Second

// others returns the control sockets of the other hosts of the user with the same state directory.
func (e *Engine) others() []control.Socket {
	if e.home.Root == "" {
		return nil
	}
	var out []control.Socket
	for _, s := range control.Sockets(e.home.Control()) {
		if s.PID != os.Getpid() {
			out = append(out, s)
		}
	}
	return out
}

// each sends a request to all other hosts at once and calls done with each result, one after the other. It ignores hosts that
// do not answer within askOthers: they end, hang, or have an older version.
func each[T any](ctx context.Context, e *Engine, op string, done func(pid int, result T)) {
	ctx, cancel := context.WithTimeout(ctx, askOthers)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, s := range e.others() {
		wg.Go(func() {
			var result T
			if s.Ask(ctx, op, nil, &result) == nil {
				mu.Lock()
				defer mu.Unlock()
				done(s.PID, result)
			}
		})
	}
	wg.Wait()
}

// Supervised reports whether people can answer asks of this host through another host.
func (e *Engine) Supervised(ctx context.Context) (supervised bool) {
	each(ctx, e, control.OpSupervises, func(_ int, yes bool) { supervised = supervised || yes })
	return supervised
}

// AsksOfOthers returns the open asks of the other hosts by their process ids. It skips hosts that do not answer.
func (e *Engine) AsksOfOthers(ctx context.Context) map[int]json.RawMessage {
	out := make(map[int]json.RawMessage)
	each(ctx, e, control.OpAsks, func(pid int, list json.RawMessage) { out[pid] = list })
	return out
}

var errGone = errors.New("the process that asked has ended")

// AnswerOther answers an ask of another host. See [AskQueue].
func (e *Engine) AnswerOther(ctx context.Context, pid int, body json.RawMessage) error {
	ctx, cancel := context.WithTimeout(ctx, askOthers)
	defer cancel()
	for _, s := range e.others() {
		if s.PID == pid {
			var none struct{}
			return s.Ask(ctx, control.OpAnswer, body, &none)
		}
	}
	return errGone
}
