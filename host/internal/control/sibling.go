package control

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Hosts provides access to the other hosts, and holds the features that this host offers to them. The fields must not
// change after the first use. All methods are safe for concurrent use.
type Hosts struct {
	// Dir returns the directory of the control sockets. It returns "" if the host keeps no state.
	Dir func() string
	// Share makes the changes of sessions visible to other hosts, from then on.
	Share func() error

	asks     atomic.Pointer[AskQueue]
	console  atomic.Pointer[func() string] // returns a link to the web console; nil without a console
	handover handover
}

// AskQueue contains open asks that people can answer through another host.
type AskQueue interface {
	// Open returns the open asks, in the format of GET /v1/asks.
	Open() (json.RawMessage, error)
	// Answer answers an ask. The argument is the body of an answer, with the fields id and by.
	Answer(body json.RawMessage) error
}

// OfferAsks lets people answer the asks of this host through another host of the same user.
func (h *Hosts) OfferAsks(q AskQueue) { h.asks.Store(&q) }

// AnswerAsks runs a request about the asks of this host from another host.
func (h *Hosts) AnswerAsks(op string, args json.RawMessage) (any, error) {
	q := h.asks.Load()
	switch {
	case q != nil && op == OpAsks:
		return (*q).Open()
	case q != nil:
		return struct{}{}, (*q).Answer(args)
	case op == OpAsks:
		return []any{}, nil
	}
	return nil, errors.New("this host has no open ask")
}

// askOthers limits the time for which another host is asked.
const askOthers = 2 * time.Second

// others returns the control sockets of the hosts that use the same state directory, without the socket of this host.
func (h *Hosts) others() []Socket {
	dir := h.Dir()
	if dir == "" {
		return nil
	}
	var out []Socket
	for _, s := range Sockets(dir) {
		if s.PID != os.Getpid() {
			out = append(out, s)
		}
	}
	return out
}

// each sends a request to all other hosts at once and calls done with each result, one after the other. It ignores
// hosts that do not answer within askOthers: they end, hang, or have an older version.
func each[T any](ctx context.Context, h *Hosts, op string, done func(pid int, result T)) {
	ctx, cancel := context.WithTimeout(ctx, askOthers)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, s := range h.others() {
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
func (h *Hosts) Supervised(ctx context.Context) (supervised bool) {
	each(ctx, h, OpSupervises, func(_ int, yes bool) { supervised = supervised || yes })
	return supervised
}

// AsksOfOthers returns the open asks of the other hosts by their process ids. It skips hosts that do not answer.
func (h *Hosts) AsksOfOthers(ctx context.Context) map[int]json.RawMessage {
	out := make(map[int]json.RawMessage)
	each(ctx, h, OpAsks, func(pid int, list json.RawMessage) { out[pid] = list })
	return out
}

var errGone = errors.New("the process that asked has ended")

// AnswerOther answers an ask of another host. See [AskQueue].
func (h *Hosts) AnswerOther(ctx context.Context, pid int, body json.RawMessage) error {
	ctx, cancel := context.WithTimeout(ctx, askOthers)
	defer cancel()
	for _, s := range h.others() {
		if s.PID == pid {
			var none struct{}
			return s.Ask(ctx, OpAnswer, body, &none)
		}
	}
	return errGone
}

// Console is the answer to a request for a link to the web console.
type Console struct {
	URL string `json:"url"`
}

// OfferConsole lets other processes of the same user get links to the web console of this host. The function "link"
// returns a new link.
func (h *Hosts) OfferConsole(link func() string) { h.console.Store(&link) }

// ConsoleLink returns a new link to the web console.
func (h *Hosts) ConsoleLink() (*Console, error) {
	link := h.console.Load()
	if link == nil {
		return nil, errors.New("this host has no web console, because it does not serve HTTP")
	}
	return &Console{URL: (*link)()}, nil
}

// HasConsole reports whether this host has a web console.
func (h *Hosts) HasConsole() bool { return h.console.Load() != nil }
