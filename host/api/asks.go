package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/sdk/tool"
)

// asks is the client of calls over HTTP. It queues asks until an HTTP request answers them.
type asks struct {
	patience time.Duration

	mu      sync.Mutex
	waiting []*asked
}

// asked is a queued ask. Its call waits for the answer.
type asked struct {
	ID string `json:"id"`
	// One of Permission and Question is set, depending on the kind of the ask.
	Permission *tool.Permission `json:"permission,omitempty"`
	Question   *tool.Question   `json:"question,omitempty"`
	Since      time.Time        `json:"since"`
	Until      time.Time        `json:"until"`

	answer chan tool.Answer
}

func newAsks(patience time.Duration) *asks { return &asks{patience: patience} }

// Progress implements [host.Client]. It does nothing, because an HTTP response contains only the result.
func (*asks) Progress(string, map[string]any) {}

// Output implements [host.Client]. It does nothing, because an HTTP response contains only the result.
func (*asks) Output(tool.Stream, []byte) {}

// maxAsks is the maximum length of the queue.
const maxAsks = 1024

// Ask implements [host.Client]. It waits for an answer over HTTP.
func (q *asks) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	now := time.Now()
	a := &asked{ID: rand.Text(), Permission: ask.Permission, Question: ask.Question, Since: now, Until: now.Add(q.patience), answer: make(chan tool.Answer, 1)}
	q.mu.Lock()
	full := len(q.waiting) >= maxAsks
	if !full {
		q.waiting = append(q.waiting, a)
	}
	q.mu.Unlock()
	if full {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: "too many questions are waiting for an answer"}, nil
	}
	defer q.take(a.ID)
	timer := time.NewTimer(q.patience)
	defer timer.Stop()
	select {
	case answer := <-a.answer:
		return answer, nil
	case <-timer.C:
		return tool.Answer{Outcome: tool.AnswerTimeout, Message: "nobody answered in time; answer with POST /v1/asks/ID"}, nil
	case <-ctx.Done():
		return tool.Answer{}, ctx.Err()
	}
}

// take removes an ask from the queue. It returns nil if the ask is unknown.
func (q *asks) take(id string) *asked {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.waiting, func(a *asked) bool { return a.ID == id })
	if i < 0 {
		return nil
	}
	a := q.waiting[i]
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return a
}

func (s *server) listAsks(w http.ResponseWriter, _ *http.Request) {
	s.asks.mu.Lock()
	list := slices.Clone(s.asks.waiting)
	s.asks.mu.Unlock()
	if list == nil {
		list = []*asked{}
	}
	reply(w, http.StatusOK, list)
}

func (s *server) answerAsk(w http.ResponseWriter, r *http.Request) {
	var given struct {
		Outcome tool.Outcome `json:"outcome"`
		Values  []string     `json:"values"`
		Message string       `json:"message"`
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&given); err != nil || given.Outcome != tool.Accepted && given.Outcome != tool.Declined {
		refuse(w, http.StatusBadRequest, tool.InvalidArguments, `the answer is invalid; send {"outcome": "accepted" or "declined", "values": ["the chosen or typed text"]}`)
		return
	}
	id := r.PathValue("id")
	a := s.asks.take(id)
	if a == nil {
		refuse(w, http.StatusNotFound, tool.NotFound, fmt.Sprintf("no question with the id %q is open; it was answered, or its time is over", strings.ToValidUTF8(id, "?")))
		return
	}
	a.answer <- tool.Answer{Outcome: given.Outcome, Values: given.Values, Message: given.Message}
	reply(w, http.StatusOK, map[string]any{"id": a.ID, "outcome": given.Outcome})
}
