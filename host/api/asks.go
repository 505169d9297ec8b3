package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// Asks is a queue of asks. A call waits in it until an HTTP request answers its ask. It is safe for concurrent use.
type Asks struct {
	patience time.Duration

	mu      sync.Mutex
	waiting []*asked
}

// asked is a queued ask. Its call waits for the answer.
type asked struct {
	ID string `json:"id"`
	// Principal is the name of the caller.
	Principal string `json:"principal"`
	// Digest is a hash of the content of the ask. An answer with a digest applies only if the content still has this
	// digest.
	Digest string `json:"digest"`
	// One of Permission and Question is set, depending on the kind of the ask.
	Permission *tool.Permission `json:"permission,omitempty"`
	Question   *tool.Question   `json:"question,omitempty"`
	Since      time.Time        `json:"since"`
	Until      time.Time        `json:"until"`

	answer chan tool.Answer
}

// NewAsks returns an empty queue. An ask that nobody answers leaves the queue after the given time.
func NewAsks(patience time.Duration) *Asks { return &Asks{patience: patience} }

// Client returns a client for the calls of a principal. It queues their asks and ignores all other events. A nil
// principal is the local user.
func (q *Asks) Client(p *host.Principal) host.Client {
	name := ""
	if p != nil {
		name = p.Name
	}
	return &asker{q: q, principal: name}
}

type asker struct {
	q         *Asks
	principal string
}

// Progress implements [host.Client]. It does nothing, because an HTTP response contains only the result.
func (*asker) Progress(string, map[string]any) {}

// Output implements [host.Client]. It does nothing, because an HTTP response contains only the result.
func (*asker) Output(tool.Stream, []byte) {}

// maxAsks is the maximum number of asks of a principal in the queue.
const maxAsks = 256

// Ask implements [host.Client]. It waits for an answer over HTTP.
func (c *asker) Ask(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	q, now := c.q, time.Now()
	a := &asked{
		ID: rand.Text(), Principal: c.principal, Digest: host.AskDigest(ask), Permission: ask.Permission,
		Question: ask.Question,
		Since:    now, Until: now.Add(q.patience), answer: make(chan tool.Answer, 1),
	}
	q.mu.Lock()
	own := 0
	for _, other := range q.waiting {
		if other.Principal == c.principal {
			own++
		}
	}
	full := own >= maxAsks
	if !full {
		q.waiting = append(q.waiting, a)
	}
	q.mu.Unlock()
	if full {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: "too many questions of this principal are waiting for an answer"}, nil
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

// find returns an ask in the queue, or nil if the ask is unknown.
func (q *Asks) find(id string) *asked {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.waiting, func(a *asked) bool { return a.ID == id })
	if i < 0 {
		return nil
	}
	return q.waiting[i]
}

// take removes an ask from the queue. It returns nil if the ask is unknown.
func (q *Asks) take(id string) *asked {
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

// sees reports whether a principal can see an ask.
func (a *asked) sees(p *host.Principal) bool {
	return p == nil || p.Sees(a.Principal) || p.MayAnswer(a.Principal)
}

func (s *server) listAsks(w http.ResponseWriter, r *http.Request) {
	list := []*asked{}
	s.asks.mu.Lock()
	for _, a := range s.asks.waiting {
		if a.sees(Principal(r.Context())) {
			list = append(list, a)
		}
	}
	s.asks.mu.Unlock()
	for _, a := range s.others.get(r.Context(), s.host) {
		if a.sees(Principal(r.Context())) {
			list = append(list, a)
		}
	}
	reply(w, http.StatusOK, list)
}

// answerBody is the body of an answer.
type answerBody struct {
	Outcome tool.Outcome `json:"outcome"`
	Values  []string     `json:"values"`
	Message string       `json:"message"`
	Digest  string       `json:"digest"`
}

func (s *server) answerAsk(w http.ResponseWriter, r *http.Request) {
	const form = `{"outcome": "accepted" or "declined", "values": ["the chosen or typed text"]}`
	var given answerBody
	if !decode(w, r, &given, form) {
		return
	}
	if given.Outcome != tool.Accepted && given.Outcome != tool.Declined {
		refuse(w, http.StatusBadRequest, tool.InvalidArguments, "the answer is invalid; send "+form)
		return
	}
	id, p := r.PathValue("id"), Principal(r.Context())
	if s.answerOther(w, r, id, &given) {
		return
	}
	a := s.asks.find(id)
	if a != nil && a.sees(p) {
		if code, kind, why := a.forbids(p, &given); code != 0 {
			refuse(w, code, kind, why)
			return
		}
		a = s.asks.take(id) // nil if somebody else has answered meanwhile
	} else {
		a = nil
	}
	if a == nil {
		refuse(w, http.StatusNotFound, tool.NotFound, notOpen(id).Error())
		return
	}
	answer := tool.Answer{Outcome: given.Outcome, Values: given.Values, Message: given.Message}
	if p != nil {
		answer.By = p.Name
	}
	a.answer <- answer
	reply(w, http.StatusOK, map[string]any{"id": a.ID, "outcome": given.Outcome})
}

// notOpen returns the error about an ask that is not in the queue.
func notOpen(id string) error {
	return fmt.Errorf("no question with the id %q is open: it was answered, its time is over, or its call was canceled; GET /v1/asks lists the open ones", strings.ToValidUTF8(id, "?"))
}

// forbids returns an HTTP status and the reason why a principal must not give an answer. The status is 0 if the
// principal may give the answer.
func (a *asked) forbids(p *host.Principal, given *answerBody) (code int, kind tool.Kind, why string) {
	if given.Digest != "" && given.Digest != a.Digest {
		return http.StatusConflict, tool.Conflict, "the answer is for another content of the ask; read GET /v1/asks again"
	}
	if p == nil || a.Permission == nil && p.Name == a.Principal { // the caller answers its own questions
		return 0, "", ""
	}
	if p.Name == a.Principal {
		return http.StatusForbidden, tool.PermissionDenied, fmt.Sprintf("principal %q asked for this permission, so another principal must answer; use a token of an approver: toolhost token create NAME --role approver", p.Name)
	}
	if !p.MayAnswer(a.Principal) {
		return http.StatusForbidden, tool.PermissionDenied, fmt.Sprintf("principal %q may not answer for principal %q; ask the operator to grant it in answers_for", p.Name, a.Principal)
	}
	lasting := func(scope string) bool { return scope == host.ScopeAlways || scope == host.ScopeNever }
	if a.Permission != nil && slices.ContainsFunc(given.Values, lasting) && !p.Has(host.RightAdminister) {
		return http.StatusForbidden, tool.PermissionDenied,
			fmt.Sprintf("principal %q needs the right administer to answer %q or %q; answer %q or %q", p.Name, host.ScopeAlways, host.ScopeNever, host.ScopeOnce, host.ScopeSession)
	}
	return 0, "", ""
}
